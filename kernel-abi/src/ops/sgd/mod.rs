//! Stochastic gradient descent: one step of the parameters.
//!
//! `g = dw + weight_decay · w`, `v = momentum · v + g`, `w = w - alpha · v`; with `nesterov`,
//! `w = w - alpha · (g + momentum · v)`. alpha is the learning rate: it changes from step to step, and a plan need
//! not be made anew for it. beta is not used. The convention is PyTorch's (without dampening).
//!
//! All operands have the same extents and element type, any strides; computed in the accumulator type. Deterministic.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::SgdParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::SgdProblem;
