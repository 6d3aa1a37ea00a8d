//! Local response and divisive normalization: formula in [`kernel_abi::ops::lrn`].

mod algorithms;
mod cpu;
mod naive;
mod register_windows;

pub use kernel_abi::ops::lrn::{LrnDesc, LrnPass, LrnProblem, LrnRegion};
