//! Rows whose elements lie apart while rows lie side by side, as the channels of NCHW do: neighbouring threads take
//! neighbouring rows, and each as many as 16 bytes hold, or one (`WIDE` or not); groups of threads share the elements.
//! Rows are read twice, the second time from the cache; once, where a thread's elements stay in registers (`HELD`).
//!
//! Grid: exact, rows along x. Block: 32 lanes × `GROUPS`. Shared memory: a maximum and a sum for each row of each group.

use crate::math::element::blend;
use crate::math::index::{div_rem, offsets};
use crate::math::rows::{MAX_LANES, Row, Values, Vector, Words, finite, ln, map};
use core::mem::size_of;
use cuda_std::{math, thread};
use kernel_abi::TensorParam;
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxParams};

/// Groups of a block.
pub(super) const GROUPS: usize = 8;

/// Elements a thread has under way, or holds.
const ELEMS: usize = 4;

/// Elements of a row among which a thread adds 4096 one after the other; its sums of such blocks meet in shared memory.
const BLOCK_ELEMS: i64 = 4096 * GROUPS as i64;

/// Shared memory of a block, in floats.
pub(super) const SHARED: usize = 2 * GROUPS * MAX_LANES * 32;

/// A thread's rows in a tensor.
#[derive(Clone, Copy)]
struct Column {
    address: u64,
    /// Bytes from element to element.
    stride: i64,
    /// Rows side by side, of which a piece is this thread's.
    inner: i32,
    piece: u32,
}

impl Column {
    #[inline(always)]
    fn new<T: Vector>(tensor: &TensorParam, offset: i64, inner: i32, piece: u32) -> Self {
        let size = size_of::<T>() as i64;
        let address = (tensor.address as i64 + offset * size) as u64;
        Column { address, stride: tensor.strides[7] * size, inner, piece }
    }

    #[inline(always)]
    fn element(&self, c: i64) -> u64 {
        (self.address as i64 + c * self.stride) as u64
    }

    /// Elements `c`, `c + GROUPS`, … of the thread's rows, of which there are `n`.
    #[inline(always)]
    unsafe fn load<T: Vector, const WIDE: bool>(&self, c: i64, n: i64, fill: f32) -> [Words; ELEMS] {
        let mut words = [[0u32; 4]; ELEMS];
        let mut k = 0;
        while k < ELEMS {
            let at = c + (k * GROUPS) as i64;
            // Of an element that there is not, no row has any.
            let inner = if at < n { self.inner } else { 0 };
            if WIDE {
                let [piece] = Row::new::<T>(self.element(at), inner, 0).load::<T, 1>(self.piece, 0, fill);
                *words.get_unchecked_mut(k) = piece;
            } else {
                let mut values = [fill; MAX_LANES];
                if (self.piece as i32) < inner {
                    values[0] = (*(self.element(at) as *const T).add(self.piece as usize)).widen();
                }
                *words.get_unchecked_mut(k) = T::pack(values);
            }
            k += 1;
        }
        words
    }

    #[inline(always)]
    unsafe fn store<T: Vector, const WIDE: bool>(&self, c: i64, n: i64, values: Values, p: &SoftmaxParams) {
        if c >= n {
            return;
        }
        if WIDE {
            Row::new::<T>(self.element(c), self.inner, 0).store::<T>(self.piece, values, p.alpha as f32, p.beta as f32);
        } else if (self.piece as i32) < self.inner {
            blend::<T>(self.element(c), i64::from(self.piece), values[0], p.alpha, p.beta);
        }
    }
}

/// What is written, the input and dy, and the group of this thread.
#[inline(always)]
fn columns<T: Vector, const WIDE: bool>(p: &SoftmaxParams) -> ([Column; 3], i64) {
    let lanes = if WIDE { T::LANES as i64 } else { 1 };
    let (lane, group) = (thread::thread_idx_x() & 31, thread::thread_idx_x() >> 5);
    let pieces = (p.inner + lanes - 1) / lanes;
    let (outer, piece) = div_rem(i64::from(thread::block_idx_x()) * 32 + i64::from(lane), pieces);
    let there = outer * p.inner < p.n_rows;
    let inner = if there { p.inner as i32 } else { 0 };
    let offsets = offsets([&p.out_rows, &p.in_rows, &p.dy_rows], if there { outer * p.inner } else { 0 });
    let column = |tensor, which: usize| Column::new::<T>(tensor, offsets[which], inner, piece as u32);
    ([column(&p.out_row, 0), column(&p.in_row, 1), column(&p.dy_row, 2)], i64::from(group))
}

/// Where a group's number for a row lies.
#[inline(always)]
fn slot(group: usize, i: usize) -> usize {
    (group * MAX_LANES + i) * 32 + thread::lane_id() as usize
}

/// Rows of a thread.
#[inline(always)]
const fn width<T: Vector, const WIDE: bool>() -> usize {
    if WIDE { T::LANES } else { 1 }
}

/// y = softmax(x).
#[inline(always)]
pub unsafe fn forward<T: Vector, const WIDE: bool, const HELD: bool>(p: &SoftmaxParams, shared: *mut f32) {
    let ([out, input, _], group) = columns::<T, WIDE>(p);
    let (n, log, fast) = (p.row_elems, p.kind == SoftmaxKind::Log as u32, p.kind == SoftmaxKind::Fast as u32);
    let mut max = [if fast { 0.0 } else { f32::NEG_INFINITY }; MAX_LANES];
    let mut sum = [0.0f32; MAX_LANES];
    let mut held = [[0u32; 4]; ELEMS];
    let sums = shared.add(SHARED / 2);
    let (mut c, mut block_end) = (group, BLOCK_ELEMS);
    while c < n {
        if !HELD && c >= block_end {
            keep::<T, WIDE>((shared, sums), group as usize, (&max, &mut sum), block_end > BLOCK_ELEMS);
            block_end += BLOCK_ELEMS;
        }
        let words = input.load::<T, WIDE>(c, n, f32::NEG_INFINITY);
        let before = max;
        let mut k = 0;
        while k < ELEMS && !fast {
            for_each::<T, WIDE>(*words.get_unchecked(k), |x, i| {
                let max = max.get_unchecked_mut(i);
                *max = math::max_nan_f32(*max, x);
            });
            k += 1;
        }
        let mut i = 0;
        while i < width::<T, WIDE>() {
            *sum.get_unchecked_mut(i) *= T::exp(*before.get_unchecked(i) - finite(*max.get_unchecked(i)));
            i += 1;
        }
        k = 0;
        while k < ELEMS {
            for_each::<T, WIDE>(*words.get_unchecked(k), |x, i| {
                *sum.get_unchecked_mut(i) += T::exp(x - finite(*max.get_unchecked(i)));
            });
            k += 1;
        }
        if HELD {
            held = words;
        }
        c += (ELEMS * GROUPS) as i64;
    }
    keep::<T, WIDE>((shared, sums), group as usize, (&max, &mut sum), block_end > BLOCK_ELEMS);
    thread::sync_threads();
    let mut i = 0;
    while i < width::<T, WIDE>() {
        let mut most = f32::NEG_INFINITY;
        let mut g = 0;
        while g < GROUPS {
            most = math::max_nan_f32(most, *shared.add(slot(g, i)));
            g += 1;
        }
        let mut total = 0.0;
        g = 0;
        while g < GROUPS {
            total += *sums.add(slot(g, i)) * T::exp(*shared.add(slot(g, i)) - finite(most));
            g += 1;
        }
        *max.get_unchecked_mut(i) = most;
        // What the results are multiplied by, or of logarithms what is taken from them.
        *sum.get_unchecked_mut(i) = if log { ln(total) } else { 1.0 / total };
        i += 1;
    }
    c = group;
    while c < n {
        let words = if HELD { held } else { input.load::<T, WIDE>(c, n, 0.0) };
        let mut k = 0;
        while k < ELEMS {
            let results = map::<T>(*words.get_unchecked(k), |x, i| {
                let (centred, sum) = (x - *max.get_unchecked(i), *sum.get_unchecked(i));
                if log { centred - sum } else { T::exp(centred) * sum }
            });
            out.store::<T, WIDE>(c + (k * GROUPS) as i64, n, results, p);
            k += 1;
        }
        c += (ELEMS * GROUPS) as i64;
    }
}

/// Leaves a thread's maxima, and its sums, which begin anew, with those that it left before.
#[inline(always)]
unsafe fn keep<T: Vector, const WIDE: bool>(
    (maxima, sums): (*mut f32, *mut f32),
    group: usize,
    (max, sum): (&[f32; MAX_LANES], &mut [f32; MAX_LANES]),
    again: bool,
) {
    let mut i = 0;
    while i < width::<T, WIDE>() {
        let (max, at) = (*max.get_unchecked(i), slot(group, i));
        let mut whole = *sum.get_unchecked(i);
        if again {
            whole = math::fma_f32(*sums.add(at), T::exp(*maxima.add(at) - finite(max)), whole);
        }
        (*maxima.add(at), *sums.add(at)) = (max, whole);
        *sum.get_unchecked_mut(i) = 0.0;
        i += 1;
    }
}

/// Calls `body` with every element of a piece that a thread has.
#[inline(always)]
unsafe fn for_each<T: Vector, const WIDE: bool>(words: Words, mut body: impl FnMut(f32, usize)) {
    let values = T::unpack(words);
    let mut i = 0;
    while i < width::<T, WIDE>() {
        body(*values.get_unchecked(i), i);
        i += 1;
    }
}

/// dx from y and dy.
#[inline(always)]
pub unsafe fn backward<T: Vector, const WIDE: bool, const HELD: bool>(p: &SoftmaxParams, shared: *mut f32) {
    let ([out, y, dy], group) = columns::<T, WIDE>(p);
    let (n, log) = (p.row_elems, p.kind == SoftmaxKind::Log as u32);
    let mut sum = [0.0f32; MAX_LANES];
    let mut held = ([[0u32; 4]; ELEMS], [[0u32; 4]; ELEMS]);
    let (mut c, mut block_end) = (group, BLOCK_ELEMS);
    // Nothing but sums: relative to a maximum of 0.
    let none = [0.0; MAX_LANES];
    let sums = shared.add(SHARED / 2);
    while c < n {
        if !HELD && c >= block_end {
            keep::<T, WIDE>((shared, sums), group as usize, (&none, &mut sum), block_end > BLOCK_ELEMS);
            block_end += BLOCK_ELEMS;
        }
        let words = (y.load::<T, WIDE>(c, n, 0.0), dy.load::<T, WIDE>(c, n, 0.0));
        let mut k = 0;
        while k < ELEMS {
            let y = T::unpack(*words.0.get_unchecked(k));
            for_each::<T, WIDE>(*words.1.get_unchecked(k), |dy, i| {
                let sum = sum.get_unchecked_mut(i);
                *sum = if log { *sum + dy } else { math::fma_f32(*y.get_unchecked(i), dy, *sum) };
            });
            k += 1;
        }
        if HELD {
            held = words;
        }
        c += (ELEMS * GROUPS) as i64;
    }
    keep::<T, WIDE>((shared, sums), group as usize, (&none, &mut sum), block_end > BLOCK_ELEMS);
    thread::sync_threads();
    let mut i = 0;
    while i < width::<T, WIDE>() {
        let mut total = 0.0;
        let mut g = 0;
        while g < GROUPS {
            total += *sums.add(slot(g, i));
            g += 1;
        }
        *sum.get_unchecked_mut(i) = total;
        i += 1;
    }
    c = group;
    while c < n {
        let (y, dy) = if HELD { held } else { (y.load::<T, WIDE>(c, n, 0.0), dy.load::<T, WIDE>(c, n, 0.0)) };
        let mut k = 0;
        while k < ELEMS {
            let y = T::unpack(*y.get_unchecked(k));
            let results = map::<T>(*dy.get_unchecked(k), |dy, i| {
                let (y, sum) = (*y.get_unchecked(i), *sum.get_unchecked(i));
                if log { math::fma_f32(-T::exp(y), sum, dy) } else { y * (dy - sum) }
            });
            out.store::<T, WIDE>(c + (k * GROUPS) as i64, n, results, p);
            k += 1;
        }
        c += (ELEMS * GROUPS) as i64;
    }
}
