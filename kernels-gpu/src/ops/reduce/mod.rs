//! Reduction, formulas in `kernel_abi::ops::reduce`.

mod entry;
mod naive;
mod vectorized;
