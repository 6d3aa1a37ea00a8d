//! Convolution, formula in `kernel_abi::ops::conv`.

mod entry;
mod grouped_mma;
mod naive;
