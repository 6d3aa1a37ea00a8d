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
        x.gated(times(c, x))
    } else {
        x
    }
}

/// f(x) of any mode with this number and parameters.
#[inline(always)]
pub fn forward<A: Accumulator>(mode: u32, [a, b, c]: [A; 3], x: A) -> A {
    let constant = |number: f64| A::from_f64(number);
    if mode == ActivationMode::Relu as u32 {
        // Halves where the difference of large numbers might overflow, though the result does not.
        let large = a.abs() > A::ONE;
        let (half, double) = if large { (constant(0.5), constant(2.0)) } else { (A::ONE, A::ONE) };
        let below = (half * a + c * (half * x - half * a)) * double;
        let below = if c == A::ZERO { a } else { below };
        // A NaN is not above b either.
        let kept = if x < a { below } else { x };
        if x >= b { b } else { kept }
    } else if mode <= ActivationMode::Swish as u32 {
        value(mode, a, x)
    } else if mode == ActivationMode::Gelu as u32 {
        open(x, x.normal_cdf())
    } else if mode == ActivationMode::GeluTanh as u32 {
        x.gated(gelu_angle(x))
    } else if mode == ActivationMode::Softplus as u32 {
        scaled_softplus(a, x)
    } else if mode == ActivationMode::Hardsigmoid as u32 {
        clamp_to_1(times(a, x) + b)
    } else if mode == ActivationMode::Hardswish as u32 {
        open(x, clamp_to_1((x + constant(3.0)) * constant(1.0 / 6.0)))
    } else if mode == ActivationMode::Mish as u32 {
        let n = mish_term(x);
        open(x, n / (n + constant(2.0)))
    } else if mode == ActivationMode::Selu as u32 {
        let (most, least) = by_magnitude(a, b);
        let below = (most * x.exp_m1()) * least;
        if x > A::ZERO { b * x } else { below }
    } else if mode == ActivationMode::Celu as u32 {
        let z = x / a;
        // Where the quotient vanishes, the first term is left; a power that overflows may be brought back by a.
        let h = (z * constant(0.5)).exp();
        let far = (a * h) * h;
        let below = if z > constant(60.0) { far } else { a * z.exp_m1() };
        let below = if z.abs() < constant(TINY) { x } else { below };
        if x > A::ZERO { x } else { below }
    } else if mode == ActivationMode::Softsign as u32 {
        let bound = constant(HUGE);
        if x.abs() > bound { sign(x) } else { x / (A::ONE + x.abs()) }
    } else if mode == ActivationMode::Exp as u32 {
        x.exp()
    } else if mode == ActivationMode::ThresholdedRelu as u32 {
        if x > a { x } else { A::ZERO }
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
        // Infinite bounds are none: nothing lies beyond them.
        let below = x <= a && a > A::NEG_INFINITY;
        if below { c } else { step(x < b || b == -A::NEG_INFINITY, A::ONE) }
    } else if mode == ActivationMode::ClippedRelu as u32 {
        step(x > A::ZERO && x < a, A::ONE)
    } else if mode == ActivationMode::Elu as u32 {
        let below = scaled_exp(a, x);
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
        swish_slope(times(a, x))
    } else if mode == ActivationMode::Gelu as u32 {
        // Cut off where the density is 0.
        let far = constant(40.0);
        let bounded = if x > far {
            far
        } else if x < -far {
            -far
        } else {
            x
        };
        bounded.normal_cdf() + bounded * (constant(0.398_942_280_401_432_7) * bounded.gauss())
    } else if mode == ActivationMode::GeluTanh as u32 {
        let s = gelu_angle(x).sigmoid();
        let twice_u_slope = constant(1.595_769_121_605_730_9) * (A::ONE + constant(0.134_145) * x * x);
        // Where the gate is shut, the square may be infinite.
        let bend = s * (A::ONE - s);
        if bend == A::ZERO { s } else { s + x * bend * twice_u_slope }
    } else if mode == ActivationMode::Softplus as u32 {
        (a * x).sigmoid()
    } else if mode == ActivationMode::Hardsigmoid as u32 {
        let line = times(a, x) + b;
        step(line > A::ZERO && line < A::ONE, a)
    } else if mode == ActivationMode::Hardswish as u32 {
        let three = constant(3.0);
        if x >= three { A::ONE } else { step(x > -three, (x + x + three) * constant(1.0 / 6.0)) }
    } else if mode == ActivationMode::Mish as u32 {
        // t + x (1 - t²) / (1 + e⁻ˣ) without cancellation, of one power, of -|x| / 2: its square does not overflow.
        let h = (constant(-0.5) * x.abs()).exp();
        let q = h * h;
        let (two, below) = (constant(2.0), x < A::ZERO);
        let n = if below { q * (q + two) } else { A::ONE + two * q };
        let d = if below { n + two } else { n + two * q * q };
        let gate = (x * h) * h;
        let gate = if h == A::ZERO { A::ZERO } else { gate * if below { A::ONE } else { q } };
        n / d + constant(4.0) * gate * (A::ONE + q) / (d * d)
    } else if mode == ActivationMode::Selu as u32 {
        let (most, least) = by_magnitude(a, b);
        let h = (x * constant(0.5)).exp();
        // Large factors meet a power each, lest their product overflows; a small one comes last.
        let once = most * h;
        let below = if least.abs() > A::ONE { once * (least * h) } else { (once * h) * least };
        if x > A::ZERO { b } else { below }
    } else if mode == ActivationMode::Celu as u32 {
        let below = (x / a).exp();
        if x > A::ZERO { A::ONE } else { below }
    } else if mode == ActivationMode::Softsign as u32 {
        let r = A::ONE / (A::ONE + x.abs());
        r * r
    } else if mode == ActivationMode::Exp as u32 {
        x.exp()
    } else if mode == ActivationMode::ThresholdedRelu as u32 {
        if x > a { A::ONE } else { A::ZERO }
    } else if mode == ActivationMode::LogSigmoid as u32 {
        (-x).sigmoid()
    } else {
        A::ONE
    }
}

/// Quotients below this are their function's first term.
const TINY: f64 = 1e-20;

/// 1 is lost beside this, whose reciprocal is a normal number of every type.
const HUGE: f64 = 1e30;

/// c x, where a factor of 0 makes 0 of an infinity: the function is constant then.
#[inline(always)]
fn times<A: Accumulator>(c: A, x: A) -> A {
    // A NaN stays, and gates meet x itself besides.
    if c == A::ZERO && !x.is_nan() { A::ZERO } else { c * x }
}

/// x times a gate from 0 to 1, of which an infinity does not come through where it is shut.
#[inline(always)]
fn open<A: Accumulator>(x: A, gate: A) -> A {
    if gate == A::ZERO { A::ZERO } else { x * gate }
}

/// The larger magnitude first: what it multiplies is the last to vanish.
#[inline(always)]
fn by_magnitude<A: Accumulator>(a: A, b: A) -> (A, A) {
    if a.abs() > b.abs() { (a, b) } else { (b, a) }
}

/// c eˣ for x up to 0, whose power does not vanish before the product.
#[inline(always)]
fn scaled_exp<A: Accumulator>(c: A, x: A) -> A {
    let h = (x * A::from_f64(0.5)).exp();
    (c * h) * h
}

#[inline(always)]
fn sign<A: Accumulator>(x: A) -> A {
    if x < A::ZERO { -A::ONE } else { A::ONE }
}

/// s + z s (1 - s), s = σ(z).
#[inline(always)]
fn swish_slope<A: Accumulator>(z: A) -> A {
    // Where z is cut off, the power is 0.
    let far = A::from_f64(800.0);
    let w = if z.abs() > far { far } else { z.abs() };
    let e = (-w).exp();
    let d = A::ONE + e;
    let rest = if z < A::ZERO { e * (d - w) } else { d + w * e };
    rest / (d * d)
}

/// 2 √(2/π) (x + 0.044715 x³): gelu's approximation is x σ of it, since σ is (1 + tanh of half of it) / 2.
#[inline(always)]
fn gelu_angle<A: Accumulator>(x: A) -> A {
    A::from_f64(1.595_769_121_605_730_9) * x * (A::ONE + A::from_f64(0.044_715) * x * x)
}

/// ln(1 + eˣ), whose exponential does not overflow.
#[inline(always)]
fn softplus<A: Accumulator>(x: A) -> A {
    (if x < A::ZERO { A::ZERO } else { x }) + (-x.abs()).exp().ln_1p()
}

/// ln(1 + e^(a x)) / a, where neither a x overflows nor the power vanishes before the quotient.
#[inline(always)]
fn scaled_softplus<A: Accumulator>(a: A, x: A) -> A {
    let z = a * x;
    let line = if z > A::ZERO { x } else { A::ZERO };
    let h = (A::from_f64(-0.5) * z.abs()).exp();
    // The logarithm's first term from here on.
    let far = z.abs() > A::from_f64(40.0);
    let (top, rest) = if far { (h, h) } else { ((h * h).ln_1p(), A::ONE) };
    line + (top / a) * rest
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
