//! The ordered list of pointwise algorithms.

use super::{PointwisePass, PointwiseProblem, cpu, naive, streamed};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::operators::Operation;
use crate::select::Algorithm;

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
        &[&CpuAlgorithm(cpu::Rows), &streamed::Streamed, &naive::Naive]
    }
}
