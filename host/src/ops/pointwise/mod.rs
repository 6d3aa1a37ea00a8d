//! Pointwise operations and chains of them: formulas in [`kernel_abi::ops::pointwise`].

mod algorithms;
mod cpu;
mod cpu_operation;
mod naive;
mod streamed;

pub(in crate::ops) use streamed::Streaming;

pub use kernel_abi::ops::pointwise::{
    Argument, INPUT_NAMES, MAX_INPUTS, PointwisePass, PointwiseProblem, Step, StepOp,
};
