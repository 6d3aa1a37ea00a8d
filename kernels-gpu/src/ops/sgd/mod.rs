//! Sgd, formula in `kernel_abi::ops::sgd`.

mod entry;
mod list;
mod naive;
