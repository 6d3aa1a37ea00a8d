//! Padding, formula in `kernel_abi::ops::pad`.

mod entry;
mod gradient;
mod naive;
mod packed;
mod packed_gradient;
mod rows;
