//! Grid sampling: an image read at places that a grid names.
//!
//! Forward, in two spatial dimensions (one and three likewise): with (gx, gy) = `grid[n,p,q,:]`,
//!
//! `y[n,c,p,q] = Σ_i Σ_j k(i - h) k(j - w) x[n,c,i,j]`
//!
//! around the place (h, w) in the image, of which w belongs to gx, the first coordinate, and h to gy:
//! `w = (gx + 1) / 2 · (W - 1)` with `align_corners`, where -1 and 1 are the centres of the outermost elements, and
//! `w = ((gx + 1) · W - 1) / 2` without, where they are their outer edges.
//!
//! | mode | k(d) |
//! | --- | --- |
//! | `nearest` | 1 at the nearest position, the even one of two |
//! | `linear` | 1 - abs(d), at least 0 |
//! | `cubic` | that of [`resample`](super::resample), a = -3/4 |
//!
//! | padding | beyond the image |
//! | --- | --- |
//! | `zeros` | x is 0 |
//! | `border` | places are brought to the nearest within [0, W - 1] |
//! | `reflection` | places are reflected at the outermost elements' centres with `align_corners`, else at their outer edges, and then brought to [0, W - 1] |
//!
//! With `cubic`, padding applies to the neighbours' positions and not to the place. Coordinates may be as large as their type
//! has them: one beyond the image is outside with `zeros`, the end that it lies behind with `border`, and brought back by
//! whole periods of 4, exactly, with `reflection`. An infinity is outside with `zeros` and the end that it lies behind with
//! `border`. Mirrors give it no place: it counts as NaN does there. NaN is outside with `zeros`, and the first position
//! otherwise, as PyTorch has both.
//!
//! Backward, of Σ dy y: `backward_data` gives the gradient by x,
//! `dx[n,c,i,j] = Σ_{p,q} k(i - h) k(j - w) dy[n,c,p,q]`; `backward_grid` that by grid,
//! `dgrid[n,p,q,0] = Σ_c Σ_i Σ_j k(i - h) k'(j - w) x[n,c,i,j] dy[n,c,p,q] · dw/dgx`, and so on. The slope dw/dgx is 0 where
//! padding holds the place, which includes the first and last position with `border`; k' of `linear` on an integer is that
//! above it; that of `nearest` is 0.
//!
//! x is `[N, C, spatial...]` of rank 3 to 5, grid `[N, spatial of y..., axes]`, y `[N, C, spatial of y...]`, with any strides.
//! x and y have one element type, grid the same or f32. Places and weights are computed in f64, sums in the accumulator
//! type. Deterministic: gradients are gathered, in a fixed order.
//!
//! Sources: GridSample of ONNX (opset 22), `grid_sample` of PyTorch, `cudnnSpatialTfSamplerForward` (linear, zeros,
//! align_corners) and its backward.

mod kernels;
mod params;
mod place;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;
mod tiles;

pub use params::GridSampleParams;
pub use place::{Place, Sampler};
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{GridSampleDesc, GridSampleProblem, GridSampleShape};
pub use tiles::{GridSampleTileParams, TILE, TILE_CHANNELS, TILE_THREADS};

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GridSamplePass {
    /// `x` and `grid` to `y`.
    Forward,
    /// `grid` and `dy` to `dx`.
    BackwardData,
    /// `x`, `grid` and `dy` to `dgrid`.
    BackwardGrid,
}

crate::text_enum!(GridSamplePass {
    Forward = "forward",
    BackwardData = "backward_data",
    BackwardGrid = "backward_grid",
});

/// The filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum GridSampleMode {
    /// The nearest element.
    Nearest = 0,
    /// Along straight lines.
    Linear = 1,
    /// Along cubic polynomials.
    Cubic = 2,
}

crate::text_enum!(GridSampleMode { Nearest = "nearest", Linear = "linear", Cubic = "cubic" });

/// What is beyond the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum GridPadding {
    /// Zeros.
    #[default]
    Zeros = 0,
    /// The outermost elements.
    Border = 1,
    /// The image in a mirror.
    Reflection = 2,
}

crate::text_enum!(GridPadding { Zeros = "zeros", Border = "border", Reflection = "reflection" });
