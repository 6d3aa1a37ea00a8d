//! Pooling, formula in `kernel_abi::ops::pool`.

mod entry;
mod naive;
mod strips;
mod tiles;
mod whole;
