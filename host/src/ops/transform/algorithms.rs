//! The ordered list of transform algorithms.

use super::{TransformProblem, cpu, naive, tiled_permute, tiled_transpose, vectorized_copy};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::BatchSplit;
use crate::operators::Operation;
use crate::ops::pointwise::{Specialized, Streamed};
use crate::select::{Algorithm, Refusal};

#[allow(private_interfaces)]
impl Operation for TransformProblem {
    const PASSES: &'static [&'static str] = &["forward"];
    const DTYPES: &'static [DType] = &DType::ALL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[
            &CpuAlgorithm(cpu::Copy),
            &vectorized_copy::VectorizedCopy,
            &tiled_transpose::TiledTranspose,
            &tiled_permute::TiledPermute,
            &Specialized,
            &Streamed,
            &naive::Naive,
        ]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        BatchSplit::along_first(self)
    }
}
