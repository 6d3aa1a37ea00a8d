//! Pointwise, formula in `kernel_abi::ops::pointwise`.

mod entry;
mod naive;
