//! The ordered list of bias algorithms.

use super::{BiasProblem, cpu, naive};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::{BatchSplit, Share};
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};

#[allow(private_interfaces)]
impl Operation for BiasProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Channels), &naive::Naive]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        BatchSplit::new(self, |operand| match operand.name {
            "bias" => Share::Whole,
            "dbias" => Share::Sum,
            _ => Share::Along(0),
        })
    }
}
