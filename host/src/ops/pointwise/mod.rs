//! Pointwise operations and chains of them: formulas in [`kernel_abi::ops::pointwise`].

mod algorithms;
mod cpu;
mod cpu_integers;
mod cpu_operation;
mod form;
mod naive;
mod specialized;
mod streamed;

pub(in crate::ops) use specialized::Specialized;
pub(in crate::ops) use streamed::Streamed;

pub use kernel_abi::ops::pointwise::{
    Argument, INPUT_NAMES, MAX_INPUTS, PointwisePass, PointwiseProblem, Step, StepOp,
};

/// A problem whose formula is a pointwise one: the same kernels compute it.
pub(in crate::ops) trait AsPointwise: crate::Problem {
    /// The pointwise problem, with the operands in their order: inputs, then c.
    fn as_pointwise(&self) -> Result<PointwiseProblem, crate::Error>;
}

impl AsPointwise for PointwiseProblem {
    fn as_pointwise(&self) -> Result<PointwiseProblem, crate::Error> {
        Ok(self.clone())
    }
}
