//! Arithmetic for results of 16 bits: `f32`, with the special-function unit's approximations where accurate functions
//! would take longer than the memory. Errors are below 2⁻¹⁸ of the result, or of 1 where that is smaller and the function
//! is not odd; those of gates and of the normal distribution are below 2⁻¹⁵ of the result in its whole tail.

use super::element::{Accumulator, Element};
use super::vector::for_each;
use core::ops::{Add, Div, Mul, Neg, Sub};
use cuda_std::{elementary, math, warp};

/// An `f32` with such functions.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct Approximate(f32);

macro_rules! operators {
    ($($trait:ident, $name:ident = |$a:ident, $b:ident| $value:expr;)*) => { $(
        impl $trait for Approximate {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                let ($a, $b) = (self.0, other.0);
                Approximate($value)
            }
        }
    )* };
}

operators! {
    Add, add = |a, b| a + b;
    Sub, sub = |a, b| a - b;
    Mul, mul = |a, b| a * b;
    Div, div = |a, b| math::divide_full(a, b);
}

impl Neg for Approximate {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Approximate(-self.0)
    }
}

/// Where e^(-x²/2) is 0.
const FAR: f32 = 15.0;

/// Below this, odd functions and differences from 1 are their first terms.
const SMALL: f32 = 1.0 / 16.0;

/// 1/√x within two units in the last place: the special-function unit's and a step of Newton's method, in a few
/// instructions; by division where the unit takes its argument for 0.
#[inline(always)]
pub fn inverse_sqrt(x: f32) -> f32 {
    if is_usual(x) { usual_inverse_sqrt(x) } else { 1.0 / math::sqrt_f32(x) }
}

/// The same of several, with one branch.
#[inline(always)]
pub fn inverse_sqrts<const N: usize>(mut values: [f32; N]) -> [f32; N] {
    let mut all = true;
    for_each!(I < N, {
        all &= is_usual(values[I]);
    });
    if all {
        for_each!(I < N, {
            values[I] = usual_inverse_sqrt(values[I]);
        });
    } else {
        for_each!(I < N, {
            values[I] = 1.0 / math::sqrt_f32(values[I]);
        });
    }
    values
}

/// Whether the special-function unit takes it for what it is.
#[inline(always)]
fn is_usual(x: f32) -> bool {
    // Not for NaN.
    (f32::MIN_POSITIVE..=f32::MAX).contains(&x)
}

#[inline(always)]
fn usual_inverse_sqrt(x: f32) -> f32 {
    let y = math::rsqrt_approx(x);
    let rest = math::fma_f32(-x * y, y, 1.0);
    math::fma_f32(0.5 * y, rest, y)
}

/// ln(1 + x) by its first terms.
#[inline(always)]
fn ln_near_1(x: f32) -> f32 {
    x * (1.0 + x * (-0.5 + x * (1.0 / 3.0 + x * (-0.25 + x * 0.2))))
}

macro_rules! as_f32 {
    ($($name:ident($($argument:ident),*);)*) => { $(
        #[inline(always)]
        fn $name(self $(, $argument: Self)*) -> Self {
            Approximate(Accumulator::$name(self.0 $(, $argument.0)*))
        }
    )* };
}

impl Accumulator for Approximate {
    const ZERO: Self = Approximate(0.0);
    const ONE: Self = Approximate(1.0);
    const NEG_INFINITY: Self = Approximate(f32::NEG_INFINITY);

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        Approximate(value as f32)
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        Approximate(value as f32)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.0 as f64
    }
    #[inline(always)]
    fn of<T: Element>(element: T) -> Self {
        Approximate(element.to_f32())
    }
    #[inline(always)]
    fn store<T: Element>(self) -> T {
        T::from_f32(self.0)
    }
    #[inline(always)]
    fn exp(self) -> Self {
        Approximate(math::exp_approx(self.0))
    }
    #[inline(always)]
    fn exp_m1(self) -> Self {
        let x = self.0;
        let near = x * (1.0 + x * (0.5 + x * (1.0 / 6.0 + x * (1.0 / 24.0))));
        let far = math::exp_approx(x) - 1.0;
        Approximate(if x.abs() < SMALL { near } else { far })
    }
    #[inline(always)]
    fn ln_1p(self) -> Self {
        let x = self.0;
        let (near, far) = (ln_near_1(x), math::ln_approx(1.0 + x));
        Approximate(if x.abs() < SMALL { near } else { far })
    }
    #[inline(always)]
    fn ln(self) -> Self {
        /// Brings subnormal numbers, which the approximation takes for 0, among the normal ones.
        const LIFT_BITS: f32 = 24.0;
        const LIFT: f32 = (1u32 << LIFT_BITS as u32) as f32;
        let x = self.0;
        let (lift, bits) = if x < f32::MIN_POSITIVE { (LIFT, LIFT_BITS) } else { (1.0, 0.0) };
        let far = math::ln_approx(x * lift) - bits * core::f32::consts::LN_2;
        let near = ln_near_1(x - 1.0);
        Approximate(if (x - 1.0).abs() < SMALL { near } else { far })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        /// Brings subnormal numbers, which the approximation takes for 0, among the normal ones.
        const LIFT: f32 = (1u32 << 24) as f32;
        const ROOT_OF_LIFT: f32 = (1u32 << 12) as f32;
        let x = self.0;
        let (lift, drop) = if x < f32::MIN_POSITIVE { (LIFT, 1.0 / ROOT_OF_LIFT) } else { (1.0, 1.0) };
        Approximate(math::sqrt_approx(x * lift) * drop)
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        let x = self.0;
        let square = x * x;
        let near = x * (1.0 + square * (-1.0 / 3.0 + square * (2.0 / 15.0)));
        let far = 1.0 - 2.0 * math::reciprocal_approx(1.0 + math::exp_approx(2.0 * x.abs()));
        let far = if x < 0.0 { -far } else { far };
        // A NaN is in both.
        Approximate(if x.abs() < SMALL { near } else { far })
    }
    #[inline(always)]
    fn sigmoid(self) -> Self {
        Approximate(math::reciprocal_approx(1.0 + math::exp_approx(-self.0)))
    }
    /// Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26: within 1.5 · 10⁻⁷.
    #[inline(always)]
    fn erf(self) -> Self {
        let x = self.0;
        let (a, square) = (x.abs(), x * x);
        let near = x * (1.128_379_2 + square * (-0.376_126_4 + square * 0.112_837_92));
        let t = math::reciprocal_approx(1.0 + 0.327_591_1 * a);
        let polynomial =
            t * (0.254_829_6 + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152_1 + t * 1.061_405_4))));
        let far = 1.0 - polynomial * math::exp_approx(-square);
        let far = if x < 0.0 { -far } else { far };
        Approximate(if a < SMALL { near } else { far })
    }
    #[inline(always)]
    fn gated(self, z: Self) -> Self {
        let h = math::exp_approx(-0.5 * z.0.abs());
        let x = if z.0 < 0.0 { (self.0 * h) * h } else { self.0 };
        let product = x * math::reciprocal_approx(1.0 + h * h);
        Approximate(if z.0 < 0.0 && h == 0.0 { 0.0 } else { product })
    }
    #[inline(always)]
    fn normal_cdf(self) -> Self {
        let x = self.0;
        // Beyond, the power is 0. A NaN stays.
        let a = if x.abs() > FAR { FAR } else { x.abs() };
        let t = math::reciprocal_approx(1.0 + elementary::ERFC_SLOPE_APPROX * core::f32::consts::FRAC_1_SQRT_2 * a);
        let tail = 0.5 * elementary::erfc_scaled_approx(t) * math::exp_approx(-0.5 * a * a);
        Approximate(if x < 0.0 { tail } else { 1.0 - tail })
    }
    #[inline(always)]
    fn gauss(self) -> Self {
        let a = if self.0.abs() > FAR { FAR } else { self.0.abs() };
        Approximate(math::exp_approx(-0.5 * a * a))
    }
    #[inline(always)]
    fn shuffle_xor(self, lane: u32) -> Self {
        Approximate(warp::shuffle_xor_f32(self.0, lane))
    }
    as_f32! {
        mul_add(b, c);
        sin();
        cos();
        tan();
        atan2(x);
        pow(exponent);
        remainder(divisor);
        floor();
        ceil();
        round();
    }
}
