//! Padding, formula in `kernel_abi::ops::pad`.

mod entry;
mod naive;
mod rows;
