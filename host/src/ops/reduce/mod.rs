//! Reductions: formulas in [`kernel_abi::ops::reduce`].

mod algorithms;
mod cpu;
mod naive;
mod vectorized;

pub use kernel_abi::ops::reduce::{ReducePass, ReduceProblem};
