//! The ordered list of resampling algorithms.

use super::{ResampleProblem, cpu, naive, tables};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::operators::Operation;
use crate::select::Algorithm;

#[allow(private_interfaces)]
impl Operation for ResampleProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Planes), &tables::Tables, &naive::Naive]
    }
}
