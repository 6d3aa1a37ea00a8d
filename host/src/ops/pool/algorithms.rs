//! The ordered list of pooling algorithms.

use super::{PoolProblem, columns, cpu, naive, nchw_transposed, planes, ring_rows, rows_mma, strips, tiles, whole};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::BatchSplit;
use crate::operators::Operation;
use crate::ops::reduce::Vectorized;
use crate::select::{Algorithm, Refusal};
use kernel_abi::ops::pool::IndexBase;

#[allow(private_interfaces)]
impl Operation for PoolProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[
            &CpuAlgorithm(cpu::Planes),
            &whole::Whole,
            &Vectorized,
            &strips::Strips,
            &planes::Planes,
            &columns::Columns,
            &rows_mma::RowsMma,
            &ring_rows::RingRows,
            &nchw_transposed::NchwTransposed,
            &tiles::Tiles,
            &naive::Naive,
        ]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        if self.index_base() == IndexBase::Tensor {
            return Err(Refusal::new("counts positions through all images, in index"));
        }
        BatchSplit::along_first(self)
    }
}
