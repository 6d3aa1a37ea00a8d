//! The ordered list of sgd algorithms.

use super::{SgdProblem, cpu, list, naive};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::BatchSplit;
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};

#[allow(private_interfaces)]
impl Operation for SgdProblem {
    const PASSES: &'static [&'static str] = &["update"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Elementwise), &list::List, &naive::Naive]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        Err(Refusal::new("has no batch: its tensors are a network's parameters"))
    }
}
