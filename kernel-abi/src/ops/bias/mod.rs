//! Bias: one number for each channel.
//!
//! Forward: `y[n, c, …] = alpha · (x[n, c, …] + bias[c]) + beta · y[n, c, …]`.
//! Backward: `dbias[c] = alpha · Σ over n, … of dy[n, c, …] + beta · dbias[c]`.
//!
//! x, y and dy are `[N, C, spatial...]` of rank 2 to 8, bias is `[C]`; any strides and one element type, sums in the
//! accumulator type. Deterministic.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::BiasParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::BiasProblem;

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BiasPass {
    /// `x` and `bias` to `y`.
    Forward,
    /// `dy` to `dbias`.
    Backward,
}

crate::text_enum!(BiasPass { Forward = "forward", Backward = "backward" });
