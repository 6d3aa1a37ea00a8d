//! Connectionist temporal classification, loss and gradient: formula in [`kernel_abi::ops::ctc`].

mod algorithms;
mod cpu;
mod naive;

pub use kernel_abi::ops::crossentropy::{CrossEntropyInput, LossReduction};
pub use kernel_abi::ops::ctc::{CtcDesc, CtcPass, CtcProblem};
