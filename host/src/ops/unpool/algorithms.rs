//! The ordered list of max unpooling algorithms.

use super::{UnpoolProblem, cpu, naive};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::operators::Operation;
use crate::select::Algorithm;

#[allow(private_interfaces)]
impl Operation for UnpoolProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Planes), &naive::Naive]
    }
}
