//! Layout and type transforms: formula in [`kernel_abi::ops::transform`].

mod algorithms;
mod cpu;
mod naive;
mod vectorized_copy;

pub use kernel_abi::ops::transform::TransformProblem;
