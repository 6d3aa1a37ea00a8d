//! The ordered list of cross-entropy algorithms.

use super::{CrossEntropyProblem, cpu, looped_rows, naive, split_rows};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::{BatchSplit, Share};
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};
use kernel_abi::ops::crossentropy::LossReduction;

#[allow(private_interfaces)]
impl Operation for CrossEntropyProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Rows), &looped_rows::LoopedRows, &split_rows::SplitRows, &naive::Naive]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        let reduction = self.reduction();
        if reduction == LossReduction::Mean && (self.dx().is_none() || self.total().is_none()) {
            return Err(Refusal::new("divides by the weight of the whole batch"));
        }
        BatchSplit::new(self, |operand| match operand.name {
            "weight" | "total" => Share::Whole,
            "loss" if reduction != LossReduction::None => Share::Sum,
            "dloss" if reduction != LossReduction::None => Share::Whole,
            _ => Share::Along(0),
        })
    }
}
