//! Local response normalization and divisive normalization.
//!
//! Every element is divided by a power of the mean square of its neighbours. With `t = x - means`, or `t = x` where there
//! are no means, and for element i the window W(i):
//!
//! `s[i] = k + alpha / m · Σ t[j]²` over j in W(i), `y[i] = a · x[i] · s[i]^-beta + b · y[i]`
//!
//! | region | W(i) | m |
//! | --- | --- | --- |
//! | `across_channels` | the channels from c - ⌊(n - 1) / 2⌋ to c + ⌈(n - 1) / 2⌉ at i's position | n |
//! | `within_channel` | the positions of i's channel within the same bounds along each spatial dimension | n to the power of their number |
//!
//! What lies outside of the tensor counts as 0. a and b are the alpha and beta of a run, which here have the letters that
//! the formula leaves free. Backward, with `q[i] = dy[i] · x[i] · s[i]^(-beta - 1)`:
//!
//! `dx[j] = dy[j] · s[j]^-beta - 2 alpha beta / m · t[j] · Σ q[i]` over all i whose window holds j
//!
//! and `dmeans` is the second summand with the other sign. Each gradient is blended with its prior value as y is.
//!
//! Across channels this is the layer of Krizhevsky, Sutskever and Hinton 2012, with cuDNN's and ONNX's window and
//! division by n. Within a channel and with means it is the divisive half of local contrast normalization (Jarrett et al.
//! 2009) as cuDNN's `cudnnDivisiveNormalizationForward` with precomputed means names it; the means are any tensor, often
//! an average pooling of x.
//!
//! Tensors have rank 2 to 5, `[N, C, spatial...]`, at least 3 within a channel, any strides and one element type. Sums are
//! kept in the accumulator, in the order of memory: deterministic.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;
pub mod register_windows;

pub use params::LrnParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{LrnDesc, LrnProblem};

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LrnPass {
    /// `x` to `y`.
    Forward,
    /// `x` and `dy` to `dx`.
    Backward,
}

crate::text_enum!(LrnPass { Forward = "forward", Backward = "backward" });

/// Where an element's neighbours are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LrnRegion {
    /// At its position.
    AcrossChannels,
    /// In its channel.
    WithinChannel,
}

crate::text_enum!(LrnRegion { AcrossChannels = "across_channels", WithinChannel = "within_channel" });
