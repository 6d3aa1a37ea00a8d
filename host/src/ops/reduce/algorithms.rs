//! The ordered list of reduction algorithms.

use super::{ReduceProblem, cpu, naive, vectorized};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::{BatchSplit, Share};
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};
use kernel_abi::ops::reduce::ReducePass;

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

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        if self.x().dims()[0] == self.y().dims()[0] {
            return BatchSplit::along_first(self);
        }
        match self.reduce_pass() {
            ReducePass::Add | ReducePass::Norm1 | ReducePass::SumSquare => {
                BatchSplit::new(self, |operand| if operand.name == "y" { Share::Sum } else { Share::Along(0) })
            }
            other => Err(Refusal(format!("reduces the first dimension by {other}, which is no sum of parts"))),
        }
    }
}
