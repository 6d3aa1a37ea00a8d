//! Affine grids, forward and backward: formula in [`kernel_abi::ops::affinegrid`].

mod algorithms;
mod cpu;
mod naive;

pub use kernel_abi::ops::affinegrid::{AffineGridPass, AffineGridProblem};
