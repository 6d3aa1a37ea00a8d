//! The first of the smallest or largest elements of what lies contiguous.
//!
//! A thread keeps its best element and with which loads it came, which takes two instructions for some elements together.
//! Only when the best of the row is known, threads that have it look for its place, in what they then loaded.

use super::rows::{Round, load_round};
use super::state::{terms, tree};
use super::{BLOCK, UNROLL, WARP, offset_of, part_end, put};
use crate::math::element::{Accumulator, Element};
use crate::math::index::offsets;
use crate::math::reduction::{join, start};
use crate::math::typed::store;
use crate::math::vector::for_each;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::warp;
use kernel_abi::ops::reduce::{ReducePartsParams, ReducePass};

/// Warps of a block.
const WARPS: usize = BLOCK / WARP as usize;
/// No place.
const NONE: u32 = u32::MAX;

#[inline(always)]
fn is_ahead<A: Accumulator, const OP: u32>(a: A, b: A) -> bool {
    let ahead = if OP == ReducePass::Min as u32 { a < b } else { a > b };
    ahead || (a.is_nan() && !b.is_nan())
}

/// The place of the first element that is the row's best, in the loads that begin with this item.
#[inline(always)]
unsafe fn place_in<T: Element, const V: usize, const OP: u32, const WHOLE: bool>(
    p: &ReducePartsParams,
    round: &Round,
    item: u32,
    best: T::Acc,
) -> u32 {
    let (mut place, end) = (NONE, part_end(p));
    for_each!(K < UNROLL, {
        let k = UNROLL - 1 - K;
        let exists = item + (k as u32 * p.lanes) < end;
        let (elements, first) = round.elements::<T, V, WHOLE>(p, k, exists, start(OP));
        let terms = terms::<T::Acc, V, OP>(elements);
        for_each!(I < V, {
            let i = V - 1 - I;
            if terms[i] == best || (terms[i].is_nan() && best.is_nan()) {
                place = first + i as u32;
            }
        });
    });
    place
}

/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn reduce<T: Element, const OP: u32>(p: &ReducePartsParams, shared: *mut u8) {
    macro_rules! of {
        ($v:literal) => {
            if p.vectors != 0 { of_row::<T, $v, OP, true>(p, shared) } else { of_row::<T, $v, OP, false>(p, shared) }
        };
    }
    match size_of::<T>() {
        2 => of!(8),
        4 => of!(4),
        _ => of!(2),
    }
}

#[inline(always)]
unsafe fn of_row<T: Element, const V: usize, const OP: u32, const WHOLE: bool>(p: &ReducePartsParams, shared: *mut u8) {
    let thread = thread_idx_x();
    // Both are powers of two.
    let shift = p.lanes.trailing_zeros();
    let (group, lane) = (thread >> shift, thread & (p.lanes - 1));
    let output = i64::from(block_idx_x()) * i64::from(BLOCK as u32 >> shift) + i64::from(group);
    let there = output < p.n_outputs;
    let x = offset_of(p, &p.kept, p.x_pitch, if there { output } else { 0 });
    let from = p.x + (x * size_of::<T>() as i64) as u64;
    let end = if there { part_end(p) } else { 0 };
    let step = UNROLL as u32 * p.lanes;
    let (mut best, mut best_item) = (start::<T::Acc>(OP), NONE);
    let mut item = lane;
    // Also of a thread without items: nothing of it is loaded then.
    let mut round = load_round::<T, WHOLE>(p, from, if there { item } else { p.items });
    while item < end {
        let mut bests = [start::<T::Acc>(OP); UNROLL];
        for_each!(K < UNROLL, {
            let exists = item + (K as u32 * p.lanes) < end;
            let (elements, _) = round.elements::<T, V, WHOLE>(p, K, exists, start(OP));
            bests[K] = tree::<T::Acc, V, OP>(terms::<T::Acc, V, OP>(elements));
        });
        let of_round = tree::<T::Acc, UNROLL, OP>(bests);
        // Later ones that are equal are no better.
        if is_ahead::<T::Acc, OP>(of_round, best) {
            (best, best_item) = (of_round, item);
        }
        item += step;
        if item < end {
            round = load_round::<T, WHOLE>(p, from, item);
        }
    }
    let mine = best;
    warp::sync_warp();
    let lanes = if p.lanes < WARP { p.lanes } else { WARP };
    let mut other = lanes / 2;
    while other > 0 {
        best = join(OP, best, best.shuffle_xor(other));
        other /= 2;
    }
    let (bests, warp) = (shared.cast::<T::Acc>(), (thread / WARP) as usize);
    if p.lanes > WARP {
        if thread % WARP == 0 {
            *bests.add(warp) = best;
        }
        sync_threads();
        for_each!(I < WARPS, {
            best = join(OP, best, *bests.add(I));
        });
    }
    let mut place = NONE;
    if best_item != NONE && (mine == best || (mine.is_nan() && best.is_nan())) {
        if p.items > step {
            round = load_round::<T, WHOLE>(p, from, best_item);
        }
        place = place_in::<T, V, OP, WHOLE>(p, &round, best_item, best);
    }
    warp::sync_warp();
    let mut other = lanes / 2;
    while other > 0 {
        let beside = warp::shuffle_xor(place, other);
        place = if beside < place { beside } else { place };
        other /= 2;
    }
    if p.lanes > WARP {
        // Behind the bests.
        let places = bests.add(WARPS).cast::<u32>();
        if thread % WARP == 0 {
            *places.add(warp) = place;
        }
        sync_threads();
        for_each!(I < WARPS, {
            let beside = *places.add(I);
            place = if beside < place { beside } else { place };
        });
    }
    if there && lane == 0 {
        let [at] = offsets([&p.indices], output);
        // None where all elements are what one begins with.
        let index = if place == NONE { 0 } else { place };
        // Every index is exact in f64.
        store(p.indices_dtype, p.indices.address, at, f64::from(index));
        put(p, output, best);
    }
}
