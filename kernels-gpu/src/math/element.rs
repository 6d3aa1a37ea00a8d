//! Element types as kernels see them: storage, and the accumulator all arithmetic is done in.

use core::ops::{Add, Div, Mul, Neg, Sub};
use cuda_std::{convert, elementary, math};
use kernel_abi::fp8;

/// The type arithmetic is done in: `f32`, or `f64` for `f64` storage.
pub trait Accumulator:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    const ZERO: Self;
    const ONE: Self;
    const NEG_INFINITY: Self;
    fn from_f64(value: f64) -> Self;
    fn from_i64(value: i64) -> Self;
    fn to_f64(self) -> f64;
    fn mul_add(self, b: Self, c: Self) -> Self;
    fn exp(self) -> Self;
    fn exp_m1(self) -> Self;
    fn ln(self) -> Self;
    fn tanh(self) -> Self;
    fn sigmoid(self) -> Self;
    fn sqrt(self) -> Self;
    fn shuffle_xor(self, lane: u32) -> Self;

    fn abs(self) -> Self {
        if self < Self::ZERO { -self } else { self }
    }

    /// Not a number.
    #[allow(clippy::eq_op)]
    fn is_nan(self) -> bool {
        self != self
    }

    /// Larger of both; NaN if either is.
    fn max(self, other: Self) -> Self {
        if self > other || self.is_nan() { self } else { other }
    }

    /// Smaller of both; NaN if either is.
    fn min(self, other: Self) -> Self {
        if self < other || self.is_nan() { self } else { other }
    }
}

macro_rules! accumulator {
    ($t:ident, $fma:path, $exp:path, $expm1:path, $ln:path, $tanh:path, $sigmoid:path, $sqrt:path, $shuffle:path) => {
        impl Accumulator for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = $t::NEG_INFINITY;
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $t
            }
            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                $fma(self, b, c)
            }
            #[inline]
            fn exp(self) -> Self {
                $exp(self)
            }
            #[inline]
            fn exp_m1(self) -> Self {
                $expm1(self)
            }
            #[inline]
            fn ln(self) -> Self {
                $ln(self)
            }
            #[inline]
            fn tanh(self) -> Self {
                $tanh(self)
            }
            #[inline]
            fn sigmoid(self) -> Self {
                $sigmoid(self)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $sqrt(self)
            }
            #[inline(always)]
            fn shuffle_xor(self, lane: u32) -> Self {
                $shuffle(self, lane)
            }
        }
    };
}

accumulator!(
    f32,
    math::fma_f32,
    elementary::exp_f32,
    elementary::expm1_f32,
    elementary::ln_f32,
    elementary::tanh_f32,
    elementary::sigmoid_f32,
    math::sqrt_f32,
    cuda_std::warp::shuffle_xor_f32
);
accumulator!(
    f64,
    math::fma_f64,
    elementary::exp_f64,
    elementary::expm1_f64,
    elementary::ln_f64,
    elementary::tanh_f64,
    elementary::sigmoid_f64,
    math::sqrt_f64,
    cuda_std::warp::shuffle_xor_f64
);

/// What products are summed in: the accumulator, or `i32` for integers.
pub trait Term: Copy {
    const ZERO: Self;
    /// `self · b + c`.
    fn multiply_add(self, b: Self, c: Self) -> Self;
    fn to_f64(self) -> f64;
}

impl Term for f32 {
    const ZERO: Self = 0.0;
    #[inline(always)]
    fn multiply_add(self, b: Self, c: Self) -> Self {
        math::fma_f32(self, b, c)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self as f64
    }
}

impl Term for f64 {
    const ZERO: Self = 0.0;
    #[inline(always)]
    fn multiply_add(self, b: Self, c: Self) -> Self {
        math::fma_f64(self, b, c)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
}

impl Term for i32 {
    const ZERO: Self = 0;
    #[inline(always)]
    fn multiply_add(self, b: Self, c: Self) -> Self {
        self.wrapping_mul(b).wrapping_add(c)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self as f64
    }
}

/// A storage type whose elements are multiplied.
pub trait Factor: Element {
    /// What the products are summed in.
    type Term: Term;
    fn term(self) -> Self::Term;
}

macro_rules! factors {
    ($($t:ident),*) => { $(
        impl Factor for $t {
            type Term = <$t as Element>::Acc;
            #[inline(always)]
            fn term(self) -> Self::Term {
                self.widen()
            }
        }
    )* };
}

factors!(f32, f64, f16, bf16, f8e4m3, f8e5m2);

impl Factor for i8 {
    type Term = i32;
    #[inline(always)]
    fn term(self) -> i32 {
        self as i32
    }
}

/// A storage type.
pub trait Element: Copy {
    /// What it is computed in.
    type Acc: Accumulator;
    fn widen(self) -> Self::Acc;
    fn narrow(value: Self::Acc) -> Self;
    fn to_f64(self) -> f64;
    /// Rounded once.
    fn from_f64(value: f64) -> Self;
}

impl Element for f32 {
    type Acc = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        value
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl Element for f64 {
    type Acc = f64;
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
}

/// IEEE binary16, as bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
#[allow(non_camel_case_types)]
pub struct f16(u16);

impl Element for f16 {
    type Acc = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        convert::f32_from_f16(self.0)
    }
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        f16(convert::f16_from_f32(value))
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.widen() as f64
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        f16(convert::f16_from_f64(value))
    }
}

/// bfloat16, as bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
#[allow(non_camel_case_types)]
pub struct bf16(u16);

impl Element for bf16 {
    type Acc = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        convert::f32_from_bf16(self.0)
    }
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        bf16(convert::bf16_from_f32(value))
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.widen() as f64
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        bf16(convert::bf16_from_f64(value))
    }
}

/// 0 for NaN.
#[inline(always)]
fn number(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

/// Integers meet alpha and beta in `f64`, which has all of them: nothing is lost before the one rounding at the end.
macro_rules! integer {
    ($t:ident, $from_f64:path) => {
        impl Element for $t {
            type Acc = f64;
            #[inline(always)]
            fn widen(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn narrow(value: f64) -> Self {
                $from_f64(number(value)) as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                $from_f64(number(value)) as $t
            }
        }
    };
}

integer!(i8, convert::i8_from_f64);
integer!(i32, convert::i32_from_f64);

macro_rules! fp8_element {
    ($(#[$meta:meta])* $name:ident, $from_f32:path, $from_f64:path, $to_f32:path) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        #[allow(non_camel_case_types)]
        pub struct $name(u8);

        impl Element for $name {
            type Acc = f32;
            #[inline(always)]
            fn widen(self) -> f32 {
                $to_f32(self.0)
            }
            #[inline(always)]
            fn narrow(value: f32) -> Self {
                $name($from_f32(value))
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.widen() as f64
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                $name($from_f64(value))
            }
        }
    };
}

fp8_element!(
    /// 8-bit floating point with 3 bits of mantissa, as bits. Converted by integer arithmetic: `sm_80` has no instruction.
    f8e4m3, fp8::e4m3_from_f32, fp8::e4m3_from_f64, fp8::f32_from_e4m3
);
fp8_element!(
    /// The same with 2 bits of mantissa.
    f8e5m2, fp8::e5m2_from_f32, fp8::e5m2_from_f64, fp8::f32_from_e5m2
);

/// Element `offset` of a tensor at `address`, to be multiplied.
///
/// # Safety
/// The element exists.
#[inline(always)]
pub unsafe fn load_term<T: Factor>(address: u64, offset: i64) -> T::Term {
    (*(address as *const T).offset(offset as isize)).term()
}

/// Element `offset` of a tensor at `address`, widened.
///
/// # Safety
/// The element exists.
#[inline(always)]
pub unsafe fn load<T: Element>(address: u64, offset: i64) -> T::Acc {
    (*(address as *const T).offset(offset as isize)).widen()
}

/// Writes `alpha · result + beta · prior` to element `offset`; the prior value is not read when beta is 0.
///
/// # Safety
/// The element exists and no other thread touches it.
#[inline(always)]
pub unsafe fn blend<T: Element>(address: u64, offset: i64, result: T::Acc, alpha: f64, beta: f64) {
    let to = (address as *mut T).offset(offset as isize);
    let mut value = T::Acc::from_f64(alpha) * result;
    if beta != 0.0 {
        value = T::Acc::from_f64(beta).mul_add((*to).widen(), value);
    }
    *to = T::narrow(value);
}
