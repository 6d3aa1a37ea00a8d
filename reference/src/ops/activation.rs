//! Activation, formula in [`kernel_abi::ops::activation`].

use crate::Judge;
use kernel_abi::ops::activation::{Activation, ActivationMode, ActivationProblem};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

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
    x.iter().map(|&x| value(problem.activation(), x)).collect()
}

/// dx = f'(x) dy.
pub fn backward(problem: &ActivationProblem, x: &[f64], dy: &[f64]) -> Vec<f64> {
    x.iter().zip(dy).map(|(&x, &dy)| slope(problem.activation(), x) * dy).collect()
}

/// f(x).
pub fn value(activation: &Activation, x: f64) -> f64 {
    let [a, b, c] = activation.parameters();
    match activation.mode() {
        _ if x.is_nan() => x,
        ActivationMode::Identity => x,
        ActivationMode::Relu if x < a && c != 0.0 => a + c * (x - a),
        ActivationMode::Relu => x.clamp(a, b),
        ActivationMode::ClippedRelu => x.clamp(0.0, a),
        ActivationMode::Elu => negative(x, a * x.exp_m1()),
        ActivationMode::Sigmoid => sigmoid(x),
        ActivationMode::Tanh => x.tanh(),
        ActivationMode::Swish => x * sigmoid(a * x),
        ActivationMode::Gelu => x * 0.5 * libm::erfc(-x * FRAC_1_SQRT_2),
        ActivationMode::GeluTanh => 0.5 * x * (1.0 + gelu_angle(x).tanh()),
        ActivationMode::Softplus => softplus(a * x) / a,
        ActivationMode::Hardsigmoid => (a * x + b).clamp(0.0, 1.0),
        ActivationMode::Hardswish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        ActivationMode::Mish => x * softplus(x).tanh(),
        ActivationMode::Selu => b * negative(x, a * x.exp_m1()),
        ActivationMode::Celu => negative(x, a * (x / a).exp_m1()),
        ActivationMode::Softsign => x / (1.0 + x.abs()),
        ActivationMode::Exp => x.exp(),
        ActivationMode::ThresholdedRelu => f64::from(x > a) * x,
        ActivationMode::LogSigmoid => -softplus(-x),
    }
}

/// f'(x).
pub fn slope(activation: &Activation, x: f64) -> f64 {
    let [a, b, c] = activation.parameters();
    let step = |inside: bool| f64::from(inside);
    let one_or = |below: f64| if x > 0.0 { 1.0 } else { below };
    match activation.mode() {
        ActivationMode::Identity => 1.0,
        _ if x.is_nan() => x,
        ActivationMode::Relu if x <= a => c,
        ActivationMode::Relu => step(x < b),
        ActivationMode::ClippedRelu => step(x > 0.0 && x < a),
        ActivationMode::Elu => one_or(a * x.exp()),
        ActivationMode::Sigmoid => sigmoid(x) * sigmoid(-x),
        ActivationMode::Tanh => 1.0 / (x.cosh() * x.cosh()),
        ActivationMode::Swish => sigmoid(a * x) + a * x * sigmoid(a * x) * sigmoid(-a * x),
        ActivationMode::Gelu => 0.5 * libm::erfc(-x * FRAC_1_SQRT_2) + x * (-0.5 * x * x).exp() / (2.0 * PI).sqrt(),
        ActivationMode::GeluTanh => {
            let t = gelu_angle(x).tanh();
            let angle_slope = (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044715 * x * x);
            0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * angle_slope
        }
        ActivationMode::Softplus => sigmoid(a * x),
        ActivationMode::Hardsigmoid => a * step(a * x + b > 0.0 && a * x + b < 1.0),
        ActivationMode::Hardswish => (x / 3.0 + 0.5) * step(x > -3.0 && x < 3.0) + step(x >= 3.0),
        ActivationMode::Mish => {
            let t = softplus(x).tanh();
            t + x * sigmoid(x) / softplus(x).cosh().powi(2)
        }
        ActivationMode::Selu => b * one_or(a * x.exp()),
        ActivationMode::Celu => one_or((x / a).exp()),
        ActivationMode::Softsign => 1.0 / (1.0 + x.abs()).powi(2),
        ActivationMode::Exp => x.exp(),
        ActivationMode::ThresholdedRelu => step(x > a),
        ActivationMode::LogSigmoid => sigmoid(-x),
    }
}

/// x above 0, something else below.
fn negative(x: f64, below: f64) -> f64 {
    if x > 0.0 { x } else { below }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn gelu_angle(x: f64) -> f64 {
    (2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))
}
