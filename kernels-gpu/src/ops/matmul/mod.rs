//! Matmul, formula in `kernel_abi::ops::matmul`.

mod entry;
mod naive;
mod raster;
mod tma_wgmma;
