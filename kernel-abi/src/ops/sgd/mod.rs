//! Stochastic gradient descent: one step of parameters, of any number of tensors at once.
//!
//! `g = dw + weight_decay · w`, `v = momentum · v + (1 - dampening) · g`, `w = w - alpha · v`; with `nesterov`,
//! `w = w - alpha · (g + momentum · v)`. Without momentum v may be left out, and is g. alpha is the learning rate: it
//! changes from step to step, and a plan need not be made anew for it. beta is not used. The convention is PyTorch's,
//! whose first step is without dampening.
//!
//! The operands of a tensor have the same extents, any strides each. v has the element type of w, or f32 where that has
//! 16 bits; `master` then may hold w in f32: it is what is stepped, and w becomes it, rounded. Of several tensors, which
//! have the same types, operands are named `dw0`, `v0`, `w0`, `dw1`, …. Computed in the accumulator type. Deterministic.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::{SgdListParams, SgdParams, SgdStep};
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{SgdDesc, SgdProblem, SgdTensors};
