//! Softmax: exponentials over their sum, over rows of a tensor.
//!
//! A row is all elements of an image (`instance`), or all channels at one position (`channel`). For each row:
//!
//! | kind | y | dx |
//! | --- | --- | --- |
//! | `fast` | eˣ / Σ eˣ | y (dy - Σ y dy) |
//! | `accurate` | eˣ⁻ᵐ / Σ eˣ⁻ᵐ, m = max x | y (dy - Σ y dy) |
//! | `log` | x - m - ln Σ eˣ⁻ᵐ | dy - eʸ Σ dy |
//!
//! `y = alpha · result + beta · y`, likewise dx. Backward takes y, not x. The kinds are those of cuDNN's
//! `cudnnSoftmaxAlgorithm_t`: `fast` overflows where eˣ does. An element of -∞ has the probability 0; a row of nothing
//! else, or with a NaN, is NaN. Tensors have rank 2 to 8, dimension 0 being the batch and 1 the channels, any strides
//! and one element type; computed in the accumulator type. Deterministic.

pub mod cluster_rings;
pub mod cluster_rows;
mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;
pub mod resident_rows;
pub mod streamed_rows;

pub use params::{LANES_BLOCK, PAIR_ELEMS, SoftmaxLanesParams, SoftmaxParams, SoftmaxRingsParams};
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{SoftmaxProblem, SoftmaxRows};

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SoftmaxPass {
    /// `x` to `y`.
    Forward,
    /// `y` and `dy` to `dx`.
    Backward,
}

crate::text_enum!(SoftmaxPass { Forward = "forward", Backward = "backward" });

/// Which formula; cuDNN calls it the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SoftmaxKind {
    /// Without subtracting the maximum.
    Fast = 0,
    /// With it.
    Accurate = 1,
    /// The logarithm of the result.
    Log = 2,
}

crate::text_enum!(SoftmaxKind { Fast = "fast", Accurate = "accurate", Log = "log" });

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SoftmaxMode {
    /// All elements of an image: every dimension but the first.
    Instance,
    /// All channels at a position: dimension 1.
    Channel,
}

crate::text_enum!(SoftmaxMode { Instance = "instance", Channel = "channel" });
