//! Max unpooling, formula in `kernel_abi::ops::unpool`.

mod entry;
mod naive;
