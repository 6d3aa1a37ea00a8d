//! Rows too long and too few for a block each: parts of a row go to several blocks, which leave their maxima and sums in
//! the workspace; one block more combines those of each row, a warp a row and always in the same order, and adds up the
//! losses.
//!
//! Grid: parts along x, rows along y; then one block.

use super::looped_rows::{Logits, Place, Sums, for_each_block};
use crate::math::rows::{Online, Vector, Words};
use cuda_std::thread;
use kernel_abi::ops::crossentropy::CrossEntropyParams;

/// Pieces a thread has under way.
const UNDER_WAY: usize = 4;

/// Threads of a block that has a part.
const THREADS: u32 = 512;

/// Those of a row that combine its parts.
const LANES: u32 = 32;

/// What a row's parts leave: two numbers each.
#[inline(always)]
unsafe fn parts(p: &CrossEntropyParams, row: i64) -> *mut f32 {
    (p.parts as *mut f32).offset((2 * row * i64::from(p.n_parts)) as isize)
}

/// Maximum and sum of each part.
#[inline(always)]
pub unsafe fn forward_parts<T: Vector>(p: &CrossEntropyParams, slots: *mut f32, _: *mut f64) {
    let mut row = i64::from(thread::block_idx_y());
    while row < p.n_rows {
        let place = Place::new::<T, THREADS>(p, row);
        let n_pieces = place.x.n_pieces::<T>();
        let begin = thread::block_idx_x() * p.part_pieces;
        let end = if begin + p.part_pieces < n_pieces { begin + p.part_pieces } else { n_pieces };
        let (mut online, mut piece) = (Online::EMPTY, begin + place.lane);
        // A part is a multiple of what is under way, so only what is behind the row is loaded in vain.
        while piece < end {
            let words: [Words; UNDER_WAY] = place.x.load::<T, UNDER_WAY>(piece, THREADS, f32::NEG_INFINITY);
            online.push::<T, UNDER_WAY>(&words, false);
            piece += UNDER_WAY as u32 * THREADS;
        }
        let online = online.reduce::<T, THREADS>(slots);
        if place.lane == 0 {
            let to = parts(p, row).add(2 * thread::block_idx_x() as usize);
            (*to, *to.add(1)) = (online.max, online.sum);
        }
        // Nobody may begin the next row while slots are still read.
        thread::sync_threads();
        row += i64::from(thread::grid_dim_y());
    }
}

/// loss and lse.
#[inline(always)]
pub unsafe fn forward_rest<T: Vector>(p: &CrossEntropyParams, slots: *mut f32, pairs: *mut f64) {
    let mut sums = Sums::NONE;
    for_each_block::<LANES>(p, |row| {
        let place = Place::new::<T, LANES>(p, row);
        let (mut online, mut part) = (Online::EMPTY, place.lane);
        while place.there && part < p.n_parts {
            let from = parts(p, row).add(2 * part as usize);
            online = online.with::<T>(Online { max: *from, sum: *from.add(1) });
            part += LANES;
        }
        sums.take_class::<T>(p, &place, Logits::of(online.reduce::<T, LANES>(slots)));
    });
    sums.give::<T, LANES>(p, pairs);
}
