//! Activation, formula in [`kernel_abi::ops::activation`].

use crate::Judge;
use kernel_abi::ops::activation::{ActivationMode, ActivationProblem};

impl Judge for ActivationProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        match self.dy() {
            None => vec![forward(self, &operands[0])],
            Some(_) => vec![backward(self, &operands[0], &operands[1])],
        }
    }
}

/// y = f(x).
pub fn forward(problem: &ActivationProblem, x: &[f64]) -> Vec<f64> {
    x.iter().map(|&x| value(problem.mode(), problem.coefficient(), x)).collect()
}

/// f(x).
pub fn value(mode: ActivationMode, c: f64, x: f64) -> f64 {
    match mode {
        _ if x.is_nan() => x,
        ActivationMode::Identity => x,
        ActivationMode::Relu => x.max(0.0),
        ActivationMode::ClippedRelu => x.clamp(0.0, c),
        ActivationMode::Elu => {
            if x > 0.0 {
                x
            } else {
                c * x.exp_m1()
            }
        }
        ActivationMode::Sigmoid => sigmoid(x),
        ActivationMode::Tanh => x.tanh(),
        ActivationMode::Swish => x * sigmoid(c * x),
    }
}

/// dx = f'(x) dy.
pub fn backward(problem: &ActivationProblem, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let c = problem.coefficient();
    x.iter()
        .zip(dy)
        .map(|(&x, &dy)| {
            let slope = match problem.mode() {
                ActivationMode::Identity => 1.0,
                _ if x.is_nan() => x,
                ActivationMode::Relu => f64::from(x > 0.0),
                ActivationMode::ClippedRelu => f64::from(x > 0.0 && x < c),
                ActivationMode::Elu => {
                    if x > 0.0 {
                        1.0
                    } else {
                        c * x.exp()
                    }
                }
                ActivationMode::Sigmoid => sigmoid(x) * sigmoid(-x),
                ActivationMode::Tanh => 1.0 / (x.cosh() * x.cosh()),
                ActivationMode::Swish => sigmoid(c * x) + c * x * sigmoid(c * x) * sigmoid(-c * x),
            };
            slope * dy
        })
        .collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
