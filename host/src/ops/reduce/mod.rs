//! Reductions: formulas in [`kernel_abi::ops::reduce`].

mod algorithms;
mod cpu;
mod integers;
mod naive;
mod vectorized;

use crate::select::Refusal;
pub use kernel_abi::ops::reduce::{ReducePass, ReduceProblem};
pub(in crate::ops) use vectorized::Vectorized;

/// A problem that is a reduction, with the same operands in the same order.
pub(in crate::ops) trait AsReduce: crate::Problem {
    /// The reduction.
    ///
    /// # Errors
    /// What is refused.
    fn as_reduce(&self) -> Result<ReduceProblem, Refusal>;
}

impl AsReduce for ReduceProblem {
    fn as_reduce(&self) -> Result<ReduceProblem, Refusal> {
        Ok(self.clone())
    }
}
