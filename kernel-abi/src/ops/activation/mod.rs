//! Activation: a function of one number, applied to every element.
//!
//! Forward: `y = alpha · f(x) + beta · y`. Backward: `dx = alpha · f'(x) · dy + beta · dx`.
//!
//! | mode | f(x) | f'(x) | coefficient |
//! | --- | --- | --- | --- |
//! | `identity` | x | 1 | – |
//! | `relu` | max(x, 0) | 1 if x > 0, else 0 | – |
//! | `clipped_relu` | min(max(x, 0), c) | 1 if 0 < x < c, else 0 | ceiling c ≥ 0 |
//! | `elu` | x if x > 0, else c · (eˣ - 1) | 1 if x > 0, else c · eˣ | c |
//! | `sigmoid` | 1 / (1 + e⁻ˣ) | f (1 - f) | – |
//! | `tanh` | tanh x | 1 - f² | – |
//! | `swish` | x / (1 + e⁻ᶜˣ) | s + c x s (1 - s), s = 1 / (1 + e⁻ᶜˣ) | c |
//!
//! The modes are those of cuDNN's `cudnnActivationMode_t`. A NaN stays a NaN in every mode.
//! Backward takes x and not y: one rule serves all modes, and x is what the caller of a training step still has.
//! All operands have the same extents and element type; strides are free. Computed in the accumulator type.
//! Deterministic.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::ActivationParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::ActivationProblem;

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActivationPass {
    /// `x` to `y`.
    Forward,
    /// `x` and `dy` to `dx`.
    Backward,
}

crate::text_enum!(ActivationPass { Forward = "forward", Backward = "backward" });

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ActivationMode {
    /// x.
    Identity = 0,
    /// max(x, 0).
    Relu = 1,
    /// min(max(x, 0), c).
    ClippedRelu = 2,
    /// x above 0, c (eˣ - 1) below.
    Elu = 3,
    /// 1 / (1 + e⁻ˣ).
    Sigmoid = 4,
    /// tanh x.
    Tanh = 5,
    /// x / (1 + e⁻ᶜˣ).
    Swish = 6,
}

crate::text_enum!(ActivationMode {
    Identity = "identity",
    Relu = "relu",
    ClippedRelu = "clipped_relu",
    Elu = "elu",
    Sigmoid = "sigmoid",
    Tanh = "tanh",
    Swish = "swish",
});

impl ActivationMode {
    /// Whether the function has a coefficient.
    pub const fn has_coefficient(self) -> bool {
        matches!(self, ActivationMode::ClippedRelu | ActivationMode::Elu | ActivationMode::Swish)
    }
}
