//! Adam and AdamW: formula in [`kernel_abi::ops::adam`].

mod algorithms;
mod cpu;
mod list;
mod naive;

pub use kernel_abi::ops::adam::{AdamDesc, AdamMode, AdamProblem, AdamTensors};
