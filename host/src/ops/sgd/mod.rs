//! Stochastic gradient descent: formula in [`kernel_abi::ops::sgd`].

mod algorithms;
mod cpu;
mod list;
mod naive;

pub use kernel_abi::ops::sgd::{SgdDesc, SgdProblem, SgdTensors};
