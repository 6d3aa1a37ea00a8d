//! Activation, forward and backward: formula and modes in [`kernel_abi::ops::activation`].

mod algorithms;
mod cpu;
mod naive;

pub(crate) use cpu::value;

pub use kernel_abi::ops::activation::{ActivationMode, ActivationPass, ActivationProblem};
