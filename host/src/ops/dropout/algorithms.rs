//! The ordered list of dropout algorithms.

use super::{DropoutProblem, cpu, naive, vectorized};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::BatchSplit;
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};

#[allow(private_interfaces)]
impl Operation for DropoutProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Elementwise), &vectorized::Vectorized, &naive::Naive]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        Err(Refusal::new("draws its numbers by the place of an element in the whole tensor"))
    }
}
