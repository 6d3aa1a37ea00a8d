//! Grid sampling, formula in `kernel_abi::ops::gridsample`.

mod entry;
mod naive;
mod tiles;
