//! Bias, forward and backward: formula in [`kernel_abi::ops::bias`].

mod algorithms;
mod cpu;
mod naive;

pub use kernel_abi::ops::bias::{BiasPass, BiasProblem};
