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
        // Halves, since the difference of large numbers might overflow, though the result does not.
        ActivationMode::Relu if x < a && c != zero && a.abs() > one => {
            let half = A::real(0.5);
            A::real(2.0) * (half * a + c * (half * x - half * a))
        }
        ActivationMode::Relu if x < a && c != zero => a + c * (x - a),
        ActivationMode::Relu => between(a, x, b),
        ActivationMode::ClippedRelu => between(zero, x, a),
        ActivationMode::Elu if x > zero => x,
        ActivationMode::Elu => a * x.exp_m1(),
        ActivationMode::Sigmoid => sigmoid(x),
        ActivationMode::Tanh => x.tanh(),
        ActivationMode::Swish => gated(x, times(a, x)),
        ActivationMode::Gelu => open(x, x.normal_cdf()),
        ActivationMode::GeluTanh => gated(x, gelu_angle(x)),
        ActivationMode::Softplus => scaled_softplus(a, x),
        ActivationMode::Hardsigmoid => between(zero, times(a, x) + b, one),
        ActivationMode::Hardswish => open(x, between(zero, (x + A::real(3.0)) / A::real(6.0), one)),
        ActivationMode::Mish => {
            let n = mish_term(x);
            open(x, n / (n + A::real(2.0)))
        }
        ActivationMode::Selu if x > zero => b * x,
        ActivationMode::Selu => {
            let (most, least) = by_magnitude(a, b);
            (most * x.exp_m1()) * least
        }
        ActivationMode::Celu if x > zero => x,
        ActivationMode::Celu => {
            let z = x / a;
            if z.abs() < A::real(TINY) {
                // Where the quotient vanishes, the first term is left.
                x
            } else if z > A::real(60.0) {
                // A power that overflows may be brought back by a.
                let h = (z * A::real(0.5)).exp();
                (a * h) * h
            } else {
                a * z.exp_m1()
            }
        }
        ActivationMode::Softsign if x.is_infinite() => x.signum(),
        ActivationMode::Softsign => x / (one + x.abs()),
        ActivationMode::Exp => x.exp(),
        ActivationMode::ThresholdedRelu if x > a => x,
        ActivationMode::ThresholdedRelu => zero,
        ActivationMode::LogSigmoid => -softplus(-x),
    }
}

/// f'(x) with these parameters.
pub(crate) fn slope<A: Real>(mode: ActivationMode, [a, b, c]: [A; MAX_PARAMETERS], x: A) -> A {
    let (zero, one) = (A::zero(), A::one());
    if x.is_nan() && !matches!(mode, ActivationMode::Identity | ActivationMode::ThresholdedRelu) {
        return x;
    }
    let step = |inside: bool, slope: A| if inside { slope } else { zero };
    match mode {
        ActivationMode::Identity => one,
        // Infinite bounds are none: nothing lies beyond them.
        ActivationMode::Relu if x <= a && a > A::neg_infinity() => c,
        ActivationMode::Relu => step(x < b || b == A::infinity(), one),
        ActivationMode::ClippedRelu => step(x > zero && x < a, one),
        ActivationMode::Elu if x > zero => one,
        ActivationMode::Elu => {
            // The power does not vanish before the product.
            let h = (x * A::real(0.5)).exp();
            (a * h) * h
        }
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
        ActivationMode::Swish => swish_slope(times(a, x)),
        ActivationMode::Gelu => {
            // Cut off where the density is 0.
            let far = A::real(40.0);
            let x = x.max(-far).min(far);
            x.normal_cdf() + x * (A::real(0.398_942_280_401_432_7) * x.gauss())
        }
        ActivationMode::GeluTanh => {
            let s = sigmoid(gelu_angle(x));
            let twice_u_slope = A::real(1.595_769_121_605_730_9) * (one + A::real(0.134_145) * x * x);
            // Where the gate is shut, the square may be infinite.
            let bend = s * (one - s);
            if bend == zero { s } else { s + x * bend * twice_u_slope }
        }
        ActivationMode::Softplus => sigmoid(a * x),
        ActivationMode::Hardsigmoid => {
            let line = times(a, x) + b;
            step(line > zero && line < one, a)
        }
        ActivationMode::Hardswish if x >= A::real(3.0) => one,
        ActivationMode::Hardswish => step(x > A::real(-3.0), (x + x + A::real(3.0)) / A::real(6.0)),
        ActivationMode::Mish => {
            let n = mish_term(x);
            let d = n + A::real(2.0);
            let x = mish_bounded(x);
            // 1 - t² without cancellation; where it is cut off, x is, too.
            n / d + gated(x, x) * (A::real(4.0) * (n + one) / (d * d))
        }
        ActivationMode::Selu if x > zero => b,
        ActivationMode::Selu => {
            let (most, least) = by_magnitude(a, b);
            let h = (x * A::real(0.5)).exp();
            // Large factors meet a power each, lest their product overflows; a small one comes last.
            if least.abs() > one { (most * h) * (least * h) } else { ((most * h) * h) * least }
        }
        ActivationMode::Celu if x > zero => one,
        ActivationMode::Celu => (x / a).exp(),
        ActivationMode::Softsign => {
            let r = one / (one + x.abs());
            r * r
        }
        ActivationMode::Exp => x.exp(),
        ActivationMode::ThresholdedRelu => step(x > a, one),
        ActivationMode::LogSigmoid => sigmoid(-x),
    }
}

/// Quotients below this are their function's first term.
const TINY: f64 = 1e-20;

fn sigmoid<A: Real>(x: A) -> A {
    // The same e at x and -x, where the exponential does not overflow.
    let e = (-x.abs()).exp();
    (if x < A::zero() { e } else { A::one() }) / (A::one() + e)
}

/// c x, where a factor of 0 makes 0 of an infinity: the function is constant then.
fn times<A: Real>(c: A, x: A) -> A {
    if c == A::zero() && !x.is_nan() { A::zero() } else { c * x }
}

/// x times a gate from 0 to 1, of which an infinity does not come through where it is shut.
fn open<A: Real>(x: A, gate: A) -> A {
    if gate == A::zero() { A::zero() } else { x * gate }
}

/// x σ(z), whose exponential neither overflows nor vanishes before the product does: 0 where the gate is shut.
fn gated<A: Real>(x: A, z: A) -> A {
    let h = (A::real(-0.5) * z.abs()).exp();
    if z < A::zero() && h == A::zero() {
        return A::zero();
    }
    (if z < A::zero() { (x * h) * h } else { x }) / (A::one() + h * h)
}

/// The larger magnitude first: what it multiplies is the last to vanish.
fn by_magnitude<A: Real>(a: A, b: A) -> (A, A) {
    if a.abs() > b.abs() { (a, b) } else { (b, a) }
}

/// s + z s (1 - s), s = σ(z).
fn swish_slope<A: Real>(z: A) -> A {
    // Where z is cut off, the power is 0.
    let w = z.abs().min(A::real(800.0));
    let e = (-w).exp();
    let d = A::one() + e;
    (if z < A::zero() { e * (d - w) } else { d + w * e }) / (d * d)
}

/// 2 √(2/π) (x + 0.044715 x³): gelu's approximation is x σ of it, since σ is (1 + tanh of half of it) / 2.
fn gelu_angle<A: Real>(x: A) -> A {
    A::real(1.595_769_121_605_730_9) * x * (A::one() + A::real(0.044_715) * x * x)
}

/// ln(1 + eˣ), whose exponential does not overflow.
fn softplus<A: Real>(x: A) -> A {
    (if x < A::zero() { A::zero() } else { x }) + (-x.abs()).exp().ln_1p()
}

/// ln(1 + e^(a x)) / a, where neither a x overflows nor the power vanishes before the quotient.
fn scaled_softplus<A: Real>(a: A, x: A) -> A {
    let z = a * x;
    let line = if z > A::zero() { x } else { A::zero() };
    let h = (A::real(-0.5) * z.abs()).exp();
    // The logarithm's first term from here on.
    let tail = if z.abs() > A::real(40.0) { (h / a) * h } else { (h * h).ln_1p() / a };
    line + tail
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
