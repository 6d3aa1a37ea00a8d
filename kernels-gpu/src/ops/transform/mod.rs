//! Transform, formula in `kernel_abi::ops::transform`.

mod entry;
mod naive;
mod tiled_permute;
mod tiled_transpose;
mod vectorized_copy;
