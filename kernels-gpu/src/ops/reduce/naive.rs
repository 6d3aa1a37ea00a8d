//! One warp a result, any strides and types. Lanes take every 32nd element and combine by shuffles in a fixed order.

use crate::math::element::{Accumulator, Term};
use crate::math::index::offsets;
use crate::math::reduction::{Part, Scale, adds, finish, is_second, join, start, term, wanted};
use crate::math::typed::{blend_truncated as blend, load, store};
use crate::math::warp_rows::{for_each_row, reduce, sum};
use cuda_std::{thread, warp};
use kernel_abi::ops::reduce::{ReduceParams, ReducePass};

const LANES: i64 = 32;

/// y, and the indices, from x.
pub unsafe fn any<A: Accumulator + Term>(p: &ReduceParams) {
    for_each_row(p.n_outputs, |output| {
        let [y, indices, x] = offsets([&p.y, &p.indices, &p.x], output);
        let element = |e: i64| load::<A>(p.x_dtype, p.x.address, x + offsets([&p.reduced], e)[0]);
        let result = if p.indices.address != 0 {
            let (result, index) = first_of(p, element);
            if thread::lane_id() == 0 {
                // Every index is exact in f64.
                store(p.indices_dtype, p.indices.address, indices, index as f64);
            }
            result
        } else if p.op == ReducePass::LogSumExp as u32 {
            let largest = reduce(p.n_reduced, A::NEG_INFINITY, element, |a, b| a.max(b));
            // Of nothing but -∞, and where one is ∞, the difference would be no number.
            let shift = if largest.abs() == -A::NEG_INFINITY { A::ZERO } else { largest };
            sum(p.n_reduced, |e| (element(e) - shift).exp()).ln() + shift
        } else {
            let whole = |factor: A| {
                let value = |e: i64| term(p.op, element(e) * factor);
                if adds(p.op) {
                    sum(p.n_reduced, value)
                } else {
                    reduce(p.n_reduced, start(p.op), value, |a, b| join(p.op, a, b))
                }
            };
            let mut part = Part { whole: whole(A::ONE), factor: A::ONE };
            // The same in all lanes.
            let scale = wanted(p.op, part.whole);
            if scale != Scale::One {
                let factor = scale.factor();
                part = Part { whole: whole(factor), factor };
            }
            finish(p.op, part, p.n_reduced)
        };
        if thread::lane_id() == 0 {
            blend(p.y_dtype, p.y.address, y, result, p.alpha, p.beta);
        }
    });
}

/// The smallest or largest element with its index, in every lane.
#[inline(always)]
unsafe fn first_of<A: Accumulator>(p: &ReduceParams, element: impl Fn(i64) -> A) -> (A, i64) {
    // Lanes without an element of their own repeat the last one, which changes nothing.
    let last = p.n_reduced - 1;
    let lane = i64::from(thread::lane_id());
    let mut e = if lane < last { lane } else { last };
    let mut best = (term(p.op, element(e)), e);
    e = lane + LANES;
    while e < p.n_reduced {
        let other = (term(p.op, element(e)), e);
        if is_second(p.op, best, other) {
            best = other;
        }
        e += LANES;
    }
    warp::sync_warp();
    let mut lane = 16;
    while lane > 0 {
        let low = warp::shuffle_xor(best.1 as u32, lane);
        let high = warp::shuffle_xor((best.1 >> 32) as u32, lane);
        let other = (best.0.shuffle_xor(lane), (i64::from(high) << 32) | i64::from(low));
        if is_second(p.op, best, other) {
            best = other;
        }
        lane /= 2;
    }
    best
}
