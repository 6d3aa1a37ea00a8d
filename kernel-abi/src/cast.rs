//! How numbers become integers where they are stored.

/// What becomes of a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u32)]
pub enum Rounding {
    /// It is cut off, as in C, NumPy and ONNX.
    #[default]
    Truncate = 0,
    /// To the nearest integer, ties to even.
    Even = 1,
}

crate::text_enum!(Rounding { Truncate = "truncate", Even = "even" });

/// What becomes of an integer that the type does not hold. Floating-point numbers always saturate, and NaN becomes 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u32)]
pub enum Overflow {
    /// Its low bits are kept, as in C, NumPy and ONNX.
    #[default]
    Wrap = 0,
    /// The nearest integer that the type holds.
    Saturate = 1,
}

crate::text_enum!(Overflow { Wrap = "wrap", Saturate = "saturate" });

/// A rule for storing numbers in integer types; other types do not heed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Cast {
    /// Of floating-point numbers.
    pub rounding: Rounding,
    /// Of integers.
    pub overflow: Overflow,
}

impl Cast {
    /// Fractions are cut off, integers wrap.
    pub const PLAIN: Cast = Cast { rounding: Rounding::Truncate, overflow: Overflow::Wrap };
    /// Half to even and saturating, as quantized networks store their results.
    pub const NEAREST: Cast = Cast { rounding: Rounding::Even, overflow: Overflow::Saturate };

    /// Bit 0: [`Rounding::Even`]. Bit 1: [`Overflow::Saturate`].
    pub const fn bits(self) -> u32 {
        self.rounding as u32 | (self.overflow as u32) << 1
    }
}

/// The bit of [`Cast::bits`] for [`Rounding::Even`].
pub const EVEN: u32 = 1;
/// The bit of [`Cast::bits`] for [`Overflow::Saturate`].
pub const SATURATE: u32 = 2;

/// Whether a factor is an integer that i64 holds: then arithmetic on integers stays exact.
pub fn is_whole(factor: f64) -> bool {
    // Beyond 2⁵³ every number is an integer.
    let whole = factor as i64;
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&factor) && whole as f64 == factor
}

/// a / b rounded towards zero; 0 where b is 0. The smallest integer divided by -1 is itself.
pub const fn quotient(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.wrapping_div(b) }
}

/// What is left of a: with its sign, 0 where b is 0.
pub const fn remainder(a: i64, b: i64) -> i64 {
    if b == 0 { 0 } else { a.wrapping_rem(b) }
}

/// a to the power b, wrapping. Of a negative power what is left of its fraction: 0, unless a is 1 or -1.
pub const fn power(mut a: i64, b: i64) -> i64 {
    if b < 0 {
        return if a == 1 || a == -1 { power(a, -(b % 2)) } else { 0 };
    }
    let (mut result, mut rest) = (1i64, b);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(a);
        }
        a = a.wrapping_mul(a);
        rest >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_integers() {
        assert_eq!([quotient(7, 0), quotient(i64::MIN, -1), quotient(-7, 2)], [0, i64::MIN, -3]);
        assert_eq!([remainder(7, 0), remainder(i64::MIN, -1), remainder(-7, 2)], [0, 0, -1]);
        assert_eq!(
            [power(3, 40), power(2, 64), power(0, 0)],
            [12_157_665_459_056_928_801, 0, 1].map(|p: u64| p as i64)
        );
        assert_eq!([power(2, -1), power(-1, -3), power(-1, i64::MIN), power(1, -9), power(0, -1)], [0, -1, 1, 1, 0]);
        assert!(is_whole(-9_223_372_036_854_775_808.0) && is_whole(0.0) && is_whole(-3.0));
        assert!(!is_whole(9_223_372_036_854_775_808.0) && !is_whole(0.5) && !is_whole(f64::NAN));
    }
}
