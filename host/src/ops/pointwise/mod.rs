//! Pointwise operations: formulas in [`kernel_abi::ops::pointwise`].

mod algorithms;
mod cpu;
mod naive;

pub use kernel_abi::ops::pointwise::{PointwisePass, PointwiseProblem};
