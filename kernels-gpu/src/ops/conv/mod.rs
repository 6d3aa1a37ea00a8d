//! Convolution, formula in `kernel_abi::ops::conv`.

mod entry;
mod naive;
