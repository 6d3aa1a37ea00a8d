//! Reductions of several runs that begin alike, none of them whole accesses: a thread has the same piece of every run that
//! it meets, so what that holds of the run's neighbours is known before the first is loaded.

use super::rows::{is_within, reduce_rounds};
use super::state::State;
use super::{UNROLL, filled, offset_of, part_end};
use crate::math::element::{Accumulator, Element};
use crate::math::vector::{for_each, of_run, widened};
use cuda_std::guarded;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use kernel_abi::ops::reduce::ReducePartsParams;

/// Words of an access, and their bits.
const WORDS: usize = 4;
type Bits = [u32; WORDS];

/// The bits of elements from `first` on that are among a run's `n`.
#[inline(always)]
unsafe fn bits_of_run<T: Element, const V: usize>(first: i32, n: i32) -> Bits {
    let mut bits = [0u32; 4];
    for_each!(I < V, {
        if ((first + I as i32) as u32) < n as u32 {
            let word = I * size_of::<T>() / 4;
            match size_of::<T>() {
                2 => *bits.get_unchecked_mut(word) |= 0xffff << (16 * (I % 2)),
                4 => *bits.get_unchecked_mut(word) = u32::MAX,
                _ => (*bits.get_unchecked_mut(word), *bits.get_unchecked_mut(word + 1)) = (u32::MAX, u32::MAX),
            }
        }
    });
    bits
}

/// A thread's piece of the runs from `sub` on, every `step`-th, `N` loads in flight; `piece` is its number.
#[inline(always)]
unsafe fn over_runs<T: Element, S: State<T::Acc>, const V: usize, const N: usize>(
    p: &ReducePartsParams,
    from: u64,
    piece: u32,
    (sub, step): (u32, u32),
    factor: T::Acc,
) -> S {
    let mut state = S::new();
    let size = size_of::<T>() as u64;
    let first = (piece * V as u32) as i32 - ((from & 15) / size) as i32;
    let begin = (from & !15) + u64::from(piece) * 16;
    let bits = bits_of_run::<T, V>(first, p.run as i32);
    let fill = filled::<T>(S::neutral());
    let end = if bits == [0; WORDS] { 0 } else { part_end(p) };
    let place = |run: u32| {
        let (i2, i1) = p.middle.div_rem(run);
        begin + (i64::from(i1) * p.strides[1] + i64::from(i2) * p.strides[2]) as u64 * size
    };
    let mut run = block_idx_y() * p.part_items + sub;
    // Distances are not negative: what reaches beyond x is of the first run or the last.
    let mut i = 0;
    while i < 2 {
        let outer = if i == 0 { 0 } else { p.items - 1 };
        let mine = outer >= run && outer < end && (outer - run) % step == 0 && (i == 0 || p.items > 1);
        if mine && !is_within(p, place(outer)) {
            state.take::<V>(of_run::<T, V>(&fill, place(outer), first, p.run as i32, false, S::neutral()), factor);
        }
        i += 1;
    }
    while run < end {
        let mut words = [fill; N];
        for_each!(K < N, {
            let run = run + K as u32 * step;
            let at = place(run);
            let there = run < end && is_within(p, at);
            let loaded = guarded::load_x4_own(at, u32::from(there));
            if there {
                *words.get_unchecked_mut(K) = loaded;
            }
        });
        for_each!(K < N, {
            let words = words.get_unchecked_mut(K);
            for_each!(W < WORDS, {
                let (word, bits) = (words.get_unchecked_mut(W), *bits.get_unchecked(W));
                *word = (*word & bits) | (*fill.get_unchecked(W) & !bits);
            });
            state.take::<V>(widened::<T, V>(words), factor);
        });
        run += N as u32 * step;
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
    // All are powers of two.
    let shift = p.lanes.trailing_zeros();
    let run_shift = 32 - (p.inner.divisor - 1).leading_zeros();
    let (group, lane) = (thread >> shift, thread & (p.lanes - 1));
    let output = i64::from(block_idx_x()) * i64::from(THREADS as u32 >> shift) + i64::from(group);
    let there = output < p.n_outputs;
    macro_rules! seen {
        ($n:expr, $factor:expr) => {{
            let x = offset_of(p, &p.kept, p.x_pitch, output);
            let from = p.x + (x * size_of::<T>() as i64) as u64;
            let (piece, runs) = (lane & ((1 << run_shift) - 1), (lane >> run_shift, p.lanes >> run_shift));
            let factor = $factor;
            match size_of::<T>() {
                _ if !there => S::new(),
                2 => over_runs::<T, S, 8, { $n }>(p, from, piece, runs, factor),
                4 => over_runs::<T, S, 4, { $n }>(p, from, piece, runs, factor),
                _ => over_runs::<T, S, 2, { $n }>(p, from, piece, runs, factor),
            }
        }};
    }
    reduce_rounds::<T, S, THREADS>(p, shared, output, || seen!(UNROLL, T::Acc::ONE), |factor| seen!(1, factor));
}
