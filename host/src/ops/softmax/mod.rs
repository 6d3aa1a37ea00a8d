//! Softmax, forward and backward: formula, kinds and modes in [`kernel_abi::ops::softmax`].

mod algorithms;
mod cluster_rings;
mod cluster_rows;
mod columns;
mod cpu;
mod lanes;
mod looped_rows;
mod naive;
mod pairs;
mod register_rows;
mod resident_rows;
mod split_rows;
mod streamed_rows;

pub use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxMode, SoftmaxPass, SoftmaxProblem};
