//! Host types of tensor elements.

use super::{Boolean, f8e4m3, f8e5m2};
use crate::DType;
use crate::launch::cpu_gemm::GemmElement;
use half::{bf16, f16};

/// A host type that is the storage of some [`DType`].
pub trait Element: bytemuck::Pod + Send + Sync {
    /// The element type.
    const DTYPE: DType;
    /// Exactly; an `i64` beyond 2⁵³ to nearest.
    fn to_f64(self) -> f64;
    /// Rounded to nearest, ties to even; integers and 8-bit floating-point types saturate.
    fn from_f64(value: f64) -> Self;
    /// As [`Element::from_f64`]; exact for `f32` and `f64`.
    fn from_f32(value: f32) -> Self;
    /// Rounded once to nearest, ties to even; saturates.
    fn from_integer(value: i64) -> Self {
        // An f64 has the last bit itself.
        Self::from_f64(if Self::DTYPE == DType::F64 { value as f64 } else { to_odd(value) })
    }
    /// Exactly where `self` is an integer that `i64` holds; else rounded to nearest and saturating.
    fn to_integer(self) -> i64 {
        self.to_f64().round_ties_even() as i64
    }
    /// Rounded to nearest, ties to even; exact unless `self` is an `f64`, an `i32` or an `i64`.
    fn to_f32(self) -> f32;
}

macro_rules! element {
    ($($t:ty => $dtype:ident, $to_f64:expr, $from_f64:expr, $to_f32:expr, $from_f32:expr;)*) => { $(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            fn to_f64(self) -> f64 {
                $to_f64(self)
            }
            fn from_f64(value: f64) -> Self {
                $from_f64(value)
            }
            fn from_f32(value: f32) -> Self {
                $from_f32(value)
            }
            fn to_f32(self) -> f32 {
                $to_f32(self)
            }
        }
    )* };
}

element! {
    f32 => F32, f64::from, |v| v as f32, |v| v, |v| v;
    f64 => F64, |v| v, |v| v, |v| v as f32, f64::from;
    f16 => F16, f16::to_f64, |v| f16::from_f32(f32_to_odd(v)), f16::to_f32, f16::from_f32;
    bf16 => BF16, bf16::to_f64, |v| bf16::from_f32(f32_to_odd(v)), bf16::to_f32, bf16::from_f32;
    // `as` saturates, and takes NaN to 0.
    i8 => I8, f64::from, |v: f64| v.round_ties_even() as i8, f32::from, |v: f32| v.round_ties_even() as i8;
    i32 => I32, f64::from, |v: f64| v.round_ties_even() as i32, |v| v as f32, |v: f32| v.round_ties_even() as i32;
    u8 => U8, f64::from, |v: f64| v.round_ties_even() as u8, f32::from, |v: f32| v.round_ties_even() as u8;
    Boolean => Bool, Boolean::to_f64, |v| Boolean::new(v != 0.0), Boolean::to_f32, |v| Boolean::new(v != 0.0);
    f8e4m3 => F8E4M3, f8e4m3::to_f64, f8e4m3::from_f64, f8e4m3::to_f32, f8e4m3::from_f32;
    f8e5m2 => F8E5M2, f8e5m2::to_f64, f8e5m2::from_f64, f8e5m2::to_f32, f8e5m2::from_f32;
}

impl Element for i64 {
    const DTYPE: DType = DType::I64;
    fn to_f64(self) -> f64 {
        self as f64
    }
    fn from_f64(value: f64) -> Self {
        value.round_ties_even() as i64
    }
    fn from_f32(value: f32) -> Self {
        value.round_ties_even() as i64
    }
    fn to_f32(self) -> f32 {
        self as f32
    }
    fn from_integer(value: i64) -> Self {
        value
    }
    fn to_integer(self) -> i64 {
        self
    }
}

/// The `f32` next to a number: itself where it is one, else of both neighbours the one whose last bit is 1. Rounding that to
/// a type of 22 bits of mantissa or less is rounding the number once.
fn f32_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let bits = nearest.to_bits();
    if f64::from(nearest) == value || value.is_nan() || bits & 1 == 1 {
        nearest
    } else if f64::from(nearest).abs() < value.abs() {
        f32::from_bits(bits + 1)
    } else {
        f32::from_bits(bits - 1)
    }
}

/// The same as an `f64`.
fn to_odd(value: i64) -> f64 {
    let nearest = value as f64;
    let (wide, bits) = (nearest as i128, nearest.to_bits());
    if wide == i128::from(value) || bits & 1 == 1 {
        nearest
    } else if wide.abs() < i128::from(value).abs() {
        f64::from_bits(bits + 1)
    } else {
        f64::from_bits(bits - 1)
    }
}

/// A type the CPU algorithms compute in: `f32` or `f64`.
pub(crate) trait Real: Element + num_traits::Float + GemmElement + std::iter::Sum + std::fmt::Debug {
    /// From storage, widening.
    fn load<T: Element>(value: T) -> Self;
    /// To storage, rounding.
    fn store<T: Element>(self) -> T;
    /// From a parameter.
    fn real(value: f64) -> Self {
        Self::from_f64(value)
    }
    /// The error function, which neither the standard library nor `num_traits` has.
    fn erf(self) -> Self;
    /// The normal distribution function, whose tail is exact relative to itself.
    fn normal_cdf(self) -> Self;
    /// e^(-x²/2).
    fn gauss(self) -> Self;
}

// `Element::from_f64` is named in full: `num_traits::Float` brings casts of similar names into scope.
impl Real for f32 {
    fn load<T: Element>(value: T) -> Self {
        Element::to_f32(value)
    }
    fn store<T: Element>(self) -> T {
        <T as Element>::from_f32(self)
    }
    fn real(value: f64) -> Self {
        value as f32
    }
    fn erf(self) -> Self {
        libm::erff(self)
    }
    fn normal_cdf(self) -> Self {
        // Rounding x/√2 to f32 would cost the tail five digits.
        (0.5 * libm::erfc(f64::from(self) * -std::f64::consts::FRAC_1_SQRT_2)) as f32
    }
    fn gauss(self) -> Self {
        let x = f64::from(self);
        (-0.5 * x * x).exp() as f32
    }
}

impl Real for f64 {
    fn load<T: Element>(value: T) -> Self {
        Element::to_f64(value)
    }
    fn store<T: Element>(self) -> T {
        <T as Element>::from_f64(self)
    }
    fn real(value: f64) -> Self {
        value
    }
    fn erf(self) -> Self {
        libm::erf(self)
    }
    fn normal_cdf(self) -> Self {
        /// 1/√2 less its `f64`.
        const REST: f64 = -4.833_646_656_726_458e-17;
        let factor = std::f64::consts::FRAC_1_SQRT_2;
        let a = self * -factor;
        let cdf = 0.5 * libm::erfc(a);
        if !(1.0..=30.0).contains(&a) {
            return cdf;
        }
        // What rounding takes from the argument, times the logarithm's slope: nearly -2 a - 1 / a.
        let lost = -(self.mul_add(factor, a) + self * REST);
        cdf - cdf * lost * (2.0 * a + 1.0 / a)
    }
    fn gauss(self) -> Self {
        let square = self * self;
        let power = (-0.5 * square).exp();
        if power == 0.0 { power } else { power * (1.0 - 0.5 * self.mul_add(self, -square)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_rounded_once() {
        for shift in 0..63 {
            for near in [-3, -2, -1, 0, 1, 2, 3] {
                for value in [(1i64 << shift) + near, (3i64 << (shift / 2 + 30)) + near, i64::MAX - near.abs()] {
                    for value in [value, value.wrapping_neg()] {
                        assert_eq!(f64::from_integer(value), value as f64, "{value}");
                        assert_eq!(f32::from_integer(value), value as f32, "{value}");
                        assert_eq!(i64::from_integer(value), value);
                    }
                }
            }
        }
    }
}
