//! Resampling, forward and backward: formula and modes in [`kernel_abi::ops::resample`].

mod algorithms;
mod channel_vectors;
mod cpu;
mod given_tables;
mod naive;
mod separable;
mod tables;

pub use kernel_abi::ops::resample::{
    Coordinates, NearestRound, ResampleDesc, ResampleMode, ResamplePass, ResampleProblem,
};
