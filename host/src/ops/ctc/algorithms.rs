//! The ordered list of ctc algorithms.

use super::{CtcProblem, cpu, naive};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::{BatchSplit, Share};
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};
use kernel_abi::ops::crossentropy::LossReduction;

#[allow(private_interfaces)]
impl Operation for CtcProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Sequences), &naive::Naive]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        let reduction = self.reduction();
        if reduction == LossReduction::Mean {
            return Err(Refusal::new("divides by the number of sequences of the whole batch"));
        }
        BatchSplit::new(self, |operand| match operand.name {
            "loss" if reduction != LossReduction::None => Share::Sum,
            "dloss" if reduction != LossReduction::None => Share::Whole,
            "x" | "dx" => Share::Along(1),
            _ => Share::Along(0),
        })
    }
}
