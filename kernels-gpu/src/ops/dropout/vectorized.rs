//! Eight neighbours a thread at a time, two random draws for them and a byte of the mask: tensors that lie as their elements
//! are counted. Those of several rounds are under way at once, in accesses of 16 bytes; what ends the tensor, and all of one
//! that does not lie at a multiple of 16 bytes, moves element by element.
//!
//! Grid: exact, one-dimensional. `V` elements are 16 bytes, `N` times as many a round's, and a thread has `ROUNDS`, or one.

use super::naive::{give_next, state};
use crate::math::element::{Accumulator, Element};
use crate::math::vector::{self, for_each, narrowed, widened};
use cuda_std::memory::X4;
use cuda_std::{guarded, thread};
use kernel_abi::ops::dropout::{DropoutParams, philox};

/// Neighbours of a round.
const ELEMS: usize = 8;

/// y from x and state.
#[inline(always)]
pub unsafe fn forward<T: Element, const V: usize, const N: usize, const ROUNDS: usize>(p: &DropoutParams) {
    let (seed, offset) = state(p);
    // A threshold is at most 2³²; below one of 0 there is nothing.
    let (all, below) = (p.threshold == 0, p.threshold.wrapping_sub(1) as u32);
    let is_kept = #[inline(always)]
    |draw: u32| draw > below || all;
    for_each_round::<T, V, N, ROUNDS>(p, is_kept, |round, there| {
        let mut draws = [0; ELEMS];
        for_each!(I < ELEMS, {
            let words = philox::words(seed, offset, 2 * round as u64 + (I / 4) as u64);
            *draws.get_unchecked_mut(I) = *words.get_unchecked(I % 4);
        });
        if p.mask != 0 {
            let mut bits = 0u32;
            for_each!(I < ELEMS, {
                bits |= u32::from(is_kept(*draws.get_unchecked(I))) << I;
            });
            *(p.mask as *mut u8).offset(round as isize) = (bits & there) as u8;
        }
        draws
    });
    give_next(p);
}

/// dx from dy and mask or state.
#[inline(always)]
pub unsafe fn backward<T: Element, const V: usize, const N: usize, const ROUNDS: usize>(p: &DropoutParams) {
    if p.mask == 0 {
        return forward::<T, V, N, ROUNDS>(p);
    }
    let is_kept = #[inline(always)]
    |draw: u32| draw != 0;
    for_each_round::<T, V, N, ROUNDS>(p, is_kept, |round, _| {
        let bits = u32::from(*(p.mask as *const u8).offset(round as isize));
        let mut draws = [0; ELEMS];
        for_each!(I < ELEMS, {
            *draws.get_unchecked_mut(I) = bits & 1 << I;
        });
        draws
    });
}

/// Calls `draws` with each round that is this thread's and the bits of its elements that there are, and writes what becomes
/// of them: `is_kept` says it of each draw, where it is used, since there are more of them than predicates. The last rounds,
/// which fill a word of the mask, may have no elements.
#[inline(always)]
unsafe fn for_each_round<T: Element, const V: usize, const N: usize, const ROUNDS: usize>(
    p: &DropoutParams,
    is_kept: impl Fn(u32) -> bool,
    mut draws: impl FnMut(i64, u32) -> [u32; ELEMS],
) {
    let threads = i64::from(thread::block_dim_x());
    let n_rounds = ((p.n_elems + 31) >> 5) * 4;
    // Where there are threads for all of them each has one: a second would only make it wait.
    let rounds = if thread::grid_threads_1d() as i64 >= n_rounds { 1 } else { ROUNDS as i64 };
    let first = i64::from(thread::block_idx_x()) * threads * rounds + i64::from(thread::thread_idx_x());
    let aligned = (p.x.address | p.y.address) & 15 == 0;
    let elements = |round: i64| p.n_elems - round * ELEMS as i64;
    let is_whole = |round: i64| aligned && elements(round) >= ELEMS as i64;
    let mut x = [[[0u32; 4]; N]; ROUNDS];
    for_each!(R < ROUNDS, {
        let round = first + R as i64 * threads;
        let from = p.x.address + round as u64 * (ELEMS * size_of::<T>()) as u64;
        for_each!(J < N, {
            let wanted = (R as i64) < rounds && is_whole(round);
            let words = guarded::load_x4(from + 16 * J as u64, u32::from(wanted));
            *x.get_unchecked_mut(R).get_unchecked_mut(J) = words;
        });
    });
    let scale = T::Acc::from_f64(p.scale);
    for_each!(R < ROUNDS, {
        let round = first + R as i64 * threads;
        let left = elements(round);
        if (R as i64) < rounds && round < n_rounds {
            let there = if left >= ELEMS as i64 {
                0xff
            } else if left > 0 {
                (1 << left) - 1
            } else {
                0
            };
            let draws = draws(round, there);
            let at = round * ELEMS as i64;
            if is_whole(round) {
                for_each!(J < N, {
                    let values = widened::<T, V>(x.get_unchecked(R).get_unchecked(J));
                    let mut results = [T::Acc::ZERO; V];
                    for_each!(I < V, {
                        let is_kept = is_kept(*draws.get_unchecked(J * V + I));
                        let value = if is_kept { *values.get_unchecked(I) * scale } else { T::Acc::ZERO };
                        *results.get_unchecked_mut(I) = value;
                    });
                    let words = narrowed::<T, V>(&results);
                    *((p.y.address as *mut T).offset(at as isize + (J * V) as isize) as *mut X4<u32>) = X4(words);
                });
            } else {
                for_each!(I < ELEMS, {
                    if there >> I & 1 != 0 {
                        let place = (at as usize + I) * size_of::<T>();
                        let [value] = vector::read::<T, 1>(p.x.address + place as u64);
                        let value = if is_kept(*draws.get_unchecked(I)) { value * scale } else { T::Acc::ZERO };
                        vector::write::<T, 1>(p.y.address + place as u64, [T::narrow(value)]);
                    }
                });
            }
        }
    });
}
