//! Transform, formula in [`kernel_abi::ops::transform`].

use crate::Judge;
use kernel_abi::ops::transform::TransformProblem;

impl Judge for TransformProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        vec![forward(&operands[0])]
    }
}

/// y = x: layouts and types are the business of whoever calls.
pub fn forward(x: &[f64]) -> Vec<f64> {
    x.to_vec()
}
