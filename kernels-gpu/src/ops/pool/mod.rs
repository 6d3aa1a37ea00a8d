//! Pooling, formula in `kernel_abi::ops::pool`.

mod entry;
mod naive;
mod planes;
mod strips;
mod tiles;
mod whole;
