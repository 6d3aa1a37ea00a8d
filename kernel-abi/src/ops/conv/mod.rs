//! Convolution of 1, 2 or 3 spatial dimensions, with groups.
//!
//! For batch n, group g, output channel k of that group, and output position (z, p, q):
//!
//! `y[n, k, z, p, q] = alpha · Σ_{c, t, r, s} x[n, g·C/G + c, d, h, w] · w[k, c, t, r, s] + beta · y[n, k, z, p, q]`
//!
//! with `d = z · stride + t · dilation - padding`, and likewise h from (p, r) and w from (q, s); terms whose position
//! lies outside of x are left out. This is mode `cross_correlation`; mode `convolution` reads the filter from its far
//! end, `w[k, c, T - 1 - t, R - 1 - r, S - 1 - s]`.
//!
//! | pass | from | to | sum over |
//! | --- | --- | --- | --- |
//! | `fprop` | x, w | y | c, t, r, s |
//! | `dgrad` | dy, w | dx, the gradient by x | k of the group, and every (t, r, s) that meets an output position |
//! | `wgrad` | x, dy | dw, the gradient by w | n, z, p, q |
//!
//! | tensor | extents |
//! | --- | --- |
//! | x, dx | `[N, C, D, H, W]` |
//! | w, dw | `[K, C / G, T, R, S]` |
//! | y, dy | `[N, K, Z, P, Q]`, where `Q = (W + padding + padding_end - (S - 1) · dilation - 1) / stride + 1` |
//!
//! Tensors of rank 4 lack D, T and Z; those of rank 3 also H, R and P. Padding is given for the begin and the end of
//! each axis. Strides of all tensors are free, so NCHW, NHWC, KCRS and KRSC are all one kind of problem. Deterministic.
//!
//! Operands share an element type, `f64`, `f32`, `f16` or `bf16`, and sums are kept in its accumulator. In `fprop`, x and
//! w may also have 8 bits:
//!
//! | x and w | y | sums |
//! | --- | --- | --- |
//! | `i8` | `i8` (saturating, ties to even), `i32`, `f32` | exact, in `i32`; at most 131071 terms |
//! | `f8e4m3` or `f8e5m2` | `f32`, `f16`, `bf16`, `f8e4m3`, `f8e5m2` (saturating) | `f32`, on tensor cores with fewer bits |
//!
//! Numbers of 8 bits stand for their multiples by a scale each tensor has: alpha carries the product of x's and w's scale
//! over y's. [`Math::Tf32`](crate::Math) (`math=tf32`) allows tensor cores to read `f32` operands as tf32,
//! and [`Math::Winograd4x4`](crate::Math) (`math=winograd4x4`) minimal filtering of tiles of 4 × 4 results, as tf32 does.
//!
//! `fprop` may have an [epilogue](crate::epilogue): bias, residual, activation, and the sums of y's channels.

pub mod cp_async_mma;
mod depthwise;
pub mod depthwise_planes;
pub mod depthwise_tma;
pub mod diagonal_mma;
mod explicit_gemm;
pub mod f32_wgmma;
pub mod ffma;
pub mod fft;
pub mod grouped_mma;
pub mod grouped_tma;
pub mod halo_wgmma;
pub mod halo_wgmma_split;
pub mod im2col_cluster;
pub mod im2col_wgmma;
pub mod index;
mod kernels;
pub mod kmajor_wgmma;
pub mod merged_groups;
pub mod overlap_wgmma;
mod packed_rows;
pub mod padded_channels;
mod params;
pub mod pointwise_lanes;
mod pointwise_strided;
mod spread_columns;
pub mod winograd;

#[cfg(not(target_arch = "nvptx64"))]
mod desc;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use depthwise::{
    DepthwiseParams, LOOPED_MAX_FILTER, LOOPED_STRIP, REGION_BYTES, RUN_MAX, TOEPLITZ_MAX_LINES, TOEPLITZ_REGION,
    WINDOWS_GROUPS, WINDOWS_QUAD, WINDOWS_THREADS, toeplitz_pitch,
};
pub use explicit_gemm::ConvWindowsParams;
pub use packed_rows::ConvPackRowsParams;
pub use params::ConvParams;
pub use pointwise_strided::ConvStridedPlanesParams;
pub use spread_columns::ConvPackSpreadParams;

#[cfg(not(target_arch = "nvptx64"))]
pub use desc::{ConvAxis, ConvDesc};
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{ConvProblem, ConvShape};

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConvPass {
    /// `x` and `w` to `y`.
    Fprop,
    /// `dy` and `w` to `dx`.
    Dgrad,
    /// `x` and `dy` to `dw`.
    Wgrad,
}

crate::text_enum!(ConvPass { Fprop = "fprop", Dgrad = "dgrad", Wgrad = "wgrad" });

/// Which end of the filter meets the begin of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ConvMode {
    /// The filter's begin: what networks call a convolution.
    #[default]
    CrossCorrelation,
    /// The filter's end: what mathematics calls a convolution.
    Convolution,
}

crate::text_enum!(ConvMode { CrossCorrelation = "cross_correlation", Convolution = "convolution" });
