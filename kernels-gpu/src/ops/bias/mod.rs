//! Bias, formula in `kernel_abi::ops::bias`.

mod entry;
mod naive;
