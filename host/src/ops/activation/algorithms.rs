//! The ordered list of activation algorithms.

use super::{ActivationProblem, cpu, naive};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::BatchSplit;
use crate::operators::Operation;
use crate::ops::pointwise::{Specialized, Streamed};
use crate::select::{Algorithm, Refusal};

#[allow(private_interfaces)]
impl Operation for ActivationProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Elementwise), &Specialized, &Streamed, &naive::Naive]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        BatchSplit::along_first(self)
    }
}
