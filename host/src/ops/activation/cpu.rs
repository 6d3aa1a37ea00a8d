//! Activation on the CPU: one parallel pass.

use super::{ActivationMode, ActivationProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::Real;
use kernel_abi::ops::activation::MAX_PARAMETERS;
use rayon::prelude::*;

/// One parallel pass over all elements.
#[derive(Clone, Copy)]
pub(super) struct Elementwise;

/// Elements a thread takes at a time.
const CHUNK: usize = 1 << 13;

impl CpuKernel<ActivationProblem> for Elementwise {
    const NAME: &'static str = "cpu_elementwise";

    fn slowness(_: &ActivationProblem) -> f64 {
        4.0
    }

    fn compute<A: Real>(problem: &ActivationProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let (mode, parameters) = (problem.mode(), problem.activation().parameters().map(A::real));
        let x = inputs[0].par_chunks(CHUNK);
        let out = outputs[0].par_chunks_mut(CHUNK);
        match inputs.get(1) {
            None => out.zip(x).for_each(|(y, x)| {
                y.iter_mut().zip(x).for_each(|(y, &x)| *y = value(mode, parameters, x));
            }),
            Some(dy) => out.zip(x).zip(dy.par_chunks(CHUNK)).for_each(|((dx, x), dy)| {
                dx.iter_mut().zip(x).zip(dy).for_each(|((dx, &x), &dy)| *dx = slope(mode, parameters, x) * dy);
            }),
        }
    }
}

/// f(x) with these parameters.
pub(crate) fn value<A: Real>(mode: ActivationMode, [a, b, c]: [A; MAX_PARAMETERS], x: A) -> A {
    let (zero, one) = (A::zero(), A::one());
    // Comparisons and not `max` and `min`, which would drop a NaN.
    let between = |low: A, x: A, high: A| {
        if x < low {
            low
        } else if x > high {
            high
        } else {
            x
        }
    };
    match mode {
        ActivationMode::Identity => x,
        ActivationMode::Relu if x < a && c != zero => a + c * (x - a),
        ActivationMode::Relu => between(a, x, b),
        ActivationMode::ClippedRelu => between(zero, x, a),
        ActivationMode::Elu if x > zero => x,
        ActivationMode::Elu => a * x.exp_m1(),
        ActivationMode::Sigmoid => sigmoid(x),
        ActivationMode::Tanh => x.tanh(),
        ActivationMode::Swish => x * sigmoid(a * x),
        ActivationMode::Gelu => x * normal_distribution(x),
        ActivationMode::GeluTanh => x * gelu_gate(x),
        ActivationMode::Softplus => softplus(a * x) / a,
        ActivationMode::Hardsigmoid => between(zero, a * x + b, one),
        ActivationMode::Hardswish => x * between(zero, x / A::real(6.0) + A::real(0.5), one),
        ActivationMode::Mish => {
            let n = mish_term(x);
            x * (n / (n + A::real(2.0)))
        }
        ActivationMode::Selu if x > zero => b * x,
        ActivationMode::Selu => b * a * x.exp_m1(),
        ActivationMode::Celu if x > zero => x,
        ActivationMode::Celu => a * (x / a).exp_m1(),
        ActivationMode::Softsign => x / (one + x.abs()),
        ActivationMode::Exp => x.exp(),
        ActivationMode::ThresholdedRelu if x <= a => zero,
        ActivationMode::ThresholdedRelu => x,
        ActivationMode::LogSigmoid => -softplus(-x),
    }
}

/// f'(x) with these parameters.
pub(crate) fn slope<A: Real>(mode: ActivationMode, [a, b, c]: [A; MAX_PARAMETERS], x: A) -> A {
    let (zero, one) = (A::zero(), A::one());
    if x.is_nan() && mode != ActivationMode::Identity {
        return x;
    }
    let step = |inside: bool, slope: A| if inside { slope } else { zero };
    match mode {
        ActivationMode::Identity => one,
        ActivationMode::Relu if x <= a => c,
        ActivationMode::Relu => step(x < b, one),
        ActivationMode::ClippedRelu => step(x > zero && x < a, one),
        ActivationMode::Elu if x > zero => one,
        ActivationMode::Elu => a * x.exp(),
        ActivationMode::Sigmoid => {
            // The same value at -x, where e⁻ˣ does not overflow.
            let e = (-x.abs()).exp();
            e / ((one + e) * (one + e))
        }
        ActivationMode::Tanh => {
            // 1 - tanh² cancels for large x; this form of 1 / cosh² does not.
            let e = (-(x.abs() + x.abs())).exp();
            A::real(4.0) * e / ((one + e) * (one + e))
        }
        ActivationMode::Swish => {
            let s = sigmoid(a * x);
            s + a * x * s * (one - s)
        }
        ActivationMode::Gelu => {
            let density = A::real(0.398_942_280_401_432_7) * (A::real(-0.5) * x * x).exp();
            normal_distribution(x) + x * density
        }
        ActivationMode::GeluTanh => {
            let s = gelu_gate(x);
            let twice_u_slope = A::real(1.595_769_121_605_730_9) * (one + A::real(0.134_145) * x * x);
            // Where the gate is shut, the square may be infinite.
            let bend = s * (one - s);
            if bend == zero { s } else { s + x * bend * twice_u_slope }
        }
        ActivationMode::Softplus => sigmoid(a * x),
        ActivationMode::Hardsigmoid => step(a * x + b > zero && a * x + b < one, a),
        ActivationMode::Hardswish if x >= A::real(3.0) => one,
        ActivationMode::Hardswish => step(x > A::real(-3.0), x / A::real(3.0) + A::real(0.5)),
        ActivationMode::Mish => {
            let n = mish_term(x);
            let d = n + A::real(2.0);
            // 1 - t² without cancellation; where it is cut off, x is, too.
            n / d + mish_bounded(x) * (A::real(4.0) * (n + one) / (d * d)) * sigmoid(x)
        }
        ActivationMode::Selu if x > zero => b,
        ActivationMode::Selu => b * a * x.exp(),
        ActivationMode::Celu if x > zero => one,
        ActivationMode::Celu => (x / a).exp(),
        ActivationMode::Softsign => one / ((one + x.abs()) * (one + x.abs())),
        ActivationMode::Exp => x.exp(),
        ActivationMode::ThresholdedRelu => step(x > a, one),
        ActivationMode::LogSigmoid => sigmoid(-x),
    }
}

fn sigmoid<A: Real>(x: A) -> A {
    A::one() / (A::one() + (-x).exp())
}

fn normal_distribution<A: Real>(x: A) -> A {
    A::real(0.5) * (A::one() + (A::real(std::f64::consts::FRAC_1_SQRT_2) * x).erf())
}

/// σ(2 √(2/π) (x + 0.044715 x³)), which is (1 + tanh of half of it) / 2.
fn gelu_gate<A: Real>(x: A) -> A {
    sigmoid(A::real(1.595_769_121_605_730_9) * x * (A::one() + A::real(0.044_715) * x * x))
}

/// ln(1 + eˣ), whose exponential does not overflow.
fn softplus<A: Real>(x: A) -> A {
    (if x < A::zero() { A::zero() } else { x }) + (-x.abs()).exp().ln_1p()
}

/// n = e²ˣ + 2 eˣ, with which tanh(ln(1 + eˣ)) is n / (n + 2).
fn mish_term<A: Real>(x: A) -> A {
    let e = mish_bounded(x).exp();
    e * (e + A::real(2.0))
}

/// x, cut off where that tanh is 1.
fn mish_bounded<A: Real>(x: A) -> A {
    let bound = A::real(30.0);
    if x > bound { bound } else { x }
}
