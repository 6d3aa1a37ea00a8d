//! Resampling, formula in `kernel_abi::ops::resample`.

mod entry;
mod naive;
mod separable;
mod tables;
