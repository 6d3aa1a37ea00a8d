//! Resampling: an image in another size, each element of which is a weighted sum of neighbours in the first.
//!
//! Forward, in two spatial dimensions (one and three likewise):
//!
//! `y[n,c,p,q] = Σ_i Σ_j W(p, i) V(q, j) x[n,c,i,j]`, where the weights of an axis are those of a filter k around the
//! place c(p) of output position p in x: `W(p, i) = k(i - c(p))`. Positions outside the image count as the nearest inside.
//!
//! | mode | k(d) |
//! | --- | --- |
//! | `nearest` | 1 at one neighbour of c, which `round` names, else 0 |
//! | `linear` | 1 - abs(d), at least 0 |
//! | `cubic` | (a+2) d³ - (a+3) d² + 1 up to 1, a d³ - 5a d² + 8a d - 4a up to 2, with abs(d) for d; a = -3/4 |
//!
//! `antialias` widens k where the image becomes smaller: k(d) becomes k(scale · d), and the weights are divided by their
//! sum. `exclude_outside` makes the weights of positions outside the image 0 and divides the others by their sum, or by
//! nothing where that is 0. Both are for `linear` and `cubic`.
//!
//! | coordinates | c(p), for extents H and P and length L = scale · H |
//! | --- | --- |
//! | `half_pixel` | (p + ½) / scale - ½ |
//! | `pytorch_half_pixel` | the same, but 0 where L is at most 1 |
//! | `half_pixel_symmetric` | the same, moved by H/2 · (1 - P/L) |
//! | `asymmetric` | p / scale |
//! | `align_corners` | p (H - 1) / (L - 1); 0 where L is 1 |
//! | `crop` | the same within a region [a, b] of the image, in parts of it: (a + (b - a) p / (L - 1)) (H - 1); the middle where L is 1 |
//!
//! With `crop`, y is `extrapolation` where c lies outside the image. The scale of an axis is P / H unless another is
//! given; L is P then. Without a given scale, places are fractions of integers: `nearest` compares these exactly, and
//! coordinates in f64 are rounded once, as p · H / P. A given scale is ONNX's rule: coordinates are computed in f64 from the
//! scale as it is, in the order of ONNX's reference, so that ties fall the same way. Weights are computed in f64.
//!
//! Backward is the gradient of Σ dy y by x: `dx[n,c,i,j] = Σ_p Σ_q W(p, i) V(q, j) dy[n,c,p,q]`, gathered, in a fixed order.
//!
//! Tensors are `[N, C, spatial...]` of rank 3 to 5 with any strides and one element type, sums in the accumulator type.
//! Deterministic.
//!
//! Sources: Resize of ONNX (opset 19); `interpolate` of PyTorch is `asymmetric` with `floor` (nearest), `half_pixel` with
//! `prefer_ceil` (nearest-exact), `half_pixel` or `align_corners` (linear, cubic), with `exclude_outside` where it
//! antialiases; R. Keys, "Cubic convolution interpolation for digital image processing", 1981.

mod axis;
#[cfg(not(target_arch = "nvptx64"))]
mod desc;
mod given_tables;
mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;
mod separable;
mod tables;

pub use axis::{ResampleAxis, ResampleFilter, Taps, cubic, floor};
#[cfg(not(target_arch = "nvptx64"))]
pub use desc::ResampleDesc;
pub use given_tables::{GIVEN_NEIGHBOURS, GIVEN_POSITIONS, ResampleGivenParams};
pub use params::ResampleParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{ResampleProblem, ResampleShape};
pub use separable::{
    COLUMNS_AT_ONCE, ResampleSeparableParams, SEPARABLE_CANDIDATES, SEPARABLE_COLUMNS, SEPARABLE_NEIGHBOURS,
    SEPARABLE_POSITIONS, SEPARABLE_SUMS, place_in_line,
};
pub use tables::{CHANNELS_AT_ONCE, MAX_NEIGHBOURS, ResampleTableParams, TABLE_POSITIONS, TILE_COLUMNS, TILE_ROWS};

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResamplePass {
    /// `x` to `y`.
    Forward,
    /// `dy` to `dx`.
    Backward,
}

crate::text_enum!(ResamplePass { Forward = "forward", Backward = "backward" });

/// The filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ResampleMode {
    /// The nearest element.
    Nearest = 0,
    /// Along straight lines.
    Linear = 1,
    /// Along cubic polynomials.
    Cubic = 2,
}

crate::text_enum!(ResampleMode { Nearest = "nearest", Linear = "linear", Cubic = "cubic" });

/// Where an output position lies in the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Coordinates {
    /// Elements are areas, of which the corners of both images coincide.
    #[default]
    HalfPixel,
    /// The same, but an output of one element is the image's first.
    PytorchHalfPixel,
    /// The same as half pixels, but the centres of both images coincide where the scale is not that of the extents.
    HalfPixelSymmetric,
    /// Elements are points, of which the first ones coincide.
    Asymmetric,
    /// Elements are points, of which the first and last ones coincide.
    AlignCorners,
    /// The same in a region of the image.
    Crop,
}

crate::text_enum!(Coordinates {
    HalfPixel = "half_pixel",
    PytorchHalfPixel = "pytorch_half_pixel",
    HalfPixelSymmetric = "half_pixel_symmetric",
    Asymmetric = "asymmetric",
    AlignCorners = "align_corners",
    Crop = "crop",
});

/// Which neighbour is the nearest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum NearestRound {
    /// The nearer one, the lower one of two.
    #[default]
    PreferFloor = 0,
    /// The nearer one, the upper one of two.
    PreferCeil = 1,
    /// The lower one.
    Floor = 2,
    /// The upper one.
    Ceil = 3,
}

crate::text_enum!(NearestRound {
    PreferFloor = "prefer_floor",
    PreferCeil = "prefer_ceil",
    Floor = "floor",
    Ceil = "ceil",
});
