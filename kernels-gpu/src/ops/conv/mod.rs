//! Convolution, formula in `kernel_abi::ops::conv`.

mod cp_async_mma;
mod depthwise;
mod depthwise_planes;
mod depthwise_tma;
mod diagonal_mma;
mod entry;
mod explicit_gemm;
mod f32_wgmma;
mod ffma;
mod fft;
mod grouped_mma;
mod grouped_tma;
mod halo_wgmma;
mod halo_wgmma_split;
mod im2col_wgmma;
mod kmajor_wgmma;
mod merged_groups;
mod naive;
mod overlap_wgmma;
mod packed_rows;
mod padded_channels;
mod pointwise_lanes;
mod pointwise_strided;
mod spread_columns;
mod tf32x3_mma;
mod winograd;
