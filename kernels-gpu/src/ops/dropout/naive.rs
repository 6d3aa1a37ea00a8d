//! One thread an element, any strides; the lanes of a warp share a word of the mask.

use crate::math::element::{Accumulator, Element, load};
use crate::math::index::offsets;
use cuda_std::{thread, warp};
use kernel_abi::ops::dropout::{DropoutParams, philox};

/// A word of the state.
#[inline(always)]
unsafe fn word(p: &DropoutParams, i: usize) -> i32 {
    *(p.state as *const i32).add(i)
}

/// Seed and offset.
#[inline(always)]
pub(super) unsafe fn state(p: &DropoutParams) -> (u64, u64) {
    (philox::join(word(p, 0), word(p, 1)), philox::join(word(p, 2), word(p, 3)))
}

/// Writes the state behind this run, by one thread of the grid.
#[inline(always)]
pub(super) unsafe fn give_next(p: &DropoutParams) {
    if p.next != 0 && thread::index_1d() == 0 {
        let (seed, offset) = state(p);
        let offset = offset.wrapping_add((p.n_elems as u64).div_ceil(4));
        let to = p.next as *mut u32;
        *to = seed as u32;
        *to.add(1) = (seed >> 32) as u32;
        *to.add(2) = offset as u32;
        *to.add(3) = (offset >> 32) as u32;
    }
}

/// y from x and state.
pub unsafe fn forward<T: Element>(p: &DropoutParams) {
    let (seed, offset) = state(p);
    let keys = philox::keys_of(seed);
    for_each_element::<T>(p, |i, is_there| {
        let words = philox::words(&keys, offset, i as u64 / 4);
        let word = match i & 3 {
            0 => words[0],
            1 => words[1],
            2 => words[2],
            _ => words[3],
        };
        let is_kept = is_there && u64::from(word) >= p.threshold;
        if p.mask != 0 {
            let bits = warp::ballot(is_kept);
            if is_there && i & 31 == 0 {
                *(p.mask as *mut u32).offset((i >> 5) as isize) = bits;
            }
        }
        is_kept
    });
    give_next(p);
}

/// dx from dy and mask or state.
pub unsafe fn backward<T: Element>(p: &DropoutParams) {
    if p.mask == 0 {
        return forward::<T>(p);
    }
    for_each_element::<T>(p, |i, is_there| {
        is_there && *(p.mask as *const u32).offset((i >> 5) as isize) >> (i & 31) & 1 == 1
    });
}

/// Calls `is_kept` in whole warps with each place, and whether it is one, and writes what becomes of the element.
#[inline(always)]
unsafe fn for_each_element<T: Element>(p: &DropoutParams, mut is_kept: impl FnMut(i64, bool) -> bool) {
    let scale = T::Acc::from_f64(p.scale);
    let step = thread::grid_threads_1d() as i64;
    let mut i = thread::index_1d() as i64;
    // The first lane's place decides for the warp, so that it stays together.
    while (i & !31) < p.n_elems {
        if is_kept(i, i < p.n_elems) {
            let [y, x] = offsets([&p.y, &p.x], i);
            *(p.y.address as *mut T).offset(y as isize) = T::narrow(load::<T>(p.x.address, x) * scale);
        } else if i < p.n_elems {
            let [y] = offsets([&p.y], i);
            *(p.y.address as *mut T).offset(y as isize) = T::narrow(T::Acc::ZERO);
        }
        i += step;
    }
}
