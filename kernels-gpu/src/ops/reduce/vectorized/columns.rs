//! Reductions across what lies contiguous, and of parts.

use super::rounds::Rounds;
use super::state::term_of;
use super::{BLOCK, UNROLL, filled, part_end, put, put_part};
use crate::math::element::{Accumulator, Element};
use crate::math::index::offsets;
use crate::math::reduction::{self, Part, Scale, is_scaled, join, start, wanted};
use crate::math::vector::{for_each, widened};
use crate::math::words::load_words;
use cuda_std::guarded;
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use kernel_abi::ops::reduce::{FINISH_LOADS, ReducePartsParams};

/// Parts that a thread has under way together.
const FINISHED: usize = FINISH_LOADS as usize;

/// Offset of an item, in elements.
#[inline(always)]
fn item_offset(p: &ReducePartsParams, item: u32) -> i64 {
    if p.items == p.inner.divisor {
        return i64::from(item) * p.strides[0];
    }
    let (rest, i0) = p.inner.div_rem(item);
    let (i2, i1) = p.middle.div_rem(rest);
    i64::from(i0) * p.strides[0] + i64::from(i1) * p.strides[1] + i64::from(i2) * p.strides[2]
}

/// The items from `first` on, every `step`-th, of this block's part, combined element by element, `N` loads in flight.
#[inline(always)]
unsafe fn over_items<T: Element, const V: usize, const OP: u32, const N: usize>(
    p: &ReducePartsParams,
    from: u64,
    (first, step): (u32, u32),
    factor: T::Acc,
) -> [T::Acc; V] {
    let mut sums = [start::<T::Acc>(OP); V];
    let fill = filled::<T>(start(OP));
    let end = part_end(p);
    let mut item = block_idx_y() * p.part_items + first;
    while item < end {
        let mut words = [fill; N];
        for_each!(K < N, {
            let item = item + K as u32 * step;
            if V > 1 || size_of::<T>() < 8 {
                let offset = item_offset(p, item);
                let words = words.get_unchecked_mut(K);
                *words = if V > 1 {
                    let at = from + (offset * size_of::<T>() as i64) as u64;
                    let loaded = guarded::load_x4_own(at, u32::from(item < end));
                    if item < end { loaded } else { fill }
                } else {
                    load_words::<T, V>(from, offset, item < end, fill[0])
                };
            } else if item < end {
                let bits = *((from + (item_offset(p, item) * size_of::<T>() as i64) as u64) as *const u64);
                let words = words.get_unchecked_mut(K);
                (words[0], words[1]) = (bits as u32, (bits >> 32) as u32);
            }
        });
        for_each!(K < N, {
            let values = widened::<T, V>(words.get_unchecked(K));
            for_each!(I < V, {
                let sum = sums.get_unchecked_mut(I);
                *sum = join(OP, *sum, term_of::<T::Acc, OP>(*values.get_unchecked(I), factor));
            });
        });
        item += N as u32 * step;
    }
    sums
}

/// The numbers of a block's rows combined in its first row, `V` for each of `lanes` threads beside one another: number
/// `i` of a lane lies at `i · BLOCK + lane`. All threads of the block call it.
#[inline(always)]
unsafe fn over_rows<S: Copy, const V: usize>(shared: *mut S, lanes: u32, mut sums: [S; V], join: impl Fn(S, S) -> S) {
    let thread = thread_idx_x();
    // Threads are neighbours, elements far apart: no two of a warp share a bank.
    let place = |thread: u32, i: usize| shared.add(i * BLOCK + thread as usize);
    for_each!(I < V, {
        *place(thread, I) = *sums.get_unchecked(I);
    });
    let mut half = BLOCK as u32 / 2;
    while half >= lanes {
        sync_threads();
        if thread < half {
            for_each!(I < V, {
                let sum = sums.get_unchecked_mut(I);
                *sum = join(*sum, *place(thread + half, I));
                *place(thread, I) = *sum;
            });
        }
        half /= 2;
    }
    sync_threads();
}

/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn reduce<T: Element, const V: usize, const OP: u32>(p: &ReducePartsParams, shared: *mut T::Acc) {
    let thread = thread_idx_x();
    let shift = p.lanes.trailing_zeros();
    let (row, lane) = (thread >> shift, thread & (p.lanes - 1));
    // Blocks of columns of one run of outputs, then the next run: no vector reaches beyond its own.
    let vectors = p.run / V as u32;
    let (run, block) = p.blocks.div_rem(block_idx_x());
    let vector = (block << shift) + lane;
    // Neighbouring threads write neighbouring results, no thread more than one: there are at most as many as threads.
    let column = (block << shift) * V as u32 + thread;
    let has_column = thread < p.lanes * V as u32 && column < p.run;
    macro_rules! combined {
        ($n:expr, $factor:expr) => {{
            let mut sums = [start::<T::Acc>(OP); V];
            if vector < vectors {
                let [x] = offsets([&p.kept], i64::from(run) * i64::from(p.run) + i64::from(vector) * V as i64);
                let from = p.x + (x * size_of::<T>() as i64) as u64;
                sums = over_items::<T, V, OP, { $n }>(p, from, (row, BLOCK as u32 >> shift), $factor);
            }
            over_rows::<T::Acc, V>(shared, p.lanes, sums, |a, b| join(OP, a, b));
        }};
    }
    let own = || *shared.add((thread as usize % V) * BLOCK + thread as usize / V);
    let put =
        |whole, factor| put_part(p, i64::from(run) * i64::from(p.run) + i64::from(column), Part { whole, factor });
    combined!(UNROLL, T::Acc::ONE);
    let mut mine = Scale::One;
    if has_column {
        mine = wanted(OP, own());
        if mine == Scale::One {
            put(own(), T::Acc::ONE);
        }
    }
    if !is_scaled(OP) {
        return;
    }
    // Each warp has all of the block's columns among its lanes.
    let mut rounds = Rounds::none();
    for_each!(I < V, {
        let whole = *shared.add(I * BLOCK + lane as usize);
        rounds.ask(if vector < vectors { wanted(OP, whole) } else { Scale::One });
    });
    while let Some(scale) = rounds.next() {
        // The wholes are read before others take their places.
        sync_threads();
        let factor = scale.factor();
        combined!(1, factor);
        if has_column && mine == scale {
            put(own(), factor);
        }
    }
}

/// The parts of every result: neighbouring threads have neighbouring results, the others above them their parts.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn finish<A: Accumulator, const OP: u32>(p: &ReducePartsParams, shared: *mut Part<A>) {
    let thread = thread_idx_x();
    let shift = p.finish_lanes.trailing_zeros();
    let (slot, lane) = (thread >> shift, thread & (p.finish_lanes - 1));
    let (slots, output) = (BLOCK as u32 >> shift, i64::from((block_idx_x() << shift) + lane));
    let mut whole = Part::<A>::start(OP);
    if output < p.n_outputs {
        let mut part = slot;
        while part < p.n_parts {
            let mut parts = [whole; FINISHED];
            for_each!(K < FINISHED, {
                // What is read in place of a part behind the last is not used: loads do not wait for a branch.
                let part = part + K as u32 * slots;
                let there = if part < p.n_parts { part } else { p.n_parts - 1 };
                *parts.get_unchecked_mut(K) =
                    *(p.partials as *const Part<A>).offset((i64::from(there) * p.n_outputs + output) as isize);
            });
            for_each!(K < FINISHED, {
                if part + (K as u32 * slots) < p.n_parts {
                    whole = whole.with(OP, *parts.get_unchecked(K));
                }
            });
            part += FINISHED as u32 * slots;
        }
    }
    over_rows::<Part<A>, 1>(shared, p.finish_lanes, [whole], |a, b| a.with(OP, b));
    if slot == 0 && output < p.n_outputs {
        put(p, output, reduction::finish(p.op, *shared.add(lane as usize), p.n_reduced));
    }
}
