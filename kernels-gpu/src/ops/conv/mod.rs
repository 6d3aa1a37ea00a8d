//! Convolution, formula in `kernel_abi::ops::conv`.

mod depthwise;
mod cp_async_mma;
mod entry;
mod grouped_mma;
mod im2col_wgmma;
mod naive;
