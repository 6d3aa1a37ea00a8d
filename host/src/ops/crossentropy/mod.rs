//! Cross-entropy, forward and backward: formula in [`kernel_abi::ops::crossentropy`].

mod algorithms;
mod cpu;
mod looped_rows;
mod naive;
mod split_rows;

pub use kernel_abi::ops::crossentropy::{
    CrossEntropyDesc, CrossEntropyInput, CrossEntropyPass, CrossEntropyProblem, LossReduction,
};
