//! Normalization, formula in `kernel_abi::ops::norm`.

mod entry;
mod naive;
mod row_registers;
