//! Convolution, formula in `kernel_abi::ops::conv`.

mod depthwise;
mod entry;
mod im2col_wgmma;
mod naive;
