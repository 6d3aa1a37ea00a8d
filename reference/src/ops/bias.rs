//! Bias, formula in [`kernel_abi::ops::bias`].

use crate::Judge;
use kernel_abi::ops::bias::{BiasPass, BiasProblem};

impl Judge for BiasProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        match self.bias_pass() {
            BiasPass::Forward => vec![forward(self, &operands[0], &operands[1])],
            BiasPass::Backward => vec![backward(self, &operands[0])],
        }
    }
}

/// y = x + bias.
pub fn forward(problem: &BiasProblem, x: &[f64], bias: &[f64]) -> Vec<f64> {
    x.iter().enumerate().map(|(i, x)| x + bias[channel(problem, i)]).collect()
}

/// dbias = Σ dy.
pub fn backward(problem: &BiasProblem, dy: &[f64]) -> Vec<f64> {
    let mut dbias = vec![0.0; problem.channels() as usize];
    dy.iter().enumerate().for_each(|(i, dy)| dbias[channel(problem, i)] += dy);
    dbias
}

/// The channel of an element of y.
fn channel(problem: &BiasProblem, i: usize) -> usize {
    let behind: i64 = problem.y().dims()[2..].iter().product();
    i / behind as usize % problem.channels() as usize
}
