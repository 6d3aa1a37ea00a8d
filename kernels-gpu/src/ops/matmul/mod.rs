//! Matmul, formula in `kernel_abi::ops::matmul`.

mod bf16x3_wgmma;
mod cp_async_mma;
mod entry;
pub(super) mod ffma;
mod kmajor_wgmma;
mod naive;
mod split;
mod tma_wgmma;
