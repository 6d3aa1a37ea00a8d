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
        ActivationMode::ThresholdedRelu => {
            if x > a {
                x
            } else {
                0.0
            }
        }
        _ if x.is_nan() => x,
        ActivationMode::Identity => x,
        ActivationMode::Relu if x < a && c != 0.0 => 2.0 * (0.5 * a + c * (0.5 * x - 0.5 * a)),
        ActivationMode::Relu => x.clamp(a, b),
        ActivationMode::ClippedRelu => x.clamp(0.0, a),
        ActivationMode::Elu => negative(x, a * x.exp_m1()),
        ActivationMode::Sigmoid => sigmoid(x),
        ActivationMode::Tanh => x.tanh(),
        ActivationMode::Swish => gated(x, times(a, x)),
        ActivationMode::Gelu => through(x, 0.5 * libm::erfc(-x * FRAC_1_SQRT_2)),
        ActivationMode::GeluTanh => gated(x, 2.0 * gelu_angle(x)),
        ActivationMode::Softplus => {
            let line = if a * x > 0.0 { x } else { 0.0 };
            line + if (a * x).abs() > 40.0 { scaled_exp(1.0 / a, -(a * x).abs()) } else { softplus(-(a * x).abs()) / a }
        }
        ActivationMode::Hardsigmoid => (times(a, x) + b).clamp(0.0, 1.0),
        ActivationMode::Hardswish => through(x, ((x + 3.0) / 6.0).clamp(0.0, 1.0)),
        ActivationMode::Mish => through(x, softplus(x).tanh()),
        ActivationMode::Selu => {
            let (most, least) = by_magnitude(a, b);
            if x > 0.0 { b * x } else { most * x.exp_m1() * least }
        }
        ActivationMode::Celu if x <= 0.0 && (x / a).abs() < 1e-20 => x,
        ActivationMode::Celu if x <= 0.0 && x / a > 60.0 => scaled_exp(a, x / a),
        ActivationMode::Celu => negative(x, a * (x / a).exp_m1()),
        ActivationMode::Softsign if x.is_infinite() => x.signum(),
        ActivationMode::Softsign => x / (1.0 + x.abs()),
        ActivationMode::Exp => x.exp(),
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
        ActivationMode::ThresholdedRelu => step(x > a),
        _ if x.is_nan() => x,
        // Infinite bounds are none: nothing lies beyond them.
        ActivationMode::Relu if x <= a && a > f64::NEG_INFINITY => c,
        ActivationMode::Relu => step(x < b || b == f64::INFINITY),
        ActivationMode::ClippedRelu => step(x > 0.0 && x < a),
        ActivationMode::Elu => one_or(scaled_exp(a, x)),
        ActivationMode::Sigmoid => sigmoid(x) * sigmoid(-x),
        ActivationMode::Tanh => {
            let c = x.cosh();
            (1.0 / c) * (1.0 / c)
        }
        ActivationMode::Swish => {
            let z = times(a, x);
            sigmoid(z) + through(z, sigmoid(z) * sigmoid(-z))
        }
        ActivationMode::Gelu => {
            0.5 * libm::erfc(-x * FRAC_1_SQRT_2) + through(x, (-0.5 * x * x).exp() / (2.0 * PI).sqrt())
        }
        ActivationMode::GeluTanh => {
            let s = sigmoid(2.0 * gelu_angle(x));
            let twice_slope = 2.0 * (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044715 * x * x);
            let bend = s * sigmoid(-2.0 * gelu_angle(x));
            if bend == 0.0 { s } else { s + x * bend * twice_slope }
        }
        ActivationMode::Softplus => sigmoid(a * x),
        ActivationMode::Hardsigmoid => a * step(times(a, x) + b > 0.0 && times(a, x) + b < 1.0),
        ActivationMode::Hardswish if x >= 3.0 => 1.0,
        ActivationMode::Hardswish if x <= -3.0 => 0.0,
        ActivationMode::Hardswish => x / 3.0 + 0.5,
        ActivationMode::Mish => {
            let (t, c) = (softplus(x).tanh(), softplus(x).cosh());
            t + through(gated(x, x), (1.0 / c) * (1.0 / c))
        }
        ActivationMode::Selu => {
            let (most, least) = by_magnitude(a, b);
            let once = if least.abs() > 1.0 { scaled_exp(most, 0.5 * x) } else { scaled_exp(most, x) };
            let below = once * if least.abs() > 1.0 { scaled_exp(least, 0.5 * x) } else { least };
            if x > 0.0 { b } else { below }
        }
        ActivationMode::Celu => one_or((x / a).exp()),
        ActivationMode::Softsign => (1.0 / (1.0 + x.abs())).powi(2),
        ActivationMode::Exp => x.exp(),
        ActivationMode::LogSigmoid => sigmoid(-x),
    }
}

/// x above 0, something else below.
fn negative(x: f64, below: f64) -> f64 {
    if x > 0.0 { x } else { below }
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

/// c x; 0 for a factor of 0 and an infinity, since the function is constant then.
fn times(c: f64, x: f64) -> f64 {
    if c == 0.0 && !x.is_nan() { 0.0 } else { c * x }
}

/// x times a factor that is 0 only where the product's limit is.
fn through(x: f64, factor: f64) -> f64 {
    if factor == 0.0 { 0.0 } else { x * factor }
}

/// x σ(z), whose power does not vanish before the product.
fn gated(x: f64, z: f64) -> f64 {
    if z < 0.0 { scaled_exp(x, z) / (1.0 + z.exp()) } else { x / (1.0 + (-z).exp()) }
}

/// c eᶻ, which neither overflows nor vanishes before the product does.
fn scaled_exp(c: f64, z: f64) -> f64 {
    let h = (0.5 * z).exp();
    if h == 0.0 { 0.0 } else { c * h * h }
}

/// The larger magnitude first.
fn by_magnitude(a: f64, b: f64) -> (f64, f64) {
    if a.abs() > b.abs() { (a, b) } else { (b, a) }
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn gelu_angle(x: f64) -> f64 {
    (2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))
}
