//! Cross-entropy, forward and backward: formula in [`kernel_abi::ops::crossentropy`].

mod algorithms;
mod cpu;
mod naive;

pub use kernel_abi::ops::crossentropy::{
    CrossEntropyDesc, CrossEntropyInput, CrossEntropyPass, CrossEntropyProblem, LossReduction,
};
