//! Reductions of integers, exact and wrapping: one warp a result, any strides and types. Lanes take every 32nd element.

use crate::math::index::offsets;
use crate::math::number::Number;
use crate::math::warp_rows::for_each_row;
use cuda_std::{thread, warp};
use kernel_abi::cast::quotient;
use kernel_abi::ops::reduce::{ReduceParams, ReducePass};

const LANES: i64 = 32;

const MUL: u32 = ReducePass::Mul as u32;
const MIN: u32 = ReducePass::Min as u32;
const MAX: u32 = ReducePass::Max as u32;
const AMAX: u32 = ReducePass::Amax as u32;
const AVG: u32 = ReducePass::Avg as u32;
const NORM1: u32 = ReducePass::Norm1 as u32;
const MUL_NO_ZEROS: u32 = ReducePass::MulNoZeros as u32;
const SUM_SQUARE: u32 = ReducePass::SumSquare as u32;

/// y, and the indices, from x.
pub unsafe fn any(p: &ReduceParams) {
    for_each_row(p.n_outputs, |output| {
        let [y, indices, x] = offsets([&p.y, &p.indices, &p.x], output);
        let element =
            |e: i64| term(p.op, <i64 as Number>::load(p.x_dtype, p.x.address, x + offsets([&p.reduced], e)[0]));
        let is_choice = p.op == MIN || p.op == MAX || p.op == AMAX;
        // Of a choice, lanes without an element of their own repeat the last one, which changes nothing.
        let lane = i64::from(thread::lane_id());
        let last = p.n_reduced - 1;
        let mut at = if is_choice && lane > last { last } else { lane };
        let mut part = if at <= last {
            element(at)
        } else if p.op == MUL || p.op == MUL_NO_ZEROS {
            1
        } else {
            0
        };
        let mut e = lane + LANES;
        while e <= last {
            (part, at) = joined(p.op, (part, at), (element(e), e));
            e += LANES;
        }
        warp::sync_warp();
        let mut distance = 16;
        while distance > 0 {
            let other = (shuffled(part, distance), shuffled(at, distance));
            (part, at) = joined(p.op, (part, at), other);
            distance /= 2;
        }
        if thread::lane_id() == 0 {
            if p.indices.address != 0 {
                at.blend(p.indices_dtype, p.indices.address, indices, (1.0, 0.0), 0);
            }
            // Towards 0.
            let result = if p.op == AVG { quotient(part, p.n_reduced) } else { part };
            result.blend(p.y_dtype, p.y.address, y, (p.alpha, p.beta), 0);
        }
    });
}

/// What an element counts as.
#[inline(always)]
fn term(op: u32, x: i64) -> i64 {
    match op {
        AMAX | NORM1 => x.wrapping_abs(),
        SUM_SQUARE => x.wrapping_mul(x),
        MUL_NO_ZEROS if x == 0 => 1,
        _ => x,
    }
}

/// Two parts with the places of elements; of equal ones the first.
#[inline(always)]
fn joined(op: u32, (a, i): (i64, i64), (b, j): (i64, i64)) -> (i64, i64) {
    let second = |ahead: bool| if ahead || (a == b && j < i) { (b, j) } else { (a, i) };
    match op {
        MUL | MUL_NO_ZEROS => (a.wrapping_mul(b), i),
        MIN => second(b < a),
        MAX => second(b > a),
        // The magnitude of the smallest number is beyond the largest: as one without a sign it is in order.
        AMAX => second(b as u64 > a as u64),
        _ => (a.wrapping_add(b), i),
    }
}

/// The number of another lane.
#[inline(always)]
fn shuffled(value: i64, lane: u32) -> i64 {
    let low = warp::shuffle_xor(value as u32, lane);
    let high = warp::shuffle_xor((value >> 32) as u32, lane);
    (i64::from(high) << 32) | i64::from(low)
}
