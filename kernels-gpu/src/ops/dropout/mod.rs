//! Dropout, formula in `kernel_abi::ops::dropout`.

mod entry;
mod naive;
mod vectorized;
