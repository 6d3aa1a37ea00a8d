//! Local response normalization, formula in `kernel_abi::ops::lrn`.

mod entry;
mod naive;
mod register_windows;
