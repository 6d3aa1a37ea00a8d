//! The ordered list of normalization algorithms.

use super::{NormProblem, channelwise, cpu, naive, row_registers};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::operators::Operation;
use crate::select::Algorithm;

#[allow(private_interfaces)]
impl Operation for NormProblem {
    const PASSES: &'static [&'static str] = &["forward", "inference", "backward", "finalize"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Rows), &row_registers::RowRegisters, &channelwise::Channelwise, &naive::Naive]
    }
}
