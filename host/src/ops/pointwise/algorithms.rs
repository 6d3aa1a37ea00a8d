//! The ordered list of pointwise algorithms.

use super::{PointwisePass, PointwiseProblem, Specialized, Streamed, cpu, naive};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::{BatchSplit, Share};
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};

/// The names of all passes.
const PASSES: [&str; PointwisePass::ALL.len()] = {
    let mut names = [""; PointwisePass::ALL.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = PointwisePass::ALL[i].name();
        i += 1;
    }
    names
};

#[allow(private_interfaces)]
impl Operation for PointwiseProblem {
    const PASSES: &'static [&'static str] = &PASSES;
    const DTYPES: &'static [DType] = &DType::ALL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Rows), &Specialized, &Streamed, &naive::Naive]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        if self.index_axes().any(|axis| axis == 0) {
            return Err(Refusal::new("counts the images of the whole batch"));
        }
        let images = self.c().dims()[0];
        BatchSplit::new(self, |operand| match operand.desc.dims()[0] {
            1 if images > 1 => Share::Whole,
            _ => Share::Along(0),
        })
    }
}
