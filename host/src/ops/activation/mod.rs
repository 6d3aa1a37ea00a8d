//! Activation, forward and backward: formula and modes in [`kernel_abi::ops::activation`].

mod algorithms;
mod cpu;
mod naive;
mod streamed;

pub(crate) use cpu::{slope, value};

pub use kernel_abi::ops::activation::{Activation, ActivationMode, ActivationPass, ActivationProblem};
