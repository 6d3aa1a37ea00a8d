//! Gathering rows, and the sum of what went to them: formulas in [`kernel_abi::ops::gather`].

mod algorithms;
mod cpu;
mod naive;
mod ranges;
mod rows;

pub use kernel_abi::ops::gather::{GatherPass, GatherProblem};
