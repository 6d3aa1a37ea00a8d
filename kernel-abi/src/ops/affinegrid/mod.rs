//! Affine grids: for each position of an image, the place that an affine map takes it to.
//!
//! `grid[n,p,q,i] = Σ_j theta[n,i,j] e_j + theta[n,i,2]`, for i = 0, 1, where e₀ is the normalized coordinate of column q
//! and e₁ that of row p; with three spatial dimensions e₂ is that of the plane, and i = 0, 1, 2. Coordinates run from -1 to
//! 1: of the first and last elements' centres with `align_corners`, `e = (2 q - (Q - 1)) / (Q - 1)`, 0 where Q is 1; of
//! their outer edges without, `e = (2 q + 1 - Q) / Q`.
//!
//! Backward is the gradient of Σ dgrid grid by theta: `dtheta[n,i,j] = Σ_{p,q} dgrid[n,p,q,i] e_j`, with 1 for e₂ in the
//! last column.
//!
//! theta is `[N, 2, 3]` or `[N, 3, 4]`, grid `[N, P, Q, 2]` or `[N, Z, P, Q, 3]`, with any strides and one element type; sums
//! in the accumulator type. Deterministic: sums have a fixed order.
//!
//! Sources: AffineGrid of ONNX (opset 20), `affine_grid` of PyTorch, `cudnnSpatialTfGridGeneratorForward` (align_corners);
//! M. Jaderberg et al., "Spatial transformer networks", 2015.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::AffineGridParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::AffineGridProblem;

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AffineGridPass {
    /// `theta` to `grid`.
    Forward,
    /// `dgrid` to `dtheta`.
    Backward,
}

crate::text_enum!(AffineGridPass { Forward = "forward", Backward = "backward" });

/// The normalized coordinate of a position on an axis.
#[inline(always)]
pub fn coordinate(position: i64, extent: i64, align_corners: bool) -> f64 {
    if !align_corners {
        (2 * position + 1 - extent) as f64 / extent as f64
    } else if extent == 1 {
        0.0
    } else {
        (2 * position + 1 - extent) as f64 / (extent - 1) as f64
    }
}
