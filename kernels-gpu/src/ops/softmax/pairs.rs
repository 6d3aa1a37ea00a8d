//! Short rows that lie side by side, as a few channels of NCHW do: a thread has all elements of the rows of 4 bytes, one of
//! f32 or two of 16 bits, in its registers. Nothing is shared; all loads of a thread are under way at once.
//!
//! Grid: exact, rows along x. Block: any number of threads.

use crate::math::index::{div_rem, offsets};
use crate::math::rows::{Vector, finite, ln};
use core::mem::size_of;
use cuda_std::{guarded, math, thread};
use kernel_abi::TensorParam;
use kernel_abi::ops::softmax::{PAIR_ELEMS, SoftmaxKind, SoftmaxParams};

/// Elements of a row that a thread holds.
const ELEMS: usize = PAIR_ELEMS as usize;

/// The most rows of a thread.
const ROWS: usize = 2;

/// A thread's rows in a tensor.
#[derive(Clone, Copy)]
struct Pair {
    address: u64,
    /// Bytes from element to element.
    stride: i64,
    /// Elements of a row, 0 for a thread without one.
    n: i32,
    /// Whether all elements lie at multiples of 4 bytes.
    aligned: bool,
}

/// An element of all rows of a thread.
#[inline(always)]
fn unpack<T: Vector>(word: u32) -> [f32; ROWS] {
    let [a, b, ..] = T::unpack([word, 0, 0, 0]);
    [a, b]
}

/// The same as it is stored.
#[inline(always)]
fn pack<T: Vector>([a, b]: [f32; ROWS]) -> u32 {
    let [word, ..] = T::pack([a, b, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    word
}

/// Whether rows of `n` elements reach the four elements that `c` is of; what they do not reach costs no instructions.
#[inline(always)]
const fn reaches(c: usize, n: i32) -> bool {
    ((c & !3) as i32) < n
}

/// Rows of a thread.
#[inline(always)]
const fn width<T: Vector>() -> usize {
    4 / size_of::<T>()
}

impl Pair {
    #[inline(always)]
    fn element(&self, c: usize) -> u64 {
        (self.address as i64 + c as i64 * self.stride) as u64
    }

    /// All elements, zeros where there are none. No load is branched around or asked for before all are under way.
    #[inline(always)]
    unsafe fn load<T: Vector>(&self) -> [u32; ELEMS] {
        let mut words = [0; ELEMS];
        let mut c = 0;
        if width::<T>() == 1 || self.aligned {
            while c < ELEMS {
                [*words.get_unchecked_mut(c)] = guarded::load_x1(self.element(c), u32::from((c as i32) < self.n));
                c += 1;
            }
        } else {
            while c < ELEMS {
                let (from, there) = (self.element(c), u32::from((c as i32) < self.n));
                let (low, high) = (guarded::load_u16(from, there), guarded::load_u16(from + 2, there));
                *words.get_unchecked_mut(c) = u32::from(low) | u32::from(high) << 16;
                c += 1;
            }
        }
        words
    }

    /// Writes `alpha · values + beta · prior`.
    #[inline(always)]
    unsafe fn store<T: Vector>(&self, p: &SoftmaxParams, values: impl Fn(usize) -> [f32; ROWS]) {
        let (alpha, beta) = (p.alpha as f32, p.beta as f32);
        let mut c = 0;
        if (width::<T>() == 1 || self.aligned) && beta == 0.0 {
            while c < ELEMS {
                if reaches(c, self.n) {
                    let word = pack::<T>(values(c).map(|value| alpha * value));
                    guarded::store_x1(self.element(c), [word], u32::from((c as i32) < self.n));
                }
                c += 1;
            }
            return;
        }
        while c < ELEMS {
            if (c as i32) < self.n {
                let (values, mut i) = (values(c), 0);
                while i < width::<T>() {
                    let to = (self.element(c) as *mut T).add(i);
                    let prior = if beta == 0.0 { 0.0 } else { (*to).widen() };
                    *to = T::narrow(math::fma_f32(beta, prior, alpha * *values.get_unchecked(i)));
                    i += 1;
                }
            }
            c += 1;
        }
    }
}

/// What is written, the input and dy.
#[inline(always)]
fn pairs<T: Vector>(p: &SoftmaxParams) -> [Pair; 3] {
    let (size, width) = (size_of::<T>() as i64, width::<T>() as i64);
    let thread = i64::from(thread::block_idx_x()) * i64::from(thread::block_dim_x());
    let first = (thread + i64::from(thread::thread_idx_x())) * width;
    let there = first < p.n_rows;
    // Rows side by side are a multiple of a thread's.
    let (outer, inner) = div_rem(if there { first } else { 0 }, p.inner);
    let offsets = offsets([&p.out_rows, &p.in_rows, &p.dy_rows], outer * p.inner);
    let pair = |tensor: &TensorParam, offset: i64| {
        let address = (tensor.address as i64 + (offset + inner) * size) as u64;
        let stride = tensor.strides[7] * size;
        let n = if there { p.row_elems as i32 } else { 0 };
        Pair { address, stride, n, aligned: (address | stride as u64) & 3 == 0 }
    };
    [pair(&p.out_row, offsets[0]), pair(&p.in_row, offsets[1]), pair(&p.dy_row, offsets[2])]
}

/// y = softmax(x).
#[inline(always)]
pub unsafe fn forward<T: Vector>(p: &SoftmaxParams) {
    let [out, input, _] = pairs::<T>(p);
    let log = p.kind == SoftmaxKind::Log as u32;
    let mut words = input.load::<T>();
    let mut c = 0;
    while c < ELEMS {
        if c as i32 >= input.n {
            // It changes no maximum, and adds nothing.
            *words.get_unchecked_mut(c) = pack::<T>([f32::NEG_INFINITY; ROWS]);
        }
        c += 1;
    }
    let mut max = [f32::NEG_INFINITY; ROWS];
    c = 0;
    while c < ELEMS {
        if reaches(c, input.n) {
            let (x, mut i) = (unpack::<T>(*words.get_unchecked(c)), 0);
            while i < width::<T>() {
                *max.get_unchecked_mut(i) = math::max_nan_f32(*max.get_unchecked(i), *x.get_unchecked(i));
                i += 1;
            }
        }
        c += 1;
    }
    max = if p.kind == SoftmaxKind::Fast as u32 { [0.0; ROWS] } else { max.map(finite) };
    // Powers, or of logarithms exponents: each is found once.
    let mut terms = [[0.0f32; ROWS]; ELEMS];
    let mut sum = [0.0f32; ROWS];
    c = 0;
    while c < ELEMS {
        if reaches(c, input.n) {
            let (x, mut i) = (unpack::<T>(*words.get_unchecked(c)), 0);
            while i < width::<T>() {
                let centred = *x.get_unchecked(i) - *max.get_unchecked(i);
                let power = T::exp(centred);
                *sum.get_unchecked_mut(i) += power;
                *terms.get_unchecked_mut(c).get_unchecked_mut(i) = if log { centred } else { power };
                i += 1;
            }
        }
        c += 1;
    }
    let (scale, shift) =
        if log { ([1.0; ROWS], sum.map(|sum| -ln(sum))) } else { (sum.map(|sum| 1.0 / sum), [0.0; ROWS]) };
    out.store::<T>(p, |c| {
        let [a, b] = *terms.get_unchecked(c);
        [math::fma_f32(a, scale[0], shift[0]), math::fma_f32(b, scale[1], shift[1])]
    });
}

/// dx from y and dy.
#[inline(always)]
pub unsafe fn backward<T: Vector>(p: &SoftmaxParams) {
    let [out, y, dy] = pairs::<T>(p);
    let log = p.kind == SoftmaxKind::Log as u32;
    // Zeros add nothing.
    let (y, dy) = (y.load::<T>(), dy.load::<T>());
    let mut sum = [0.0f32; ROWS];
    let mut c = 0;
    while c < ELEMS {
        if reaches(c, out.n) {
            let (y, dy) = (unpack::<T>(*y.get_unchecked(c)), unpack::<T>(*dy.get_unchecked(c)));
            let mut i = 0;
            while i < width::<T>() {
                let (factor, sum) = (if log { 1.0 } else { *y.get_unchecked(i) }, sum.get_unchecked_mut(i));
                *sum = math::fma_f32(factor, *dy.get_unchecked(i), *sum);
                i += 1;
            }
        }
        c += 1;
    }
    let at = |c: usize| (unpack::<T>(*y.get_unchecked(c)), unpack::<T>(*dy.get_unchecked(c)));
    if log {
        out.store::<T>(p, |c| {
            let ([y0, y1], [dy0, dy1]) = at(c);
            [math::fma_f32(-T::exp(y0), sum[0], dy0), math::fma_f32(-T::exp(y1), sum[1], dy1)]
        });
    } else {
        out.store::<T>(p, |c| {
            let ([y0, y1], [dy0, dy1]) = at(c);
            [y0 * (dy0 - sum[0]), y1 * (dy1 - sum[1])]
        });
    }
}
