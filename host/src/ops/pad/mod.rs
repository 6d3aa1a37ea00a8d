//! Padding, cropping and slicing: formulas in [`kernel_abi::ops::pad`].

mod algorithms;
mod cpu;
mod naive;
mod rows;

pub use kernel_abi::ops::pad::{PadMode, PadPass, PadProblem};
