//! Affine grids, formula in `kernel_abi::ops::affinegrid`.

mod entry;
mod naive;
