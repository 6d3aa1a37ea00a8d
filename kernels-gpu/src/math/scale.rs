//! Powers of two that bring numbers to where neither their squares nor sums of these leave the type's range.

use super::element::Accumulator;

#[inline(always)]
pub fn is_finite<A: Accumulator>(x: A) -> bool {
    x - x == A::ZERO
}

/// Powers of two by what the type holds.
#[inline(always)]
fn power<A: Accumulator>(of_f32: f64, of_f64: f64) -> A {
    A::from_f64(if size_of::<A>() == size_of::<f32>() { of_f32 } else { of_f64 })
}

/// 2ⁿ of a positive exponent.
const fn two_to(n: u64) -> f64 {
    f64::from_bits((1023 + n) << 52)
}

/// Brings the squares of the largest differences, 2¹²⁹ or 2¹⁰²⁵, and sums of 2³¹ of them to what the type holds.
#[inline(always)]
pub fn down<A: Accumulator>() -> A {
    power(1.0 / two_to(81), 1.0 / two_to(600))
}

/// Brings the squares of the smallest numbers to what the type holds.
#[inline(always)]
pub fn up<A: Accumulator>() -> A {
    power(two_to(100), two_to(600))
}

/// A sum of squares of at least this has lost nothing.
#[inline(always)]
pub fn least<A: Accumulator>() -> A {
    power(1.0 / two_to(90), 1.0 / two_to(800))
}
