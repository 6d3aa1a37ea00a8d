//! Gathering rows: an embedding, ONNX's Gather.
//!
//! Along one axis of x, with N indices:
//!
//! - forward: `y[…, n, …] = alpha · x[…, indices[n], …] + beta · y[…, n, …]`
//! - backward: `dx[…, r, …] = alpha · (Σ of dy[…, n, …] over all n with indices[n] = r) + beta · dx[…, r, …]`, in the
//!   order of n
//!
//! x and y have equal extents but along the axis, where y has N, and one element type, any of them. The indices are i32
//! or i64, of one dimension; more are a matter of views. A negative index counts from the end. One that is outside even
//! then is no row: forward gives 0 for it, backward leaves it out. Strides are free. Deterministic.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;
mod ranges;
mod rows;

pub use params::GatherParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::GatherProblem;
pub use ranges::{CHUNK_STEP, GatherListedParams, GatherRangesParams, MAX_CHUNKS, MAX_RANGES};
pub use rows::{
    GatherRowsParams, GatherSumParams, INDICES_AT_ONCE, LIST_ROWS, MAX_BLOCK_ROWS, ROWS_AT_ONCE, ROWS_THREADS,
    RowIndices, RowsTensor,
};

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GatherPass {
    /// `x` to `y`.
    Forward,
    /// `dy` to `dx`.
    Backward,
}

crate::text_enum!(GatherPass { Forward = "forward", Backward = "backward" });

/// The row that an index means among `rows`, or -1.
#[inline(always)]
pub const fn row_of(index: i64, rows: i64) -> i64 {
    let row = if index < 0 { index + rows } else { index };
    if row >= 0 && row < rows { row } else { -1 }
}
