//! The ordered list of activation algorithms.

use super::{ActivationProblem, cpu, naive, streamed};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::operators::Operation;
use crate::select::Algorithm;

#[allow(private_interfaces)]
impl Operation for ActivationProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Elementwise), &streamed::Streamed, &naive::Naive]
    }
}
