//! Convolution, formula in `kernel_abi::ops::conv`.

mod entry;
mod im2col_wgmma;
mod naive;
