//! The ordered list of gathering algorithms.

use super::{GatherProblem, cpu, naive, ranges, rows};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::{BatchSplit, Share};
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};

#[allow(private_interfaces)]
impl Operation for GatherProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward"];
    const DTYPES: &'static [DType] = &DType::ALL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Rows), &rows::Rows, &ranges::Ranges, &naive::Naive]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        // Along the first dimension a batch is one of rows that are gathered; else of what they are gathered from.
        let by_rows = self.axis() == 0;
        BatchSplit::new(self, |operand| match operand.name {
            "x" if by_rows => Share::Whole,
            "dx" if by_rows => Share::Sum,
            "indices" if !by_rows => Share::Whole,
            _ => Share::Along(0),
        })
    }
}
