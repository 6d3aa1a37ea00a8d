//! Reduction, formulas in `kernel_abi::ops::reduce`.

mod entry;
mod integers;
mod naive;
mod vectorized;
