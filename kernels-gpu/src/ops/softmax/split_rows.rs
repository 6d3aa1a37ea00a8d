//! Rows too long and too few for a block each: a row's parts go to several blocks, which leave their maxima and sums in
//! the workspace; a second kernel of the same grid combines those of a row, in each of its blocks and always in the same
//! order, and writes the results.
//!
//! Grid: parts along x, rows along y. Block and shared memory as in `looped_rows`.

use super::looped_rows::{Rows, THREADS, finish, finish_gradient, gather, gather_gradient};
use crate::math::rows::{Online, Vector, reduce};
use cuda_std::thread;
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxParams};

/// Rows of a block's column of the grid, and the pieces of its part.
#[inline(always)]
unsafe fn for_each_row<T: Vector>(p: &SoftmaxParams, mut body: impl FnMut(i64, &Rows, u32, u32)) {
    let mut row = i64::from(thread::block_idx_y());
    while row < p.n_rows {
        let rows = Rows::new::<T>(p, row);
        let n_pieces = rows.input.n_pieces::<T>();
        let begin = thread::block_idx_x() * p.part_pieces;
        let end = begin + p.part_pieces;
        body(row, &rows, begin, if end < n_pieces { end } else { n_pieces });
        // Nobody may begin the next row while slots are still read.
        thread::sync_threads();
        row += i64::from(thread::grid_dim_y());
    }
}

/// What a row's parts leave: two numbers each.
#[inline(always)]
unsafe fn parts(p: &SoftmaxParams, row: i64) -> *mut f32 {
    (p.partials as *mut f32).offset((2 * row * i64::from(p.n_parts)) as isize)
}

/// Maximum and sum of each part.
#[inline(always)]
pub unsafe fn forward_parts<T: Vector>(p: &SoftmaxParams, slots: *mut f32) {
    let fast = p.kind == SoftmaxKind::Fast as u32;
    for_each_row::<T>(p, |row, rows, begin, end| {
        let online = gather::<T, false>(&rows.input, begin, end, fast).reduce::<T, THREADS>(slots);
        if thread::thread_idx_x() == 0 {
            let to = parts(p, row).add(2 * thread::block_idx_x() as usize);
            (*to, *to.add(1)) = (online.max, online.sum);
        }
    });
}

/// y, of each part.
#[inline(always)]
pub unsafe fn forward_rest<T: Vector>(p: &SoftmaxParams, slots: *mut f32) {
    for_each_row::<T>(p, |row, rows, begin, end| {
        let me = thread::thread_idx_x();
        let mut online = Online::EMPTY;
        // There are at most as many parts as threads.
        if me < p.n_parts {
            let from = parts(p, row).add(2 * me as usize);
            online = Online { max: *from, sum: *from.add(1) };
        }
        finish::<T, false>(p, rows, begin, end, online.reduce::<T, THREADS>(slots));
    });
}

/// The sum of each part.
#[inline(always)]
pub unsafe fn backward_parts<T: Vector>(p: &SoftmaxParams, slots: *mut f32) {
    let log = p.kind == SoftmaxKind::Log as u32;
    for_each_row::<T>(p, |row, rows, begin, end| {
        let sum = gather_gradient::<T, false>(rows, begin, end, log);
        let sum = reduce::<THREADS>(sum, slots, |a, b| a + b);
        if thread::thread_idx_x() == 0 {
            *parts(p, row).add(2 * thread::block_idx_x() as usize) = sum;
        }
    });
}

/// dx, of each part.
#[inline(always)]
pub unsafe fn backward_rest<T: Vector>(p: &SoftmaxParams, slots: *mut f32) {
    for_each_row::<T>(p, |row, rows, begin, end| {
        let me = thread::thread_idx_x();
        let sum = if me < p.n_parts { *parts(p, row).add(2 * me as usize) } else { 0.0 };
        finish_gradient::<T, false>(p, rows, begin, end, reduce::<THREADS>(sum, slots, |a, b| a + b));
    });
}
