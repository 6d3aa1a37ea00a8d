//! Convolution, formula in `kernel_abi::ops::conv`.

mod depthwise;
mod entry;
mod naive;
