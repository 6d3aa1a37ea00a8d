//! The ordered list of reduction algorithms.

use super::{ReduceProblem, cpu, naive, vectorized};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::operators::Operation;
use crate::select::Algorithm;

#[allow(private_interfaces)]
impl Operation for ReduceProblem {
    const PASSES: &'static [&'static str] = &[
        "add",
        "mul",
        "min",
        "max",
        "amax",
        "avg",
        "norm1",
        "norm2",
        "mul_no_zeros",
        "sum_square",
        "log_sum",
        "log_sum_exp",
    ];
    const DTYPES: &'static [DType] = &DType::ALL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Outputs), &vectorized::Vectorized, &naive::Naive]
    }
}
