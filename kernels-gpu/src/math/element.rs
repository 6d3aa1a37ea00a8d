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
    /// The number that an element stores.
    fn of<T: Element>(element: T) -> Self;
    /// The element that stores this number, rounded once.
    fn store<T: Element>(self) -> T;
    fn mul_add(self, b: Self, c: Self) -> Self;
    fn exp(self) -> Self;
    fn exp_m1(self) -> Self;
    fn ln(self) -> Self;
    fn ln_1p(self) -> Self;
    fn tanh(self) -> Self;
    fn sigmoid(self) -> Self;
    fn erf(self) -> Self;
    /// The normal distribution function, whose tail is exact relative to itself.
    fn normal_cdf(self) -> Self;
    /// e^(-x²/2).
    fn gauss(self) -> Self;
    fn sqrt(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn tan(self) -> Self;
    /// The angle of the point (x, self).
    fn atan2(self, x: Self) -> Self;
    fn pow(self, exponent: Self) -> Self;
    /// The remainder of a division whose quotient is rounded towards zero.
    fn remainder(self, divisor: Self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    /// To the nearest integer, ties to even.
    fn round(self) -> Self;
    fn shuffle_xor(self, lane: u32) -> Self;

    /// self · σ(z), whose exponential neither overflows nor vanishes before the product does: 0 where the gate is shut.
    fn gated(self, z: Self) -> Self {
        let h = (Self::from_f64(-0.5) * z.abs()).exp();
        let product = if z < Self::ZERO { (self * h) * h } else { self } / (Self::ONE + h * h);
        if z < Self::ZERO && h == Self::ZERO { Self::ZERO } else { product }
    }

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
    ($t:ident, $to:ident, $from:ident, $fma:path, $shuffle:path, $($name:ident($($argument:ident),*) = $function:path;)*) => {
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
            fn of<T: Element>(element: T) -> Self {
                element.$to()
            }
            #[inline(always)]
            fn store<T: Element>(self) -> T {
                T::$from(self)
            }
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                $fma(self, b, c)
            }
            $(
                #[inline]
                fn $name(self $(, $argument: Self)*) -> Self {
                    $function(self $(, $argument)*)
                }
            )*
            #[inline(always)]
            fn shuffle_xor(self, lane: u32) -> Self {
                $shuffle(self, lane)
            }
        }
    };
}

accumulator!(
    f32, to_f32, from_f32, math::fma_f32, cuda_std::warp::shuffle_xor_f32,
    exp() = elementary::exp_f32;
    exp_m1() = elementary::expm1_f32;
    ln() = elementary::ln_f32;
    ln_1p() = elementary::log1p_f32;
    tanh() = elementary::tanh_f32;
    sigmoid() = elementary::sigmoid_f32;
    erf() = elementary::erf_f32;
    normal_cdf() = elementary::normal_cdf_f32;
    gauss() = elementary::gauss_f32;
    min(other) = math::min_nan_f32;
    max(other) = math::max_nan_f32;
    sqrt() = math::sqrt_f32;
    sin() = elementary::sin_f32;
    cos() = elementary::cos_f32;
    tan() = elementary::tan_f32;
    atan2(x) = elementary::atan2_f32;
    pow(exponent) = elementary::pow_f32;
    remainder(divisor) = elementary::fmod_f32;
    floor() = math::floor_f32;
    ceil() = math::ceil_f32;
    round() = math::round_f32;
);
accumulator!(
    f64, to_f64, from_f64, math::fma_f64, cuda_std::warp::shuffle_xor_f64,
    exp() = elementary::exp_f64;
    exp_m1() = elementary::expm1_f64;
    ln() = elementary::ln_f64;
    ln_1p() = elementary::log1p_f64;
    tanh() = elementary::tanh_f64;
    sigmoid() = elementary::sigmoid_f64;
    erf() = elementary::erf_f64;
    normal_cdf() = elementary::normal_cdf_f64;
    gauss() = elementary::gauss_f64;
    min(other) = math::min_nan_f64;
    max(other) = math::max_nan_f64;
    sqrt() = math::sqrt_f64;
    sin() = elementary::sin_f64;
    cos() = elementary::cos_f64;
    tan() = elementary::tan_f64;
    atan2(x) = elementary::atan2_f64;
    pow(exponent) = elementary::pow_f64;
    remainder(divisor) = elementary::fmod_f64;
    floor() = math::floor_f64;
    ceil() = math::ceil_f64;
    round() = math::round_f64;
);

/// What products are summed in: the accumulator, or `i32` for integers.
pub trait Term: Copy {
    /// A sum of nothing.
    const EMPTY: Self;
    /// `self · b + c`.
    fn multiply_add(self, b: Self, c: Self) -> Self;
    /// The same number.
    fn wide(self) -> f64;
}

impl Term for f32 {
    const EMPTY: Self = 0.0;
    #[inline(always)]
    fn multiply_add(self, b: Self, c: Self) -> Self {
        math::fma_f32(self, b, c)
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self as f64
    }
}

impl Term for f64 {
    const EMPTY: Self = 0.0;
    #[inline(always)]
    fn multiply_add(self, b: Self, c: Self) -> Self {
        math::fma_f64(self, b, c)
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
}

impl Term for i32 {
    const EMPTY: Self = 0;
    #[inline(always)]
    fn multiply_add(self, b: Self, c: Self) -> Self {
        self.wrapping_mul(b).wrapping_add(c)
    }
    #[inline(always)]
    fn wide(self) -> f64 {
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
    type Acc: Accumulator + Term;
    fn widen(self) -> Self::Acc;
    fn narrow(value: Self::Acc) -> Self;
    /// Two as a word, the first in its low half, by one instruction where there is one; 0 of types that have not 2 bytes.
    #[inline(always)]
    fn narrow_pair(_low: f32, _high: f32) -> u32 {
        0
    }
    fn to_f64(self) -> f64;
    /// Rounded once.
    fn from_f64(value: f64) -> Self;
    /// To nearest, where `f32` does not hold it.
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.to_f64() as f32
    }
    /// Rounded once.
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self::from_f64(value as f64)
    }
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
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.widen()
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self::narrow(value)
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
    fn narrow_pair(low: f32, high: f32) -> u32 {
        convert::f16x2_from_f32(low, high)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.widen() as f64
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        f16(convert::f16_from_f64(value))
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.widen()
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self::narrow(value)
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
    fn narrow_pair(low: f32, high: f32) -> u32 {
        convert::bf16x2_from_f32(low, high)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.widen() as f64
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        bf16(convert::bf16_from_f64(value))
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.widen()
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self::narrow(value)
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
integer!(u8, convert::u8_from_f64);
integer!(i64, convert::i64_from_f64);

/// A byte of which every value but 0 is true; 1 is written. In the kernel lists it is called `bool`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Boolean(u8);

impl Element for Boolean {
    type Acc = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        if self.0 != 0 { 1.0 } else { 0.0 }
    }
    #[inline(always)]
    fn narrow(value: f32) -> Self {
        Boolean(u8::from(value != 0.0))
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.widen() as f64
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        Boolean(u8::from(value != 0.0))
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.widen()
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self::narrow(value)
    }
}

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
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self.widen()
            }
            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                Self::narrow(value)
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

/// [`blend`] to an element that is stored in the accumulator type.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn blend_sum<A: Accumulator>(address: u64, offset: i64, result: A, alpha: f64, beta: f64) {
    let to = (address as *mut A).offset(offset as isize);
    let mut value = A::from_f64(alpha) * result;
    if beta != 0.0 {
        value = A::from_f64(beta).mul_add(*to, value);
    }
    *to = value;
}

/// Element `offset` of a tensor of i32 or i64, whose elements have so many bytes.
///
/// # Safety
/// The element exists.
#[inline(always)]
pub unsafe fn load_index(address: u64, bytes: u32, offset: i64) -> i64 {
    if bytes == 4 {
        *(address as *const i32).offset(offset as isize) as i64
    } else {
        *(address as *const i64).offset(offset as isize)
    }
}

/// Writes element `offset` of such a tensor.
///
/// # Safety
/// The element exists and no other thread touches it.
#[inline(always)]
pub unsafe fn store_index(address: u64, bytes: u32, offset: i64, value: i64) {
    if bytes == 4 {
        *(address as *mut i32).offset(offset as isize) = value as i32;
    } else {
        *(address as *mut i64).offset(offset as isize) = value;
    }
}
