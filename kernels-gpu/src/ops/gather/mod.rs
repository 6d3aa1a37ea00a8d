//! Gathering rows, formula in `kernel_abi::ops::gather`.

mod entry;
mod naive;
mod ranges;
mod rows;
