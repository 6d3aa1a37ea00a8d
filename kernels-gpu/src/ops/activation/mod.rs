//! Activation, formula in `kernel_abi::ops::activation`.

mod entry;
mod naive;
