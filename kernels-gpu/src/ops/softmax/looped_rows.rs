//! A block goes along a row of contiguous elements twice: once for its maximum and sum, which are found in one reading,
//! and once for the results. What is read again comes from the cache, or, `STAGED`, from shared memory.
//!
//! Grid: rows along x. Block: any number of whole warps. Shared memory: two slots a warp; `STAGED`, the row's pieces in the
//! dynamic area, backward those of dy, each read by the thread that wrote it.

use super::register_rows::{Results, gradients, sum_of};
use crate::math::index::row_offsets;
use crate::math::rows::{MAX_LANES, Online, Row, Vector, Words, reduce};
use core::mem::size_of;
use cuda_std::{shared, thread};
use kernel_abi::TensorParam;
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxParams};

/// Pieces a thread has under way.
pub(super) const UNDER_WAY: usize = 4;

/// The same of two tensors.
const PAIRS: usize = 2;

/// Threads of a block.
pub(super) const THREADS: u32 = 512;

/// Pieces of a sum whose parts are added one after the other: at most 4096 in a thread. Sums of such blocks are added next.
const BLOCK_PIECES: u32 = 4096 * THREADS;

/// A row in the tensors.
pub(super) struct Rows {
    pub(super) out: Row,
    pub(super) input: Row,
    pub(super) dy: Row,
}

impl Rows {
    #[inline(always)]
    pub(super) fn new<T: Vector>(p: &SoftmaxParams, row: i64) -> Self {
        let [out, input, dy] = row_offsets([&p.out_rows, &p.in_rows, &p.dy_rows], row);
        let address =
            |tensor: &TensorParam, offset: i64| (tensor.address as i64 + offset * size_of::<T>() as i64) as u64;
        let from = address(&p.in_row, input);
        let (n, skip) = (p.row_elems as i32, Row::skip_of_line::<T>(from));
        Rows {
            out: Row::new::<T>(address(&p.out_row, out), n, skip),
            input: Row::new::<T>(from, n, skip),
            dy: Row::new::<T>(address(&p.dy_row, dy), n, skip),
        }
    }
}

/// Maximum and sum of the pieces from `begin` to `end` that are this thread's; `STAGED` keeps them in shared memory.
#[inline(always)]
pub(super) unsafe fn gather<T: Vector, const STAGED: bool>(x: &Row, begin: u32, end: u32, fast: bool) -> Online {
    let (mut online, mut before) = (Online::EMPTY, Online::EMPTY);
    let mut piece = begin + thread::thread_idx_x();
    let mut block_end = begin + BLOCK_PIECES;
    while piece < end {
        if piece >= block_end {
            before = before.with::<T>(online);
            online = Online::EMPTY;
            block_end += BLOCK_PIECES;
        }
        let words: [Words; UNDER_WAY] = x.load::<T, UNDER_WAY>(piece, THREADS, f32::NEG_INFINITY);
        if STAGED {
            let mut k = 0;
            while k < UNDER_WAY {
                let at = piece + k as u32 * THREADS;
                if at < end {
                    shared::store_x4(shared::dynamic_address() + at * 16, *words.get_unchecked(k));
                }
                k += 1;
            }
        }
        online.push::<T, UNDER_WAY>(&only::<T>(words, piece, end), fast);
        piece += UNDER_WAY as u32 * THREADS;
    }
    if begin + BLOCK_PIECES < end { before.with::<T>(online) } else { online }
}

/// The pieces before `end`; the others are made -∞.
#[inline(always)]
unsafe fn only<T: Vector>(mut words: [Words; UNDER_WAY], piece: u32, end: u32) -> [Words; UNDER_WAY] {
    let mut k = 1;
    while k < UNDER_WAY {
        if piece + k as u32 * THREADS >= end {
            *words.get_unchecked_mut(k) = T::pack([f32::NEG_INFINITY; MAX_LANES]);
        }
        k += 1;
    }
    words
}

/// Writes the results of the pieces from `begin` to `end` that are this thread's.
#[inline(always)]
pub(super) unsafe fn finish<T: Vector, const STAGED: bool>(
    p: &SoftmaxParams,
    rows: &Rows,
    begin: u32,
    end: u32,
    online: Online,
) {
    let results = Results::new::<T>(p.kind, online.max, online.sum);
    let mut piece = begin + thread::thread_idx_x();
    while piece < end {
        let mut words = [[0u32; 4]; UNDER_WAY];
        if STAGED {
            let mut k = 0;
            while k < UNDER_WAY {
                let at = piece + k as u32 * THREADS;
                if at < end {
                    *words.get_unchecked_mut(k) = shared::load_x4(shared::dynamic_address() + at * 16);
                }
                k += 1;
            }
        } else {
            words = rows.input.load::<T, UNDER_WAY>(piece, THREADS, 0.0);
        }
        let mut k = 0;
        while k < UNDER_WAY {
            let at = piece + k as u32 * THREADS;
            if at < end {
                rows.out.store::<T>(at, results.of::<T>(*words.get_unchecked(k)), p.alpha as f32, p.beta as f32);
            }
            k += 1;
        }
        piece += UNDER_WAY as u32 * THREADS;
    }
}

/// y = softmax(x).
#[inline(always)]
pub unsafe fn forward<T: Vector, const STAGED: bool>(p: &SoftmaxParams, slots: *mut f32) {
    let rows = Rows::new::<T>(p, i64::from(thread::block_idx_x()));
    let end = rows.input.n_pieces::<T>();
    let fast = p.kind == SoftmaxKind::Fast as u32;
    let online = gather::<T, STAGED>(&rows.input, 0, end, fast).reduce::<T, THREADS>(slots);
    finish::<T, STAGED>(p, &rows, 0, end, online);
}

/// Σ y dy, or Σ dy, which needs no y, of the pieces from `begin` to `end` that are this thread's; `STAGED` keeps dy in
/// shared memory.
#[inline(always)]
pub(super) unsafe fn gather_gradient<T: Vector, const STAGED: bool>(
    rows: &Rows,
    begin: u32,
    end: u32,
    log: bool,
) -> f32 {
    let (mut sum, mut before) = (0.0, 0.0);
    let mut piece = begin + thread::thread_idx_x();
    let mut block_end = begin + BLOCK_PIECES;
    while piece < end {
        if piece >= block_end {
            before += sum;
            sum = 0.0;
            block_end += BLOCK_PIECES;
        }
        let mut dy: [Words; PAIRS] = rows.dy.load::<T, PAIRS>(piece, THREADS, 0.0);
        let mut y = [[0u32; 4]; PAIRS];
        if !log {
            y = rows.input.load::<T, PAIRS>(piece, THREADS, 0.0);
        }
        let mut k = 0;
        while k < PAIRS {
            let at = piece + k as u32 * THREADS;
            if at >= end {
                // Another part's: 0 adds nothing.
                *dy.get_unchecked_mut(k) = [0; 4];
            } else if STAGED {
                shared::store_x4(shared::dynamic_address() + at * 16, *dy.get_unchecked(k));
            }
            k += 1;
        }
        sum += sum_of::<T, PAIRS>(&y, &dy, log, 0.0);
        piece += PAIRS as u32 * THREADS;
    }
    before + sum
}

/// Writes dx of the pieces from `begin` to `end` that are this thread's; `STAGED` has dy in shared memory.
#[inline(always)]
pub(super) unsafe fn finish_gradient<T: Vector, const STAGED: bool>(
    p: &SoftmaxParams,
    rows: &Rows,
    begin: u32,
    end: u32,
    sum: f32,
) {
    let log = p.kind == SoftmaxKind::Log as u32;
    let mut piece = begin + thread::thread_idx_x();
    while piece < end {
        let y: [Words; PAIRS] = rows.input.load::<T, PAIRS>(piece, THREADS, 0.0);
        let mut dy = [[0u32; 4]; PAIRS];
        if !STAGED {
            dy = rows.dy.load::<T, PAIRS>(piece, THREADS, 0.0);
        }
        let mut k = 0;
        while k < PAIRS {
            let at = piece + k as u32 * THREADS;
            if at < end {
                if STAGED {
                    *dy.get_unchecked_mut(k) = shared::load_x4(shared::dynamic_address() + at * 16);
                }
                let values = gradients::<T>(*y.get_unchecked(k), *dy.get_unchecked(k), sum, log);
                rows.out.store::<T>(at, values, p.alpha as f32, p.beta as f32);
            }
            k += 1;
        }
        piece += PAIRS as u32 * THREADS;
    }
}

/// dx from y and dy.
#[inline(always)]
pub unsafe fn backward<T: Vector, const STAGED: bool>(p: &SoftmaxParams, slots: *mut f32) {
    let rows = Rows::new::<T>(p, i64::from(thread::block_idx_x()));
    let end = rows.input.n_pieces::<T>();
    let log = p.kind == SoftmaxKind::Log as u32;
    let sum = reduce::<THREADS>(gather_gradient::<T, STAGED>(&rows, 0, end, log), slots, |a, b| a + b);
    finish_gradient::<T, STAGED>(p, &rows, 0, end, sum);
}
