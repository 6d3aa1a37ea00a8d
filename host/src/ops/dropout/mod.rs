//! Dropout, forward and backward: formula, generator and state in [`kernel_abi::ops::dropout`].

mod algorithms;
mod cpu;
mod naive;
mod vectorized;

pub use kernel_abi::ops::dropout::{DropoutDesc, DropoutOrder, DropoutPass, DropoutProblem, PhiloxState};
