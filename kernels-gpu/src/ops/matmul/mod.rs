//! Matmul, formula in `kernel_abi::ops::matmul`.

mod entry;
mod naive;
mod tma_wgmma;
