//! Activation, forward and backward: formula and modes in [`kernel_abi::ops::activation`].

mod algorithms;
mod as_pointwise;
mod cpu;
mod naive;

pub(crate) use cpu::{slope, value};

pub use kernel_abi::ops::activation::{Activation, ActivationMode, ActivationPass, ActivationProblem};
