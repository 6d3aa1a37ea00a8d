//! The first of the smallest or largest elements of what lies contiguous.
//!
//! A thread keeps its best element and the item that it came with, which takes a few instructions for some elements
//! together. Only when the best of the row is known, threads that have it look for its place in that item. All of a row's
//! loads are under way together where it has no more than a warp holds.

use super::rows::is_within;
use super::state::{terms, tree};
use super::{BLOCK, WARP, filled, offset_of, part_end, put};
use crate::math::element::{Accumulator, Element};
use crate::math::index::offsets;
use crate::math::reduction::{join, start};
use crate::math::typed::store;
use crate::math::vector::{for_each, of_run, widened};
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::{guarded, warp};
use kernel_abi::ops::reduce::{FIRST_LOADS, ReducePartsParams, ReducePass};

/// Warps of a block.
const WARPS: usize = BLOCK / WARP as usize;
/// Loads that are under way together, of items that are whole, and of others, which take more registers.
const WHOLE_LOADS: usize = FIRST_LOADS as usize;
const CUT_LOADS: usize = 4;
/// No place.
const NONE: u32 = u32::MAX;

#[inline(always)]
fn is_ahead<A: Accumulator, const OP: u32>(a: A, b: A) -> bool {
    let ahead = if OP == ReducePass::Min as u32 { a < b } else { a > b };
    ahead || (a.is_nan() && !b.is_nan())
}

/// A row, which is one run, in items of `V` elements at multiples of 16 bytes. `WHOLE` where all of them are.
struct Row<'a, const V: usize, const WHOLE: bool> {
    p: &'a ReducePartsParams,
    /// The address of its first element.
    from: u64,
    /// What follows its last item.
    end: u32,
}

/// Items that are loaded together: one, and those `lanes` apart behind it.
type Round<const N: usize> = [[u32; 4]; N];

impl<const V: usize, const WHOLE: bool> Row<'_, V, WHOLE> {
    /// Where an item lies, and the element that it begins with.
    #[inline(always)]
    fn place<T>(&self, item: u32) -> (u64, i32) {
        let first = (item * V as u32) as i32;
        if WHOLE {
            return (self.from + u64::from(item) * 16, first);
        }
        let skip = (self.from & 15) / size_of::<T>() as u64;
        ((self.from & !15) + u64::from(item) * 16, first - skip as i32)
    }

    #[inline(always)]
    unsafe fn load<T, const N: usize>(&self, item: u32) -> Round<N> {
        let mut words = [[0; 4]; N];
        for_each!(K < N, {
            let item = item + K as u32 * self.p.lanes;
            let (at, _) = self.place::<T>(item);
            let inside = item < self.end && (WHOLE || is_within(self.p, at));
            *words.get_unchecked_mut(K) = guarded::load_x4_own(at, u32::from(inside));
        });
        words
    }

    /// The elements of an item, and the number of the first; none that change anything where it is behind the last.
    #[inline(always)]
    unsafe fn elements<T: Element>(&self, words: &[u32; 4], item: u32, neutral: T::Acc) -> ([T::Acc; V], u32) {
        let (exists, (at, first)) = (item < self.end, self.place::<T>(item));
        if WHOLE {
            let words = if exists { *words } else { filled::<T>(neutral) };
            return (widened::<T, V>(&words), first as u32);
        }
        // Of a run of no elements, none is taken.
        let n = if exists { self.p.run as i32 } else { 0 };
        (of_run::<T, V>(words, at, first, n, !exists || is_within(self.p, at), neutral), first as u32)
    }

    /// The place of the first element that is the row's best, in this item.
    #[inline(always)]
    unsafe fn place_in<T: Element, const OP: u32>(&self, words: &[u32; 4], item: u32, best: T::Acc) -> u32 {
        let mut place = NONE;
        let (elements, first) = self.elements::<T>(words, item, start(OP));
        let terms = terms::<T::Acc, V, OP>(elements, T::Acc::ONE);
        for_each!(I < V, {
            let i = V - 1 - I;
            if terms[i] == best || (terms[i].is_nan() && best.is_nan()) {
                place = first + i as u32;
            }
        });
        place
    }
}

/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn reduce<T: Element, const OP: u32>(p: &ReducePartsParams, shared: *mut u8) {
    macro_rules! of {
        ($v:literal) => {
            if p.vectors != 0 {
                of_row::<T, $v, OP, WHOLE_LOADS, true>(p, shared)
            } else {
                of_row::<T, $v, OP, CUT_LOADS, false>(p, shared)
            }
        };
    }
    match size_of::<T>() {
        2 => of!(8),
        4 => of!(4),
        _ => of!(2),
    }
}

#[inline(always)]
unsafe fn of_row<T: Element, const V: usize, const OP: u32, const N: usize, const WHOLE: bool>(
    p: &ReducePartsParams,
    shared: *mut u8,
) {
    let thread = thread_idx_x();
    // Both are powers of two.
    let shift = p.lanes.trailing_zeros();
    let (group, lane) = (thread >> shift, thread & (p.lanes - 1));
    let output = i64::from(block_idx_x()) * i64::from(BLOCK as u32 >> shift) + i64::from(group);
    let there = output < p.n_outputs;
    let x = offset_of(p, &p.kept, p.x_pitch, if there { output } else { 0 });
    let from = p.x + (x * size_of::<T>() as i64) as u64;
    // One that there is not has no items.
    let row = Row::<V, WHOLE> { p, from, end: if there { part_end(p) } else { 0 } };
    let step = N as u32 * p.lanes;
    let (mut best, mut best_item) = (start::<T::Acc>(OP), NONE);
    let mut item = lane;
    let mut round = [[0; 4]; N];
    while item < row.end {
        round = row.load::<T, N>(item);
        for_each!(K < N, {
            let item = item + K as u32 * p.lanes;
            let (elements, _) = row.elements::<T>(round.get_unchecked(K), item, start(OP));
            let of_item = tree::<T::Acc, V, OP>(terms::<T::Acc, V, OP>(elements, T::Acc::ONE));
            // Later ones that are equal are no better.
            if is_ahead::<T::Acc, OP>(of_item, best) {
                (best, best_item) = (of_item, item);
            }
        });
        item += step;
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
        let mut words = round[0];
        if p.items > step {
            let at = row.place::<T>(best_item).0;
            words = guarded::load_x4_own(at, u32::from(WHOLE || is_within(p, at)));
        } else {
            for_each!(K < N, {
                if best_item == lane + K as u32 * p.lanes {
                    words = *round.get_unchecked(K);
                }
            });
        }
        place = row.place_in::<T, OP>(&words, best_item, best);
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
