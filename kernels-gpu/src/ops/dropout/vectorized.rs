//! Eight neighbours a thread at a time, two random draws for them and a byte of the mask: tensors that lie as their elements
//! are counted, in accesses of 16 bytes; what ends the tensor, and all of one that does not lie at a multiple of 16 bytes,
//! moves element by element.
//!
//! Grid: any number of blocks, one-dimensional; their threads go on in steps of the grid. `V` elements are 16 bytes, `N`
//! times as many a round's. Drawing takes about as long as the memory does, so that the next `ROUNDS` of a thread are under
//! way while it draws for the ones before, and the keys of the draws, which are the same for all, are made once. `ONCE` is
//! for tensors with a thread for every round, which take fewer registers so.

use super::naive::{give_next, state};
use crate::math::element::{Accumulator, Element};
use crate::math::vector::{self, for_each, narrowed, widened};
use cuda_std::memory::X4;
use cuda_std::{guarded, thread, warp};
use kernel_abi::ops::dropout::{DropoutParams, philox};

/// Neighbours of a round.
const ELEMS: usize = 8;

/// y from x and state.
#[inline(always)]
pub unsafe fn forward<T: Element, const V: usize, const N: usize, const ROUNDS: usize, const ONCE: bool>(
    p: &DropoutParams,
) {
    // A threshold is at most 2³²; below one of 0 there is nothing.
    let (all, below) = (p.threshold == 0, p.threshold.wrapping_sub(1) as u32);
    let is_kept = #[inline(always)]
    |draw: u32| draw > below || all;
    for_each_round::<T, V, N, ROUNDS, ONCE, _>(p, is_kept, || {
        let (seed, offset) = state(p);
        // As of another lane: else the compiler adds them up again for every draw.
        let keys = philox::keys_of(seed).map(|key| key.map(warp::uniform));
        move |round: u32, there: u32| {
            let mut draws = [0; ELEMS];
            for_each!(I < ELEMS, {
                let words = philox::words(&keys, offset, 2 * u64::from(round) + (I / 4) as u64);
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
        }
    });
    give_next(p);
}

/// dx from dy and mask or state.
#[inline(always)]
pub unsafe fn backward<T: Element, const V: usize, const N: usize, const ROUNDS: usize, const ONCE: bool>(
    p: &DropoutParams,
) {
    if p.mask == 0 {
        return forward::<T, V, N, ROUNDS, ONCE>(p);
    }
    let is_kept = #[inline(always)]
    |draw: u32| draw != 0;
    for_each_round::<T, V, N, ROUNDS, ONCE, _>(p, is_kept, || {
        |round: u32, _: u32| {
            let bits = u32::from(*(p.mask as *const u8).offset(round as isize));
            let mut draws = [0; ELEMS];
            for_each!(I < ELEMS, {
                *draws.get_unchecked_mut(I) = bits & 1 << I;
            });
            draws
        }
    });
}

/// Calls what `draws` gives, once the first elements are under way, with each round that is this thread's and the bits of
/// its elements that there are, and writes what becomes of them: `is_kept` says it of each draw, where it is used, since
/// there are more of them than predicates. The last rounds, which fill a word of the mask, may have no elements.
#[inline(always)]
unsafe fn for_each_round<T: Element, const V: usize, const N: usize, const ROUNDS: usize, const ONCE: bool, D>(
    p: &DropoutParams,
    is_kept: impl Fn(u32) -> bool,
    draws: impl FnOnce() -> D,
) where
    D: Fn(u32, u32) -> [u32; ELEMS],
{
    let (me, step) = (thread::index_1d() as u32, thread::grid_threads_1d() as u32);
    let aligned = (p.x.address | p.y.address) & 15 == 0;
    let n_whole = if aligned { (p.n_elems / ELEMS as i64) as u32 } else { 0 };
    let bytes = |round: u32| u64::from(round) * (ELEMS * size_of::<T>()) as u64;
    let load = #[inline(always)]
    |first: u32| {
        let mut x = [[[0u32; 4]; N]; ROUNDS];
        for_each!(R < ROUNDS, {
            let round = first + R as u32 * step;
            for_each!(J < N, {
                let from = p.x.address + bytes(round) + 16 * J as u64;
                let words = guarded::load_x4(from, u32::from(round < n_whole));
                *x.get_unchecked_mut(R).get_unchecked_mut(J) = words;
            });
        });
        x
    };
    let mut first = me;
    let mut next = load(first);
    let draws = draws();
    let scale = T::Acc::from_f64(p.scale);
    while first < n_whole {
        let x = next;
        if !ONCE {
            next = load(first + ROUNDS as u32 * step);
        }
        for_each!(R < ROUNDS, {
            let round = first + R as u32 * step;
            if round < n_whole {
                let draws = draws(round, 0xff);
                for_each!(J < N, {
                    let values = widened::<T, V>(x.get_unchecked(R).get_unchecked(J));
                    let mut results = [T::Acc::ZERO; V];
                    for_each!(I < V, {
                        let is_kept = is_kept(*draws.get_unchecked(J * V + I));
                        let value = if is_kept { *values.get_unchecked(I) * scale } else { T::Acc::ZERO };
                        *results.get_unchecked_mut(I) = value;
                    });
                    let to = p.y.address + bytes(round) + 16 * J as u64;
                    *(to as *mut X4<u32>) = X4(narrowed::<T, V>(&results));
                });
            }
        });
        if ONCE {
            break;
        }
        first += ROUNDS as u32 * step;
    }
    let n_rounds = ((p.n_elems + 31) / 32 * 4) as u32;
    let mut round = n_whole + me;
    while round < n_rounds {
        let left = p.n_elems - i64::from(round) * ELEMS as i64;
        let there = if left >= ELEMS as i64 {
            0xff
        } else if left > 0 {
            (1 << left) - 1
        } else {
            0
        };
        let draws = draws(round, there);
        for_each!(I < ELEMS, {
            if there >> I & 1 != 0 {
                let place = bytes(round) + (I * size_of::<T>()) as u64;
                let [value] = vector::read::<T, 1>(p.x.address + place);
                let value = if is_kept(*draws.get_unchecked(I)) { value * scale } else { T::Acc::ZERO };
                vector::write::<T, 1>(p.y.address + place, [T::narrow(value)]);
            }
        });
        round += step;
    }
}
