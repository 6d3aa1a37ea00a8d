//! The parts of reductions, formulas in `kernel_abi::ops::reduce`.
//!
//! Where a sum or a square leaves the type's range, the result may yet lie in it: the reduction is then done again, with
//! elements times a power of two.

use super::element::Accumulator;
use super::scale::{down, is_finite, least, up};
use kernel_abi::ops::reduce::ReducePass;

const ADD: u32 = ReducePass::Add as u32;
const MUL: u32 = ReducePass::Mul as u32;
const MIN: u32 = ReducePass::Min as u32;
const MAX: u32 = ReducePass::Max as u32;
const AMAX: u32 = ReducePass::Amax as u32;
const AVG: u32 = ReducePass::Avg as u32;
const NORM1: u32 = ReducePass::Norm1 as u32;
const NORM2: u32 = ReducePass::Norm2 as u32;
const MUL_NO_ZEROS: u32 = ReducePass::MulNoZeros as u32;
const SUM_SQUARE: u32 = ReducePass::SumSquare as u32;
const LOG_SUM: u32 = ReducePass::LogSum as u32;

/// What elements of a reduction are multiplied by.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Scale {
    One = 0,
    Down = 1,
    Up = 2,
}

impl Scale {
    #[inline(always)]
    pub fn factor<A: Accumulator>(self) -> A {
        match self {
            Scale::One => A::ONE,
            Scale::Down => down(),
            Scale::Up => up(),
        }
    }
}

/// Whether the reduction adds terms.
#[inline(always)]
pub const fn adds(op: u32) -> bool {
    matches!(op, ADD | AVG | NORM1 | NORM2 | SUM_SQUARE | LOG_SUM)
}

/// Whether [`wanted`] ever wants another scale than 1: not where the result is no smaller than any part of it.
#[inline(always)]
pub const fn is_scaled(op: u32) -> bool {
    matches!(op, ADD | AVG | NORM2 | LOG_SUM)
}

/// The scale by which the elements' reduction is right, by what it is with scale 1.
#[inline(always)]
pub fn wanted<A: Accumulator>(op: u32, whole: A) -> Scale {
    if !is_scaled(op) {
        Scale::One
    } else if !is_finite(whole) {
        Scale::Down
    } else if op == NORM2 && whole < least() {
        Scale::Up
    } else {
        Scale::One
    }
}

/// What some of the elements are, and what they were multiplied by.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Part<A> {
    pub whole: A,
    pub factor: A,
}

impl<A: Accumulator> Part<A> {
    /// Of no elements.
    #[inline(always)]
    pub fn start(op: u32) -> Self {
        Part { whole: start(op), factor: up() }
    }

    /// With other elements; what the smaller factor makes 0 is small beside what asked for it.
    #[inline(always)]
    pub fn with(self, op: u32, other: Self) -> Self {
        if !is_scaled(op) {
            return Part { whole: join(op, self.whole, other.whole), ..self };
        }
        let factor = if other.factor < self.factor { other.factor } else { self.factor };
        let of = |part: Self| {
            let ratio = factor / part.factor;
            let whole = part.whole * ratio;
            if op == NORM2 { whole * ratio } else { whole }
        };
        let equal = self.factor == other.factor;
        let (a, b) = if equal { (self.whole, other.whole) } else { (of(self), of(other)) };
        Part { whole: join(op, a, b), factor }
    }
}

/// Where a reduction begins.
#[inline(always)]
pub fn start<A: Accumulator>(op: u32) -> A {
    match op {
        MUL | MUL_NO_ZEROS => A::ONE,
        MIN => -A::NEG_INFINITY,
        MAX => A::NEG_INFINITY,
        _ => A::ZERO,
    }
}

/// What an element counts as.
#[inline(always)]
pub fn term<A: Accumulator>(op: u32, x: A) -> A {
    match op {
        AMAX | NORM1 => x.abs(),
        NORM2 | SUM_SQUARE => x * x,
        MUL_NO_ZEROS => {
            if x == A::ZERO {
                A::ONE
            } else {
                x
            }
        }
        _ => x,
    }
}

/// Two parts.
#[inline(always)]
pub fn join<A: Accumulator>(op: u32, a: A, b: A) -> A {
    match op {
        MUL | MUL_NO_ZEROS => a * b,
        MIN => a.min(b),
        MAX | AMAX => a.max(b),
        _ => a + b,
    }
}

/// The result of `n` elements.
#[inline(always)]
pub fn finish<A: Accumulator>(op: u32, Part { whole, factor }: Part<A>, n: i64) -> A {
    match op {
        ADD => whole / factor,
        AVG => whole / A::from_i64(n) / factor,
        NORM2 => whole.sqrt() / factor,
        LOG_SUM => whole.ln() - factor.ln(),
        _ => whole,
    }
}

/// Whether the second of two numbers with their indices is the result.
#[inline(always)]
pub fn is_second<A: Accumulator>(op: u32, (a, i): (A, i64), (b, j): (A, i64)) -> bool {
    let ahead = if op == MIN { b < a } else { b > a };
    if a.is_nan() || b.is_nan() { b.is_nan() && (!a.is_nan() || j < i) } else { ahead || (a == b && j < i) }
}
