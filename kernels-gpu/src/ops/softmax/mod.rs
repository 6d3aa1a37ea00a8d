//! Softmax, formula in `kernel_abi::ops::softmax`.

mod entry;
mod naive;
