//! A warp a row: its lanes take every 32nd element and combine what they find by shuffles, always in the same order.

use super::element::{Accumulator, Term};
use super::sum::{BLOCK, Sum};
use cuda_std::{thread, warp};

const LANES: i64 = 32;

/// Calls `body` with each of `n_rows` rows that is this warp's: the same in all lanes, so that the warp stays together for
/// the shuffles.
#[inline(always)]
pub fn for_each_row(n_rows: i64, mut body: impl FnMut(i64)) {
    let n_warps = thread::grid_threads_1d() as i64 / LANES;
    let mut row = thread::index_1d() as i64 / LANES;
    while row < n_rows {
        body(row);
        row += n_warps;
    }
}

/// Calls `body` with each of a row's `n` elements that is this lane's.
#[inline(always)]
pub fn for_each_lane(n: i64, mut body: impl FnMut(i64)) {
    let mut i = i64::from(thread::lane_id());
    while i < n {
        body(i);
        i += LANES;
    }
    // Lanes leave the loop at different times.
    warp::sync_warp();
}

/// Combines the lanes' values, in every lane.
#[inline(always)]
pub fn join_lanes<A: Accumulator>(value: A, join: impl Fn(A, A) -> A) -> A {
    let mut result = value;
    let mut lane = 16;
    while lane > 0 {
        result = join(result, result.shuffle_xor(lane));
        lane /= 2;
    }
    result
}

/// Combines a value of each of a row's `n` elements, in every lane. `start` changes no value.
#[inline(always)]
pub fn reduce<A: Accumulator>(n: i64, start: A, value: impl Fn(i64) -> A, join: impl Fn(A, A) -> A) -> A {
    let (mut result, mut block, mut values) = (start, start, 0);
    for_each_lane(n, |i| {
        block = join(block, value(i));
        values += 1;
        if values == BLOCK {
            result = join(result, block);
            (block, values) = (start, 0);
        }
    });
    join_lanes(join(result, block), join)
}

/// The sum of a value of each of a row's `n` elements, in every lane.
#[inline(always)]
pub fn sum<A: Accumulator + Term>(n: i64, value: impl Fn(i64) -> A) -> A {
    let mut sum = Sum::EMPTY;
    for_each_lane(n, |i| sum.push(value(i)));
    A::from_f64(join_lanes(sum.finish(), |a, b| a + b))
}
