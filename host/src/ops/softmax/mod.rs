//! Softmax, forward and backward: formula, kinds and modes in [`kernel_abi::ops::softmax`].

mod algorithms;
mod cpu;
mod naive;

pub use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxMode, SoftmaxPass, SoftmaxProblem};
