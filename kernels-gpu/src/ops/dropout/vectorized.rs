//! Eight neighbours a thread at a time, two random draws for them and a byte of the mask: tensors that lie as their elements
//! are counted. Those of several rounds are under way at once, in accesses of 16 bytes; what ends the tensor, and all of one
//! that does not lie at a multiple of 16 bytes, moves element by element.
//!
//! Grid: exact, one-dimensional. `V` elements are 16 bytes, `N` times as many a round's, and a thread has `ROUNDS`.

use super::naive::{give_next, state};
use crate::math::element::{Accumulator, Element};
use crate::math::vector::{self, for_each, put, widened};
use cuda_std::memory::X4;
use cuda_std::{guarded, thread};
use kernel_abi::ops::dropout::{DropoutParams, philox};

/// Neighbours of a round.
const ELEMS: usize = 8;

/// y from x and state.
#[inline(always)]
pub unsafe fn forward<T: Element, const V: usize, const N: usize, const ROUNDS: usize>(p: &DropoutParams) {
    let (seed, offset) = state(p);
    for_each_round::<T, V, N, ROUNDS>(p, |round, there| {
        let mut bits = 0u32;
        for_each!(I < ELEMS, {
            let words = philox::words(seed, offset, 2 * round as u64 + (I / 4) as u64);
            bits |= u32::from(u64::from(*words.get_unchecked(I % 4)) >= p.threshold) << I;
        });
        bits &= there;
        if p.mask != 0 {
            *(p.mask as *mut u8).offset(round as isize) = bits as u8;
        }
        bits
    });
    give_next(p);
}

/// dx from dy and mask or state.
#[inline(always)]
pub unsafe fn backward<T: Element, const V: usize, const N: usize, const ROUNDS: usize>(p: &DropoutParams) {
    if p.mask == 0 {
        return forward::<T, V, N, ROUNDS>(p);
    }
    for_each_round::<T, V, N, ROUNDS>(p, |round, _| u32::from(*(p.mask as *const u8).offset(round as isize)));
}

/// Calls `kept` with each round that is this thread's and the bits of its elements that there are, and writes what becomes
/// of them. The last rounds, which fill a word of the mask, may have no elements.
#[inline(always)]
unsafe fn for_each_round<T: Element, const V: usize, const N: usize, const ROUNDS: usize>(
    p: &DropoutParams,
    mut kept: impl FnMut(i64, u32) -> u32,
) {
    let threads = i64::from(thread::block_dim_x());
    let first = i64::from(thread::block_idx_x()) * threads * ROUNDS as i64 + i64::from(thread::thread_idx_x());
    let n_rounds = ((p.n_elems + 31) >> 5) * 4;
    let aligned = (p.x.address | p.y.address) & 15 == 0;
    let elements = |round: i64| p.n_elems - round * ELEMS as i64;
    let is_whole = |round: i64| aligned && elements(round) >= ELEMS as i64;
    let mut x = [[[0u32; 4]; N]; ROUNDS];
    for_each!(R < ROUNDS, {
        let round = first + R as i64 * threads;
        let from = p.x.address + round as u64 * (ELEMS * size_of::<T>()) as u64;
        for_each!(J < N, {
            let words = guarded::load_x4(from + 16 * J as u64, u32::from(is_whole(round)));
            *x.get_unchecked_mut(R).get_unchecked_mut(J) = words;
        });
    });
    let scale = T::Acc::from_f64(p.scale);
    for_each!(R < ROUNDS, {
        let round = first + R as i64 * threads;
        let left = elements(round);
        if round < n_rounds {
            let there = if left >= ELEMS as i64 {
                0xff
            } else if left > 0 {
                (1 << left) - 1
            } else {
                0
            };
            let bits = kept(round, there);
            let at = round * ELEMS as i64;
            if is_whole(round) {
                for_each!(J < N, {
                    let values = widened::<T, V>(x.get_unchecked(R).get_unchecked(J));
                    let mut words = [0u32; 4];
                    for_each!(I < V, {
                        let is_kept = bits >> (J * V + I) & 1 != 0;
                        let value = if is_kept { *values.get_unchecked(I) * scale } else { T::Acc::ZERO };
                        put::<T>(&mut words, I, &T::narrow(value));
                    });
                    *((p.y.address as *mut T).offset(at as isize + (J * V) as isize) as *mut X4<u32>) = X4(words);
                });
            } else {
                for_each!(I < ELEMS, {
                    if there >> I & 1 != 0 {
                        let place = (at as usize + I) * size_of::<T>();
                        let [value] = vector::read::<T, 1>(p.x.address + place as u64);
                        let value = if bits >> I & 1 != 0 { value * scale } else { T::Acc::ZERO };
                        vector::write::<T, 1>(p.y.address + place as u64, [T::narrow(value)]);
                    }
                });
            }
        }
    });
}
