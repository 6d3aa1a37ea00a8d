//! Reductions of what lies contiguous.
//!
//! A run of elements is cut at multiples of 16 bytes into items, wherever it begins: what the first and the last hold of
//! other runs is left out. Items that reach beyond x itself are read element by element.

use super::state::State;
use super::{UNROLL, WARP, filled, offset_of, part_end};
use crate::math::element::Element;
use crate::math::vector::{for_each, of_run, widened};
use cuda_std::guarded;
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use kernel_abi::ops::reduce::ReducePartsParams;

/// Where an item lies: the address of its 16 bytes, and the element of the run that they begin with.
#[inline(always)]
fn place<T: Element, const WHOLE: bool>(p: &ReducePartsParams, from: u64, item: u32) -> (u64, i32) {
    let size = size_of::<T>() as u64;
    let (mut run, mut i0) = (from, item);
    if p.items != p.inner.divisor {
        let rest;
        (rest, i0) = p.inner.div_rem(item);
        let (i2, i1) = p.middle.div_rem(rest);
        run += (i64::from(i1) * p.strides[1] + i64::from(i2) * p.strides[2]) as u64 * size;
    }
    let first = (i0 * (16 / size as u32)) as i32;
    if WHOLE {
        return (run + u64::from(i0) * 16, first);
    }
    ((run & !15) + u64::from(i0) * 16, first - ((run & 15) / size) as i32)
}

/// Whether 16 bytes lie within x.
#[inline(always)]
pub(super) fn is_within(p: &ReducePartsParams, at: u64) -> bool {
    at >= p.x && at + 16 <= p.x_end
}

/// Items that are loaded together.
#[derive(Clone, Copy)]
struct Round {
    words: [[u32; 4]; UNROLL],
    places: [(u64, i32); UNROLL],
}

/// This item and those `lanes` apart behind it.
#[inline(always)]
unsafe fn load_round<T: Element, const WHOLE: bool>(p: &ReducePartsParams, from: u64, item: u32) -> Round {
    let end = part_end(p);
    let mut round = Round { words: [[0; 4]; UNROLL], places: [(0, 0); UNROLL] };
    for_each!(K < UNROLL, {
        let item = item + K as u32 * p.lanes;
        let (at, first) = place::<T, WHOLE>(p, from, item);
        let inside = WHOLE || is_within(p, at);
        *round.places.get_unchecked_mut(K) = (at, first);
        *round.words.get_unchecked_mut(K) = guarded::load_x4_own(at, u32::from(item < end && inside));
    });
    round
}

impl Round {
    /// The elements of one of them; none that change anything where it is behind the last.
    #[inline(always)]
    unsafe fn elements<T: Element, const V: usize, const WHOLE: bool>(
        &self,
        p: &ReducePartsParams,
        k: usize,
        exists: bool,
        neutral: T::Acc,
    ) -> [T::Acc; V] {
        let (at, first) = *self.places.get_unchecked(k);
        let words = self.words.get_unchecked(k);
        if WHOLE {
            let words = if exists { *words } else { filled::<T>(neutral) };
            return widened::<T, V>(&words);
        }
        // Of a run of no elements, none is taken.
        let n = if exists { p.run as i32 } else { 0 };
        of_run::<T, V>(words, at, first, n, !exists || is_within(p, at), neutral)
    }
}

/// The items of this thread.
#[inline(always)]
unsafe fn over_items<T: Element, S: State<T::Acc>, const V: usize, const WHOLE: bool>(
    p: &ReducePartsParams,
    from: u64,
    lane: u32,
) -> S {
    let mut state = S::new();
    let end = part_end(p);
    let mut item = block_idx_y() * p.part_items + lane;
    while item < end {
        let round = load_round::<T, WHOLE>(p, from, item);
        for_each!(K < UNROLL, {
            let exists = item + (K as u32 * p.lanes) < end;
            state.take::<V>(round.elements::<T, V, WHOLE>(p, K, exists, S::neutral()));
        });
        item += UNROLL as u32 * p.lanes;
    }
    state
}

/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn reduce<T: Element, S: State<T::Acc>, const THREADS: usize>(
    p: &ReducePartsParams,
    shared: *mut u8,
) {
    let thread = thread_idx_x();
    // Both are powers of two.
    let shift = p.lanes.trailing_zeros();
    let (group, lane) = (thread >> shift, thread & (p.lanes - 1));
    let output = i64::from(block_idx_x()) * i64::from(THREADS as u32 >> shift) + i64::from(group);
    let there = output < p.n_outputs;
    let mut state = S::new();
    if there {
        let x = offset_of(p, &p.kept, p.x_pitch, output);
        let from = p.x + (x * size_of::<T>() as i64) as u64;
        macro_rules! over {
            ($v:literal) => {
                if p.vectors != 0 {
                    over_items::<T, S, $v, true>(p, from, lane)
                } else {
                    over_items::<T, S, $v, false>(p, from, lane)
                }
            };
        }
        state = match size_of::<T>() {
            2 => over!(8),
            4 => over!(4),
            _ => over!(2),
        };
    }
    combine::<T, S, THREADS>(p, shared, state, output);
}

/// Combines what the threads of a result have seen, and stores it.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn combine<T: Element, S: State<T::Acc>, const THREADS: usize>(
    p: &ReducePartsParams,
    shared: *mut u8,
    mut state: S,
    output: i64,
) {
    let thread = thread_idx_x();
    cuda_std::warp::sync_warp();
    let mut other = if p.lanes < WARP { p.lanes } else { WARP } / 2;
    while other > 0 {
        state = state.with(state.shuffle_xor(other));
        other /= 2;
    }
    if p.lanes > WARP {
        // The same for all threads of the block.
        let states = shared.cast::<S>();
        let warp = (thread / WARP) as usize;
        if thread % WARP == 0 {
            *states.add(warp) = state;
        }
        sync_threads();
        state = *states;
        let mut i = 1;
        while i < THREADS / WARP as usize {
            state = state.with(*states.add(i));
            i += 1;
        }
    }
    if output < p.n_outputs && thread & (p.lanes - 1) == 0 {
        state.put(p, output);
    }
}
