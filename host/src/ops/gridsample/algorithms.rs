//! The ordered list of grid sampling algorithms.

use super::{GridSampleProblem, cpu, naive, tiles};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::BatchSplit;
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};

#[allow(private_interfaces)]
impl Operation for GridSampleProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward_data", "backward_grid"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[&CpuAlgorithm(cpu::Planes), &tiles::Tiles, &naive::Naive]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        BatchSplit::along_first(self)
    }
}
