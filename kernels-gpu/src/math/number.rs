//! What the kernels for any problem compute in: an accumulator, or `i64`, exactly and wrapping. Integers that are stored
//! follow `kernel_abi::cast`.

use super::element::Accumulator;
use super::pointwise::apply;
use super::sum::BLOCK;
use super::typed;
use kernel_abi::DType;
use kernel_abi::cast::{EVEN, SATURATE, is_whole, power, quotient, remainder};
use kernel_abi::ops::pointwise::{PointwisePass, step_op};

/// A number that is loaded, computed with and stored.
pub trait Number: Copy + PartialEq {
    const ZERO: Self;
    /// Of a number that stands in a problem's text.
    fn from_f64(value: f64) -> Self;
    fn from_i64(value: i64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// A step of a pointwise operation, but for `select`.
    fn step(op: u32, mode: u32, parameters: [f64; 3], x: Self, y: Self) -> Self;
    /// Element `offset` of a tensor of this type at `address`.
    ///
    /// # Safety
    /// The element exists.
    unsafe fn load(dtype: u32, address: u64, offset: i64) -> Self;
    /// Writes `alpha · self + beta · prior` to element `offset`, integers by the rule with the bits `cast`; the prior value
    /// is not read when beta is 0.
    ///
    /// # Safety
    /// The element exists and no other thread touches it.
    unsafe fn blend(self, dtype: u32, address: u64, offset: i64, scalars: (f64, f64), cast: u32);
}

/// A sum of numbers that come one after the other, in blocks.
pub struct Total<A> {
    whole: A,
    block: A,
    terms: u32,
}

impl<A: Number> Total<A> {
    /// No terms.
    pub const EMPTY: Self = Total { whole: A::ZERO, block: A::ZERO, terms: 0 };

    /// The next term.
    #[inline(always)]
    pub fn push(&mut self, term: A) {
        self.block = self.block.plus(term);
        self.terms += 1;
        if self.terms == BLOCK {
            (self.whole, self.block, self.terms) = (self.whole.plus(self.block), A::ZERO, 0);
        }
    }

    /// The sum.
    #[inline(always)]
    pub fn finish(self) -> A {
        self.whole.plus(self.block)
    }
}

/// Whether a type holds integers.
#[inline(always)]
pub fn is_integer(dtype: u32) -> bool {
    dtype == DType::I8 as u32 || dtype == DType::U8 as u32 || dtype == DType::I32 as u32 || dtype == DType::I64 as u32
}

/// What is stored of a number by the rule with the bits `cast`: without its fraction, where that is cut off.
#[inline(always)]
pub fn rounded<A: Accumulator>(value: A, dtype: u32, cast: u32) -> A {
    if cast & EVEN != 0 || !is_integer(dtype) {
        value
    } else if value < A::ZERO {
        value.ceil()
    } else {
        value.floor()
    }
}

macro_rules! reals {
    ($($t:ident),*) => { $(
        impl Number for $t {
            const ZERO: Self = 0.0;
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $t
            }
            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as $t
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn step(op: u32, mode: u32, parameters: [f64; 3], x: Self, y: Self) -> Self {
                let [result] = apply::<$t, 1, true>(op, mode, parameters.map(|value| value as $t), [x], [y]);
                result
            }
            #[inline(always)]
            unsafe fn load(dtype: u32, address: u64, offset: i64) -> Self {
                typed::load(dtype, address, offset)
            }
            #[inline(always)]
            unsafe fn blend(self, dtype: u32, address: u64, offset: i64, (alpha, beta): (f64, f64), cast: u32) {
                let mut value = <$t as Accumulator>::from_f64(alpha) * self;
                if beta != 0.0 {
                    let prior = typed::load(dtype, address, offset);
                    value = Accumulator::mul_add(<$t as Accumulator>::from_f64(beta), prior, value);
                }
                typed::store(dtype, address, offset, rounded(value, dtype, cast));
            }
        }
    )* };
}

reals!(f32, f64);

impl Number for i64 {
    const ZERO: Self = 0;
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as i64
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        value
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }

    #[inline(always)]
    fn step(op: u32, _: u32, _: [f64; 3], a: Self, b: Self) -> Self {
        macro_rules! by_number {
            ($($pass:ident => $value:expr;)*) => { $(
                if op == PointwisePass::$pass as u32 {
                    return $value;
                }
            )* };
        }
        by_number! {
            Add => a.wrapping_add(b);
            Mul => a.wrapping_mul(b);
            Sub => a.wrapping_sub(b);
            Min => if a < b { a } else { b };
            Max => if a > b { a } else { b };
            Mod => remainder(a, b);
            Pow => power(a, b);
            AddSquare => a.wrapping_add(b.wrapping_mul(b));
            Prelu => if a > 0 { a } else { a.wrapping_mul(b) };
            CmpEq => i64::from(a == b);
            CmpNeq => i64::from(a != b);
            CmpGt => i64::from(a > b);
            CmpGe => i64::from(a >= b);
            CmpLt => i64::from(a < b);
            CmpLe => i64::from(a <= b);
            LogicalAnd => i64::from(a != 0 && b != 0);
            LogicalOr => i64::from(a != 0 || b != 0);
            LogicalXor => i64::from((a != 0) != (b != 0));
            LogicalNot => i64::from(a == 0);
            Not => 1i64.wrapping_sub(a);
            Neg => a.wrapping_neg();
            Abs => a.wrapping_abs();
            Sign => if a > 0 { 1 } else if a < 0 { -1 } else { 0 };
        }
        if op == step_op::DIV_INTEGERS || op == PointwisePass::Div as u32 {
            return quotient(a, b);
        }
        // Integers are rounded already; the host gives no function of real numbers.
        a
    }

    #[inline(always)]
    unsafe fn load(dtype: u32, address: u64, offset: i64) -> Self {
        let offset = offset as isize;
        match dtype {
            I8 => i64::from(*(address as *const i8).offset(offset)),
            U8 => i64::from(*(address as *const u8).offset(offset)),
            I32 => i64::from(*(address as *const i32).offset(offset)),
            BOOL => i64::from(*(address as *const u8).offset(offset) != 0),
            _ => *(address as *const i64).offset(offset),
        }
    }

    #[inline(always)]
    unsafe fn blend(self, dtype: u32, address: u64, offset: i64, (alpha, beta): (f64, f64), cast: u32) {
        let mut value = self;
        let mut saturates = cast & SATURATE != 0;
        if alpha != 1.0 || beta != 0.0 {
            let prior = if beta != 0.0 { Self::load(dtype, address, offset) } else { 0 };
            if is_whole(alpha) && is_whole(beta) {
                value = (alpha as i64).wrapping_mul(value).wrapping_add((beta as i64).wrapping_mul(prior));
            } else {
                let mut real = alpha * value as f64;
                if beta != 0.0 {
                    real = cuda_std::math::fma_f64(beta, prior as f64, real);
                }
                if dtype == BOOL {
                    value = i64::from(real != 0.0);
                } else {
                    value = rounded(real, dtype, 0) as i64;
                    if cast & EVEN != 0 {
                        value = cuda_std::math::round_f64(real) as i64;
                    }
                    saturates = true;
                }
            }
        }
        store(dtype, address, offset, value, saturates);
    }
}

const I8: u32 = DType::I8 as u32;
const U8: u32 = DType::U8 as u32;
const I32: u32 = DType::I32 as u32;
const BOOL: u32 = DType::Bool as u32;

/// Stores the low bits of an integer, or the nearest that the type holds.
#[inline(always)]
unsafe fn store(dtype: u32, address: u64, offset: i64, value: i64, saturates: bool) {
    let offset = offset as isize;
    let within = |low: i64, high: i64| {
        if saturates && value < low {
            low
        } else if saturates && value > high {
            high
        } else {
            value
        }
    };
    match dtype {
        I8 => *(address as *mut i8).offset(offset) = within(-128, 127) as i8,
        U8 => *(address as *mut u8).offset(offset) = within(0, 255) as u8,
        I32 => *(address as *mut i32).offset(offset) = within(i64::from(i32::MIN), i64::from(i32::MAX)) as i32,
        BOOL => *(address as *mut u8).offset(offset) = u8::from(value != 0),
        _ => *(address as *mut i64).offset(offset) = value,
    }
}
