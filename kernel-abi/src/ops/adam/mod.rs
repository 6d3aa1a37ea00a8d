//! Adam and AdamW: one step of parameters, of any number of tensors at once.
//!
//! ```text
//! adam:  g = dw + weight_decay · w          adamw:  g = dw, w = w - alpha · weight_decay · w
//! m = beta1 · m + (1 - beta1) · g,  v = beta2 · v + (1 - beta2) · g²
//! w = w - alpha · m / c1 / (√(v / c2) + eps)      c1 = 1 - beta1ᵗ, c2 = 1 - beta2ᵗ
//! ```
//!
//! alpha is the learning rate; beta is not used. t is the operand `step`, one f32 on the device that counts steps from 1
//! on, so that a graph can be replayed after it has been counted up; without bias correction there is no such operand,
//! and c1 = c2 = 1. Kingma, Ba, "Adam: a method for stochastic optimization", 2015; Loshchilov, Hutter, "Decoupled weight
//! decay regularization", 2019; the convention is PyTorch's.
//!
//! The operands of a tensor have the same extents, any strides each. m and v have the element type of w, or f32 where
//! that has 16 bits; `master` then may hold w in f32: it is what is stepped, and w becomes it, rounded. Of several
//! tensors, which have the same types, operands are named `dw0`, `m0`, `v0`, `w0`, `dw1`, …. Computed in the accumulator
//! type. Deterministic.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::{AdamListParams, AdamParams, AdamStep};
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{AdamDesc, AdamProblem, AdamTensors};

/// Where the weight decay acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdamMode {
    /// On the gradient.
    Adam,
    /// On the parameters.
    AdamW,
}

crate::text_enum!(AdamMode { Adam = "adam", AdamW = "adamw" });
