//! Adam, formula in `kernel_abi::ops::adam`.

mod entry;
mod list;
mod naive;
