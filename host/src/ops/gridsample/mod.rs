//! Grid sampling and its gradients: formula and modes in [`kernel_abi::ops::gridsample`].

mod algorithms;
mod cpu;
mod naive;
mod tiles;

pub use kernel_abi::ops::gridsample::{GridPadding, GridSampleDesc, GridSampleMode, GridSamplePass, GridSampleProblem};
