//! The ordered list of pointwise algorithms.

use super::{PointwiseProblem, cpu, naive};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::operators::Operation;
use crate::select::Algorithm;

#[allow(private_interfaces)]
impl Operation for PointwiseProblem {
    const PASSES: &'static [&'static str] = &["add", "mul", "min", "max", "sqrt", "not", "scale", "set"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Rows), &naive::Naive]
    }
}
