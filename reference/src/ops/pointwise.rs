//! Pointwise operations, formulas in [`kernel_abi::ops::pointwise`].

use crate::Judge;
use kernel_abi::TensorDesc;
use kernel_abi::ops::pointwise::{PointwisePass, PointwiseProblem};

impl Judge for PointwiseProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let inputs: Vec<(&TensorDesc, &[f64])> = self.inputs().zip(operands.iter().map(Vec::as_slice)).collect();
        vec![evaluate(self, &inputs)]
    }
}

/// c for the given inputs.
pub fn evaluate(problem: &PointwiseProblem, inputs: &[(&TensorDesc, &[f64])]) -> Vec<f64> {
    let (alpha_a, alpha_b) = problem.alphas();
    (0..problem.c().n_elems())
        .map(|i| {
            let input = |n: usize| inputs[n].1[repeated(problem.c(), inputs[n].0, i)];
            let (a, b) = (|| alpha_a * input(0), || alpha_b * input(1));
            match problem.pointwise_pass() {
                PointwisePass::Add => a() + b(),
                PointwisePass::Mul => a() * b(),
                PointwisePass::Min => {
                    if a().is_nan() || b().is_nan() {
                        f64::NAN
                    } else {
                        a().min(b())
                    }
                }
                PointwisePass::Max => {
                    if a().is_nan() || b().is_nan() {
                        f64::NAN
                    } else {
                        a().max(b())
                    }
                }
                PointwisePass::Sqrt => a().sqrt(),
                PointwisePass::Not => 1.0 - a(),
                PointwisePass::Scale => a(),
                PointwisePass::Set => problem.value(),
            }
        })
        .collect()
}

/// Row-major index in `input` of the element that meets element `i` of `c`.
fn repeated(c: &TensorDesc, input: &TensorDesc, mut i: i64) -> usize {
    let (mut at, mut stride) = (0, 1);
    for (c_dim, dim) in c.dims().iter().zip(input.dims()).rev() {
        at += (i % c_dim) % dim * stride;
        stride *= dim;
        i /= c_dim;
    }
    at as usize
}
