//! A window that is the whole image is a reduction.

use super::{PoolMode, PoolPass, PoolProblem, whole};
use crate::ops::reduce::{AsReduce, ReducePass, ReduceProblem};
use crate::select::Refusal;

impl AsReduce for PoolProblem {
    fn as_reduce(&self) -> Result<ReduceProblem, Refusal> {
        let pass = match self.mode() {
            PoolMode::AverageIncludePadding | PoolMode::AverageExcludePadding => Some(ReducePass::Avg),
            PoolMode::Lp if self.exponent() == 1.0 => Some(ReducePass::Norm1),
            PoolMode::Lp if self.exponent() == 2.0 => Some(ReducePass::Norm2),
            _ => None,
        };
        let forward = self.pool_pass() == PoolPass::Forward;
        let Some(pass) = pass.filter(|_| forward && whole::is_whole(self)) else {
            return Err(Refusal::new(format!(
                "computes averages and norms with p=1 and p=2 of whole images, forward, no padding; given {self}"
            )));
        };
        if pass == ReducePass::Avg && whole::takes(self) {
            return Err(Refusal::new(format!("leaves to whole what a warp or a block sums up, given {self}")));
        }
        Ok(ReduceProblem::new(pass, self.x(), self.y())?)
    }
}
