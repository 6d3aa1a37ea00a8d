//! Convolution, formula in `kernel_abi::ops::conv`.

mod bf16x3_wgmma;
mod cp_async_mma;
mod depthwise;
mod entry;
mod ffma;
mod grouped_mma;
mod halo_wgmma;
mod im2col_wgmma;
mod naive;
mod overlap_wgmma;
mod packed_rows;
mod pointwise_strided;
mod spread_columns;
mod winograd;
