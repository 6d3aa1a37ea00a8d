//! Max unpooling, forward and backward: formula in [`kernel_abi::ops::unpool`].

mod algorithms;
mod cpu;
mod naive;

pub use kernel_abi::ops::unpool::{UnpoolPass, UnpoolProblem};
