//! Resampling, formula in `kernel_abi::ops::resample`.

mod channel_vectors;
mod entry;
mod given_tables;
mod naive;
mod separable;
mod tables;
