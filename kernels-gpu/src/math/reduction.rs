//! The parts of reductions, formulas in `kernel_abi::ops::reduce`.

use super::element::Accumulator;
use kernel_abi::ops::reduce::ReducePass;

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
pub fn finish<A: Accumulator>(op: u32, whole: A, n: i64) -> A {
    match op {
        AVG => whole / A::from_i64(n),
        NORM2 => whole.sqrt(),
        LOG_SUM => whole.ln(),
        _ => whole,
    }
}

/// Whether the second of two numbers with their indices is the result.
#[inline(always)]
pub fn is_second<A: Accumulator>(op: u32, (a, i): (A, i64), (b, j): (A, i64)) -> bool {
    let ahead = if op == MIN { b < a } else { b > a };
    if a.is_nan() || b.is_nan() { b.is_nan() && (!a.is_nan() || j < i) } else { ahead || (a == b && j < i) }
}
