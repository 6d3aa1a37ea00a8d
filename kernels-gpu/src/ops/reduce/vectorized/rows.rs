//! Reductions of what lies contiguous.
//!
//! A run of elements is cut at multiples of 16 bytes into items, wherever it begins: what the first and the last hold of
//! other runs is left out. Items that reach beyond x itself are read element by element.

use super::rounds::Rounds;
use super::state::State;
use super::{UNROLL, WARP, filled, offset_of, part_end};
use crate::math::element::{Accumulator, Element};
use crate::math::reduction::Scale;
use crate::math::vector::{for_each, of_run, widened};
use cuda_std::guarded;
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use kernel_abi::ops::reduce::{MOST_TERMS, ReducePartsParams};

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
struct Round<const N: usize> {
    words: [[u32; 4]; N],
    places: [(u64, i32); N],
}

/// This item and those `lanes` apart behind it.
#[inline(always)]
unsafe fn load_round<T: Element, const WHOLE: bool, const N: usize>(
    p: &ReducePartsParams,
    from: u64,
    item: u32,
) -> Round<N> {
    let end = part_end(p);
    let mut round = Round { words: [[0; 4]; N], places: [(0, 0); N] };
    for_each!(K < N, {
        let item = item + K as u32 * p.lanes;
        let (at, first) = place::<T, WHOLE>(p, from, item);
        let inside = WHOLE || is_within(p, at);
        *round.places.get_unchecked_mut(K) = (at, first);
        *round.words.get_unchecked_mut(K) = guarded::load_x4_own(at, u32::from(item < end && inside));
    });
    round
}

impl<const N: usize> Round<N> {
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

/// The items of this thread, `N` loads in flight.
#[inline(always)]
unsafe fn over_items<T: Element, S: State<T::Acc>, const V: usize, const WHOLE: bool, const N: usize>(
    p: &ReducePartsParams,
    from: u64,
    lane: u32,
    factor: T::Acc,
) -> S {
    let (mut state, mut before) = (S::new(), S::new());
    let end = part_end(p);
    let mut item = block_idx_y() * p.part_items + lane;
    let mut block_end = item + MOST_TERMS * p.lanes;
    while item < end {
        if !S::IS_SPLIT && item >= block_end {
            before = before.with(state);
            state = S::new();
            block_end += MOST_TERMS * p.lanes;
        }
        let round = load_round::<T, WHOLE, N>(p, from, item);
        for_each!(K < N, {
            let exists = item + (K as u32 * p.lanes) < end;
            state.take::<V>(round.elements::<T, V, WHOLE>(p, K, exists, S::neutral()), factor);
        });
        item += N as u32 * p.lanes;
    }
    if !S::IS_SPLIT && p.part_items > MOST_TERMS * p.lanes { before.with(state) } else { state }
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
    macro_rules! seen {
        ($n:expr, $factor:expr) => {{
            let x = offset_of(p, &p.kept, p.x_pitch, output);
            let from = p.x + (x * size_of::<T>() as i64) as u64;
            let factor = $factor;
            macro_rules! over {
                ($v:literal) => {
                    if p.vectors != 0 {
                        over_items::<T, S, $v, true, { $n }>(p, from, lane, factor)
                    } else {
                        over_items::<T, S, $v, false, { $n }>(p, from, lane, factor)
                    }
                };
            }
            match size_of::<T>() {
                _ if !there => S::new(),
                2 => over!(8),
                4 => over!(4),
                _ => over!(2),
            }
        }};
    }
    reduce_rounds::<T, S, THREADS>(p, shared, output, || seen!(UNROLL, T::Acc::ONE), |factor| seen!(1, factor));
}

/// Combines what the threads of a result have seen of its elements, and stores it; where a scale is wanted, again of elements
/// times a factor. That is rare: it has few loads in flight, so that the registers are those of the first time.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn reduce_rounds<T: Element, S: State<T::Acc>, const THREADS: usize>(
    p: &ReducePartsParams,
    shared: *mut u8,
    output: i64,
    seen: impl Fn() -> S,
    seen_again: impl Fn(T::Acc) -> S,
) {
    let is_first = output < p.n_outputs && thread_idx_x() & (p.lanes - 1) == 0;
    if !S::IS_SCALED {
        let state = combine::<T, S, THREADS>(p, shared, seen());
        if is_first {
            state.put(p, output, T::Acc::ONE);
        }
        return;
    }
    let state = combine::<T, S, THREADS>(p, shared, seen());
    let wanted = if output < p.n_outputs { state.wanted() } else { Scale::One };
    if is_first && wanted == Scale::One {
        state.put(p, output, T::Acc::ONE);
    }
    let mut rounds = Rounds::none();
    rounds.ask(wanted);
    while let Some(scale) = rounds.next() {
        if p.lanes > WARP {
            // The block's states are read before others take their places.
            sync_threads();
        }
        let factor = scale.factor();
        let state = combine::<T, S, THREADS>(p, shared, seen_again(factor));
        if is_first && wanted == scale {
            state.put(p, output, factor);
        }
    }
}

/// Combines what the threads of a result have seen, in all of them.
///
/// # Safety
/// As the kernels.
#[inline(always)]
unsafe fn combine<T: Element, S: State<T::Acc>, const THREADS: usize>(
    p: &ReducePartsParams,
    shared: *mut u8,
    mut state: S,
) -> S {
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
    state
}
