//! Activation functions, formulas in `kernel_abi::ops::activation`.
//!
//! Where a function has several parts, all are computed before one is chosen: the lanes of a warp stay together.

use super::element::Accumulator;
use kernel_abi::ops::activation::ActivationMode;

/// f(x) of an epilogue's mode with this number and coefficient.
#[inline(always)]
pub fn value<A: Accumulator>(mode: u32, c: A, x: A) -> A {
    // Numbers, not the enum: an address may hold anything, and a kernel must not have a value outside an enum.
    if mode == ActivationMode::Relu as u32 {
        if x < A::ZERO { A::ZERO } else { x }
    } else if mode == ActivationMode::ClippedRelu as u32 {
        if x < A::ZERO {
            A::ZERO
        } else if x > c {
            c
        } else {
            x
        }
    } else if mode == ActivationMode::Elu as u32 {
        let below = c * x.exp_m1();
        if x > A::ZERO { x } else { below }
    } else if mode == ActivationMode::Sigmoid as u32 {
        x.sigmoid()
    } else if mode == ActivationMode::Tanh as u32 {
        x.tanh()
    } else if mode == ActivationMode::Swish as u32 {
        x * (c * x).sigmoid()
    } else {
        x
    }
}

/// f(x) of any mode with this number and parameters.
#[inline(always)]
pub fn forward<A: Accumulator>(mode: u32, [a, b, c]: [A; 3], x: A) -> A {
    let constant = |number: f64| A::from_f64(number);
    if mode == ActivationMode::Relu as u32 {
        let below = a + c * (x - a);
        let below = if c == A::ZERO { a } else { below };
        // A NaN is not above b either.
        let kept = if x <= a { below } else { x };
        if x >= b { b } else { kept }
    } else if mode <= ActivationMode::Swish as u32 {
        value(mode, a, x)
    } else if mode == ActivationMode::Gelu as u32 {
        constant(0.5) * x * (A::ONE + (constant(core::f64::consts::FRAC_1_SQRT_2) * x).erf())
    } else if mode == ActivationMode::GeluTanh as u32 {
        x * gelu_gate(x)
    } else if mode == ActivationMode::Softplus as u32 {
        softplus(a * x) / a
    } else if mode == ActivationMode::Hardsigmoid as u32 {
        clamp_to_1(a * x + b)
    } else if mode == ActivationMode::Hardswish as u32 {
        x * clamp_to_1(x * constant(1.0 / 6.0) + constant(0.5))
    } else if mode == ActivationMode::Mish as u32 {
        let n = mish_term(x);
        x * (n / (n + constant(2.0)))
    } else if mode == ActivationMode::Selu as u32 {
        let below = a * x.exp_m1();
        b * if x > A::ZERO { x } else { below }
    } else if mode == ActivationMode::Celu as u32 {
        let below = a * (x / a).exp_m1();
        if x > A::ZERO { x } else { below }
    } else if mode == ActivationMode::Softsign as u32 {
        x / (A::ONE + x.abs())
    } else if mode == ActivationMode::Exp as u32 {
        x.exp()
    } else if mode == ActivationMode::ThresholdedRelu as u32 {
        if x > a || x.is_nan() { x } else { A::ZERO }
    } else {
        -softplus(-x)
    }
}

/// f'(x) of any mode.
#[inline(always)]
pub fn slope<A: Accumulator>(mode: u32, [a, b, c]: [A; 3], x: A) -> A {
    let constant = |number: f64| A::from_f64(number);
    let step = |inside: bool, slope: A| {
        if x.is_nan() {
            x
        } else if inside {
            slope
        } else {
            A::ZERO
        }
    };
    if mode == ActivationMode::Relu as u32 {
        if x > a || x.is_nan() { step(x < b, A::ONE) } else { c }
    } else if mode == ActivationMode::ClippedRelu as u32 {
        step(x > A::ZERO && x < a, A::ONE)
    } else if mode == ActivationMode::Elu as u32 {
        let below = a * x.exp();
        if x > A::ZERO { A::ONE } else { below }
    } else if mode == ActivationMode::Sigmoid as u32 {
        // The same value at -x, where the exponential does not overflow.
        let e = (-x.abs()).exp();
        e / ((A::ONE + e) * (A::ONE + e))
    } else if mode == ActivationMode::Tanh as u32 {
        // 1 - tanh² cancels for large x; this form of 1 / cosh² does not.
        let e = (-(x.abs() + x.abs())).exp();
        constant(4.0) * e / ((A::ONE + e) * (A::ONE + e))
    } else if mode == ActivationMode::Swish as u32 {
        let s = (a * x).sigmoid();
        s + a * x * s * (A::ONE - s)
    } else if mode == ActivationMode::Gelu as u32 {
        let density = constant(0.398_942_280_401_432_7) * (constant(-0.5) * x * x).exp();
        constant(0.5) * (A::ONE + (constant(core::f64::consts::FRAC_1_SQRT_2) * x).erf()) + x * density
    } else if mode == ActivationMode::GeluTanh as u32 {
        let s = gelu_gate(x);
        let twice_u_slope = constant(1.595_769_121_605_730_9) * (A::ONE + constant(0.134_145) * x * x);
        // Where the gate is shut, the square may be infinite.
        let bend = s * (A::ONE - s);
        if bend == A::ZERO { s } else { s + x * bend * twice_u_slope }
    } else if mode == ActivationMode::Softplus as u32 {
        (a * x).sigmoid()
    } else if mode == ActivationMode::Hardsigmoid as u32 {
        let line = a * x + b;
        step(line > A::ZERO && line < A::ONE, a)
    } else if mode == ActivationMode::Hardswish as u32 {
        let three = constant(3.0);
        if x >= three { A::ONE } else { step(x > -three, x * constant(1.0 / 3.0) + constant(0.5)) }
    } else if mode == ActivationMode::Mish as u32 {
        let n = mish_term(x);
        let d = n + constant(2.0);
        // 1 - t² without cancellation; where it is cut off, x is, too.
        n / d + mish_bounded(x) * (constant(4.0) * (n + A::ONE) / (d * d)) * x.sigmoid()
    } else if mode == ActivationMode::Selu as u32 {
        let below = a * x.exp();
        b * if x > A::ZERO { A::ONE } else { below }
    } else if mode == ActivationMode::Celu as u32 {
        let below = (x / a).exp();
        if x > A::ZERO { A::ONE } else { below }
    } else if mode == ActivationMode::Softsign as u32 {
        let d = A::ONE + x.abs();
        A::ONE / (d * d)
    } else if mode == ActivationMode::Exp as u32 {
        x.exp()
    } else if mode == ActivationMode::ThresholdedRelu as u32 {
        step(x > a, A::ONE)
    } else if mode == ActivationMode::LogSigmoid as u32 {
        (-x).sigmoid()
    } else {
        A::ONE
    }
}

/// σ(2 √(2/π) (x + 0.044715 x³)), which is (1 + tanh of half of it) / 2.
#[inline(always)]
fn gelu_gate<A: Accumulator>(x: A) -> A {
    (A::from_f64(1.595_769_121_605_730_9) * x * (A::ONE + A::from_f64(0.044_715) * x * x)).sigmoid()
}

/// ln(1 + eˣ), whose exponential does not overflow.
#[inline(always)]
fn softplus<A: Accumulator>(x: A) -> A {
    (if x < A::ZERO { A::ZERO } else { x }) + (-x.abs()).exp().ln_1p()
}

/// n = e²ˣ + 2 eˣ, with which tanh(ln(1 + eˣ)) is n / (n + 2).
#[inline(always)]
fn mish_term<A: Accumulator>(x: A) -> A {
    let e = mish_bounded(x).exp();
    e * (e + A::from_f64(2.0))
}

/// x, cut off where that tanh is 1.
#[inline(always)]
fn mish_bounded<A: Accumulator>(x: A) -> A {
    let bound = A::from_f64(30.0);
    if x > bound { bound } else { x }
}

/// The nearest number from 0 to 1.
#[inline(always)]
fn clamp_to_1<A: Accumulator>(x: A) -> A {
    if x < A::ZERO {
        A::ZERO
    } else if x > A::ONE {
        A::ONE
    } else {
        x
    }
}

/// f'(x) from y = f(x), of the modes whose derivative follows from it; 1 of others.
#[inline(always)]
pub fn slope_of_value<A: Accumulator>(mode: u32, c: A, y: A) -> A {
    if mode == ActivationMode::Relu as u32 {
        if y > A::ZERO { A::ONE } else { A::ZERO }
    } else if mode == ActivationMode::ClippedRelu as u32 {
        if y > A::ZERO && y < c { A::ONE } else { A::ZERO }
    } else if mode == ActivationMode::Elu as u32 {
        if y > A::ZERO { A::ONE } else { y + c }
    } else if mode == ActivationMode::Sigmoid as u32 {
        y * (A::ONE - y)
    } else if mode == ActivationMode::Tanh as u32 {
        A::ONE - y * y
    } else {
        A::ONE
    }
}
