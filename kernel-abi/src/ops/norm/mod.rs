//! Normalization: batch, layer, RMS, group and instance norm, one formula.
//!
//! The elements of x that are normalized together form a *row* of m elements; those that share a scale and a bias share
//! a *parameter*. The mode says which these are, for x of extents `[N, C, spatial...]` (`layer` and `rms`: any extents):
//!
//! | mode | rows | parameters | after |
//! | --- | --- | --- | --- |
//! | `batch` | all of a channel: `[C]` | `[C]` | Ioffe and Szegedy 2015; cuDNN's `SPATIAL` |
//! | `per_activation` | all images at a position: `[C, spatial...]` | `[C, spatial...]` | cuDNN's `PER_ACTIVATION` |
//! | `layer` | all dimensions from `axis` on | those dimensions | Ba, Kiros and Hinton 2016 |
//! | `rms` | the same, and the mean counts as 0 | those dimensions | Zhang and Sennrich 2019 |
//! | `group` | `groups` neighbouring shares of an image's channels: `[N, groups]` | `[C]` | Wu and He 2018 |
//! | `instance` | a channel of an image: `[N, C]` | `[C]` | Ulyanov, Vedaldi and Lempitsky 2016 |
//!
//! *Forward*, over each row:
//!
//! `mean = Σ x / m`, `inv_std = 1 / √(Σ (x - mean)² / m + eps)`, `x̂ = (x - mean) · inv_std`
//!
//! `y = alpha · act(x̂ · scale + bias + z) + beta · y`
//!
//! Scale, bias and the residual z may each be left out. A run may also give mean and inv_std, and in the first two modes
//! update running statistics:
//!
//! `running_mean = (1 - factor) · running_mean + factor · mean`, `running_var = (1 - factor) · running_var + factor · v`
//!
//! where v is the variance without eps times m / (m - 1) (Bessel's correction, for m = 1 left out), or the plain variance
//! with `unbiased=0`, as ONNX has it. The factor is cuDNN's `exponentialAverageFactor` and PyTorch's momentum.
//!
//! *Inference* (first two modes) takes running statistics: `x̂ = (x - running_mean) / √(running_var + eps)`, or without
//! them `x̂ = x`, for statistics that have gone into scale and bias already.
//!
//! *Finalize* (`batch`) makes such a scale and bias of the channel sums that the epilogue of a convolution gives: with
//! `count` elements a channel, `mean = sum / count`, the variance is `sum_squares / count - mean²`, at least 0, and
//!
//! `eq_scale = scale · inv_std`, `eq_bias = bias - mean · eq_scale`
//!
//! The variance is a difference: what rounded sums lose of it is 2⁻²⁴ · mean² with sums in f32, 2⁻⁵³ · mean² with sums in
//! f64, a few times over.
//!
//! *Backward* gives gradients of Σ dy · act(…). With `g = dy · act'`, which takes y where there is an activation, and
//! `h = g · scale`, over each row:
//!
//! `dx = inv_std · (h - Σ h / m - x̂ · Σ h x̂ / m)`, for `rms` without the first sum, `dz = g`
//!
//! and over all elements of a parameter `dscale = Σ g x̂`, `dbias = Σ g`. Mean and inv_std are those that forward gave, or
//! computed anew. Every gradient is written as `alpha · result + beta · prior`, and any but dx may be left out.
//!
//! | operand | extents | element type |
//! | --- | --- | --- |
//! | x, y, z, dx, dy, dz | x's, any strides | x's |
//! | scale, bias, dscale, dbias | of the parameters, any strides | one: x's, or its accumulator's |
//! | running_mean, running_var | of the rows, any strides | one: x's, or its accumulator's |
//! | mean, inv_std | of the rows, packed; for `layer` and `rms` x's, with 1 from `axis` on | the accumulator's |
//! | sum, sum_squares of `finalize` | `[C]`, packed | f32 or f64 |
//! | all else of `finalize` | `[C]`; what is written packed | one: the sums', or f32 |
//!
//! Sums are kept in the accumulator, of deviations from the mean and not of squares, in a fixed order: deterministic.

pub mod channelwise;
#[cfg(not(target_arch = "nvptx64"))]
mod desc;
mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;
pub mod resident_channels;
pub mod resident_planes;
pub mod row_registers;
#[cfg(not(target_arch = "nvptx64"))]
mod sharing;
#[cfg(not(target_arch = "nvptx64"))]
mod text;

pub use params::{NormFinalizeParams, NormParams, Walk, slot};

#[cfg(not(target_arch = "nvptx64"))]
pub use desc::{NormDesc, NormMode};
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{NormProblem, NormTensors};
#[cfg(not(target_arch = "nvptx64"))]
pub use sharing::{PackedRows, Sharing};

/// The first word of problem texts.
#[cfg(not(target_arch = "nvptx64"))]
const OP: &str = "norm";

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormPass {
    /// `x` to `y`, by its own statistics.
    Forward,
    /// `x` to `y`, by given statistics or none.
    Inference,
    /// `dy` to `dx` and the gradients of the parameters.
    Backward,
    /// Channel sums to statistics.
    Finalize,
}

crate::text_enum!(NormPass {
    Forward = "forward",
    Inference = "inference",
    Backward = "backward",
    Finalize = "finalize",
});
