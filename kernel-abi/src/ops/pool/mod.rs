//! Pooling: the maximum, the average or the norm of a window that slides over each channel, or of bins that share it out.
//!
//! Forward, in two spatial dimensions (one and three likewise), with u, v strides, e, f dilations and h₀ = p u - pad:
//!
//! - `max`: `y[n,c,p,q] = max over r, s of x[n, c, h₀ + e r, w₀ + f s]` where that lies inside the image;
//! - `average_include_padding`: the sum of those over the number of window positions inside the padded image, which is R S
//!   but where `ceil` lets a window reach beyond the padding;
//! - `average_exclude_padding`: the sum of those over their number;
//! - `lp`: `(Σ |x|^p)^(1/p)` over those, for a real `p` of at least 1.
//!
//! Bins are windows without padding that share the image out: output p has positions ⌊p H / P⌋ to ⌈(p+1) H / P⌉ - 1. Bins
//! of all-one extents are global pooling.
//!
//! Backward is the gradient of Σ dy y by x. For `max` it goes to the first maximum of each window in row-major order.
//! It is found again from x, so y is not an operand; or it is read from `index`, which forward wrote if it was asked to.
//! For `lp` it is `Σ dy sign(x) (|x| / y)^(p-1)`, y computed again, 0 where x is. Averages need dy only.
//!
//! `index` is the position of each window's first maximum in x: its row-major number in the image plane `[D, H, W]`
//! (`plane`), or in all of x (`tensor`), whatever the strides; i32 or i64. Backward, an index outside its window counts
//! as none: its dy goes nowhere.
//!
//! A NaN counts as larger than any number (`nan=propagate`), or as smaller (`nan=ignore`), in `max`; the first of several
//! wins. A window of nothing but NaNs gives NaN either way.
//!
//! | dimension | meaning |
//! | --- | --- |
//! | N, C | batch, channels |
//! | D, H, W | input extents; P = (H + pad + pad_end - e (R - 1) - 1) / u + 1, rounded down, or with `ceil` up |
//! | T, R, S | window extents |
//! | Z, P, Q | output extents |
//!
//! With `ceil`, a last window that would begin in the padding at the end, or beyond, is left out, as in PyTorch and ONNX.
//! Tensors are `[N, C, spatial...]` of rank 3 to 5 with any strides and one element type, but for `index`; sums in the
//! accumulator type. Every window must hold some of the image, so padding is smaller than a window. Deterministic: each
//! element of dx gathers its own sum.
//!
//! Sources: the operators MaxPool, AveragePool, LpPool and their global forms of ONNX, `adaptive_*_pool` of PyTorch,
//! `cudnnPoolingForward` and `cudnnPoolingBackward`.

mod axis;
#[cfg(not(target_arch = "nvptx64"))]
pub(super) mod desc;
mod kernels;
mod params;
mod planes;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;
mod ring_rows;
mod rows_mma;
mod strips;
mod tiles;
mod whole;

pub use axis::{PoolAxis, first_place, place};
#[cfg(not(target_arch = "nvptx64"))]
pub use desc::PoolDesc;
pub use params::PoolParams;
pub use planes::{COLUMN_THREADS, PLANE_THREADS, POOL_MAX_AHEAD, PoolPlaneParams, plane_halo};
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{PoolProblem, PoolShape};
pub use ring_rows::{
    PoolRingRowsParams, RING_ROWS_BLOCKS, RING_ROWS_COLUMN_BYTES, RING_ROWS_HALO, RING_ROWS_LANES, RING_ROWS_MOVERS,
    RING_ROWS_NO_WINDOW, RING_ROWS_OUTSIDE, RING_ROWS_PARTS, RING_ROWS_PERIOD, RING_ROWS_RESULTS, RING_ROWS_SIDE,
    RING_ROWS_SPAN, RING_ROWS_STEP, RING_ROWS_STRIDE, RING_ROWS_VECTORS, RING_ROWS_WARPS, RingRowsTile,
};
pub use rows_mma::{
    PoolRowsMmaParams, ROWS_MMA_CHANNELS, ROWS_MMA_COLUMN_BYTES, ROWS_MMA_HALO, ROWS_MMA_MARGIN, ROWS_MMA_MOVERS,
    ROWS_MMA_PARTS, ROWS_MMA_RESULTS, ROWS_MMA_SCRAP_BYTES, ROWS_MMA_SLICE, ROWS_MMA_SPAN, ROWS_MMA_STEP,
    ROWS_MMA_WARPS, RowsMmaTile,
};
pub use strips::{MAX_EXTENT, PoolStripParams, WindowAxis};
pub use tiles::{PoolTileParams, TILE_LANES, TILE_THREADS};
pub use whole::{PoolWholeParams, WHOLE_LANES, WHOLE_THREADS};

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolPass {
    /// `x` to `y`, and `index` if wanted.
    Forward,
    /// `dy`, with `x` for max and lp or `index` for max, to `dx`.
    Backward,
}

crate::text_enum!(PoolPass { Forward = "forward", Backward = "backward" });

/// What becomes of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PoolMode {
    /// Its maximum.
    Max = 0,
    /// Its sum over its size, padding counted.
    AverageIncludePadding = 1,
    /// Its sum over the number of its elements inside the image.
    AverageExcludePadding = 2,
    /// Its norm.
    Lp = 3,
}

crate::text_enum!(PoolMode {
    Max = "max",
    AverageIncludePadding = "average_include_padding",
    AverageExcludePadding = "average_exclude_padding",
    Lp = "lp",
});

/// What a NaN counts as in a maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PoolNan {
    /// Larger than any number.
    #[default]
    Propagate = 0,
    /// Smaller than any number.
    Ignore = 1,
}

crate::text_enum!(PoolNan { Propagate = "propagate", Ignore = "ignore" });

/// Where the numbers of `index` begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum IndexBase {
    /// Each image plane's first element is 0, as in PyTorch.
    #[default]
    Plane = 0,
    /// The first element of x is 0, as in ONNX.
    Tensor = 1,
}

crate::text_enum!(IndexBase { Plane = "plane", Tensor = "tensor" });
