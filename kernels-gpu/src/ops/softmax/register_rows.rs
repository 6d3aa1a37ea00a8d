//! A row of contiguous elements in the registers of `G` threads, `K` pieces of 16 bytes each: read once, written once.
//!
//! Grid: exact, one-dimensional. Block: as many rows as fit its threads, or one row. Shared memory: two slots a warp.

use crate::math::index::row_offsets;
use crate::math::rows::{Powers, Row, Values, Vector, Words, for_each, ln, map, reduce};
use core::mem::size_of;
use cuda_std::{math, schedule, thread};
use kernel_abi::TensorParam;
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxParams};

/// What a thread works on: its lane among those of its row, the row's length and its offsets in what is written, the
/// input and dy.
struct Place {
    lane: u32,
    n: i32,
    offsets: [i64; 3],
}

impl Place {
    /// Rows that there are not have no elements, so that their threads stay with their warp.
    #[inline(always)]
    fn new<const G: u32>(p: &SoftmaxParams) -> Self {
        let me = thread::thread_idx_x();
        let rows = thread::block_dim_x() / G;
        let row = i64::from(thread::block_idx_x()) * i64::from(rows) + i64::from(me / G);
        let there = row < p.n_rows;
        let offsets = row_offsets([&p.out_rows, &p.in_rows, &p.dy_rows], if there { row } else { 0 });
        Place { lane: me % G, n: if there { p.row_elems as i32 } else { 0 }, offsets }
    }

    #[inline(always)]
    fn address<T: Vector>(&self, tensor: &TensorParam, which: usize) -> u64 {
        (tensor.address as i64 + self.offsets[which] * size_of::<T>() as i64) as u64
    }

    /// Where the row's first piece is cut: to 16 bytes, if there are threads enough for one piece more.
    #[inline(always)]
    fn skip<T: Vector, const G: u32, const K: usize>(&self, address: u64) -> i32 {
        let skip = Row::skip_of::<T>(address);
        if self.n + skip > (G as usize * K * T::LANES) as i32 { 0 } else { skip }
    }
}

/// y = softmax(x).
#[inline(always)]
pub unsafe fn forward<T: Vector, const G: u32, const K: usize>(p: &SoftmaxParams, slots: *mut f32) {
    let place = Place::new::<G>(p);
    let from = place.address::<T>(&p.in_row, 1);
    let skip = place.skip::<T, G, K>(from);
    let x = Row::new::<T>(from, place.n, skip);
    let x: [Words; K] = if K == 1 {
        [x.load_beside::<T>(place.lane, f32::NEG_INFINITY); K]
    } else {
        x.load::<T, K>(place.lane, G, f32::NEG_INFINITY)
    };
    let mut max = 0.0;
    if p.kind != SoftmaxKind::Fast as u32 {
        max = f32::NEG_INFINITY;
        // One by one: as they are stored, two at a time, rows of 512 took 5 % longer.
        for_each::<T, K>(&x, |x| max = math::max_nan_f32(max, x));
        max = reduce::<G>(max, slots, math::max_nan_f32);
    }
    let mut sum = 0.0;
    let powers = Powers::new::<T>(max);
    for_each::<T, K>(&x, |x| sum += powers.of::<T>(x));
    sum = reduce::<G>(sum * powers.undo, slots.add(32), |a, b| a + b);
    let y = Row::new::<T>(place.address::<T>(&p.out_row, 0), place.n, skip);
    let results = Results::new::<T>(p.kind, max, sum);
    let mut k = 0;
    while k < K {
        y.store::<T>(place.lane + k as u32 * G, results.of::<T>(*x.get_unchecked(k)), p.alpha as f32, p.beta as f32);
        k += 1;
    }
}

/// From elements to results, of a row.
#[derive(Clone, Copy)]
pub(super) struct Results {
    log: bool,
    max: f32,
    powers: Powers,
    /// What powers are multiplied by, or ln sum.
    sum: f32,
}

impl Results {
    #[inline(always)]
    pub(super) fn new<T: Vector>(kind: u32, max: f32, sum: f32) -> Self {
        let (log, powers) = (kind == SoftmaxKind::Log as u32, Powers::new::<T>(max));
        Results { log, max, powers, sum: if log { ln(sum) } else { powers.undo / sum } }
    }

    #[inline(always)]
    pub(super) fn of<T: Vector>(&self, words: Words) -> Values {
        map::<T>(words, |x, _| self.of_one::<T>(x))
    }

    #[inline(always)]
    pub(super) fn of_one<T: Vector>(&self, x: f32) -> f32 {
        if self.log { (x - self.max) - self.sum } else { self.powers.of::<T>(x) * self.sum }
    }
}

/// dx from y and dy.
#[inline(always)]
pub unsafe fn backward<T: Vector, const G: u32, const K: usize>(p: &SoftmaxParams, slots: *mut f32) {
    let place = Place::new::<G>(p);
    let from = place.address::<T>(&p.in_row, 1);
    let skip = place.skip::<T, G, K>(from);
    let y = Row::new::<T>(from, place.n, skip);
    let dy = Row::new::<T>(place.address::<T>(&p.dy_row, 2), place.n, skip);
    let (y, dy): ([Words; K], [Words; K]) = if K == 1 {
        ([y.load_beside::<T>(place.lane, 0.0); K], [dy.load_beside::<T>(place.lane, 0.0); K])
    } else {
        (y.load::<T, K>(place.lane, G, 0.0), dy.load::<T, K>(place.lane, G, 0.0))
    };
    let log = p.kind == SoftmaxKind::Log as u32;
    let sum = reduce::<G>(sum_of::<T, K>(&y, &dy, log, 0.0), slots, |a, b| a + b);
    let dx = Row::new::<T>(place.address::<T>(&p.out_row, 0), place.n, skip);
    let mut k = 0;
    while k < K {
        // Elements are made anew from what was loaded: kept from the sum on, they would take twice its registers.
        let values = gradients::<T>(anew(*y.get_unchecked(k)), anew(*dy.get_unchecked(k)), sum, log);
        dx.store::<T>(place.lane + k as u32 * G, values, p.alpha as f32, p.beta as f32);
        k += 1;
    }
}

/// A piece that the compiler is not told it has seen before.
#[inline(always)]
pub(super) fn anew(words: Words) -> Words {
    words.map(schedule::opaque)
}

/// Σ y dy, or Σ dy, of some pieces and what was before them.
#[inline(always)]
pub(super) fn sum_of<T: Vector, const K: usize>(y: &[Words; K], dy: &[Words; K], log: bool, before: f32) -> f32 {
    let mut sum = before;
    let mut k = 0;
    while k < K {
        // SAFETY: `k` is below the lengths.
        let (y, dy) = unsafe { (T::unpack(*y.get_unchecked(k)), *dy.get_unchecked(k)) };
        map::<T>(dy, |dy, i| {
            // SAFETY: `i` is below the length.
            sum = if log { sum + dy } else { math::fma_f32(unsafe { *y.get_unchecked(i) }, dy, sum) };
            dy
        });
        k += 1;
    }
    sum
}

/// dx of a piece whose row has this sum.
#[inline(always)]
pub(super) fn gradients<T: Vector>(y: Words, dy: Words, sum: f32, log: bool) -> Values {
    let y = T::unpack(y);
    map::<T>(dy, |dy, i| {
        // SAFETY: `i` is below the length.
        gradient_of::<T>(unsafe { *y.get_unchecked(i) }, dy, sum, log)
    })
}

/// dx of an element whose row has this sum.
#[inline(always)]
pub(super) fn gradient_of<T: Vector>(y: f32, dy: f32, sum: f32, log: bool) -> f32 {
    if log { math::fma_f32(-T::exp(y), sum, dy) } else { y * (dy - sum) }
}
