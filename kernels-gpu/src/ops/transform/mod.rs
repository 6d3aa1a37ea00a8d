//! Transform, formula in `kernel_abi::ops::transform`.

mod entry;
mod naive;
mod vectorized_copy;
