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
    f16 => F16, f16::to_f64, f16::from_f64, f16::to_f32, f16::from_f32;
    bf16 => BF16, bf16::to_f64, bf16::from_f64, bf16::to_f32, bf16::from_f32;
    // `as` saturates, and takes NaN to 0.
    i8 => I8, f64::from, |v: f64| v.round_ties_even() as i8, f32::from, |v: f32| v.round_ties_even() as i8;
    i32 => I32, f64::from, |v: f64| v.round_ties_even() as i32, |v| v as f32, |v: f32| v.round_ties_even() as i32;
    u8 => U8, f64::from, |v: f64| v.round_ties_even() as u8, f32::from, |v: f32| v.round_ties_even() as u8;
    i64 => I64, |v| v as f64, |v: f64| v.round_ties_even() as i64, |v| v as f32, |v: f32| v.round_ties_even() as i64;
    Boolean => Bool, Boolean::to_f64, |v| Boolean::new(v != 0.0), Boolean::to_f32, |v| Boolean::new(v != 0.0);
    f8e4m3 => F8E4M3, f8e4m3::to_f64, f8e4m3::from_f64, f8e4m3::to_f32, f8e4m3::from_f32;
    f8e5m2 => F8E5M2, f8e5m2::to_f64, f8e5m2::from_f64, f8e5m2::to_f32, f8e5m2::from_f32;
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
}
