//! Transform, formula in [`kernel_abi::ops::transform`].

use crate::Judge;
use kernel_abi::ops::transform::TransformProblem;
use kernel_abi::{Cast, DType};

impl Judge for TransformProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        vec![forward(&operands[0])]
    }

    fn judge_integers(&self, operands: &[Vec<i128>]) -> Option<Vec<Vec<i128>>> {
        (self.accumulator() == DType::I64).then(|| vec![operands[0].clone()])
    }

    fn cast(&self) -> Cast {
        TransformProblem::cast(self)
    }
}

/// y = x: layouts and types are the business of whoever calls.
pub fn forward(x: &[f64]) -> Vec<f64> {
    x.to_vec()
}
