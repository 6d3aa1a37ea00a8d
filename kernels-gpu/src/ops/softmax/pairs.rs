//! Short rows that lie side by side, as a few channels of NCHW do: a thread has all elements of the rows of 4 or 8 bytes,
//! one or two of f32, two or four of 16 bits, in its registers. Nothing is shared; all loads of a thread are under way at
//! once.
//!
//! Grid: exact, rows along x. Block: any number of threads.

use crate::math::index::{div_rem, offsets};
use crate::math::rows::{Powers, Vector, finite, ln};
use crate::math::vector::for_each;
use core::mem::size_of;
use cuda_std::{guarded, math, thread};
use kernel_abi::TensorParam;
use kernel_abi::ops::softmax::{PAIR_ELEMS, SoftmaxKind, SoftmaxParams};

/// Elements of a row that a thread holds.
const ELEMS: usize = PAIR_ELEMS as usize;

/// The most rows of a word.
const ROWS: usize = 2;

/// Elements between branches.
const FOUR: usize = 4;

/// A thread's `W` words of rows in a tensor.
#[derive(Clone, Copy)]
struct Pair<const W: usize> {
    address: u64,
    /// Bytes from element to element.
    stride: i64,
    /// Elements of a row, 0 for a thread without one.
    n: i32,
    /// Whether all elements lie at multiples of the words' bytes.
    aligned: bool,
}

/// An element of all rows of a word.
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

/// Calls `f` with four elements after the other, of which rows of `n` elements have the first: what they do not reach costs
/// no instructions, and there is a branch for all four.
#[inline(always)]
fn for_fours(n: i32, mut f: impl FnMut(usize)) {
    let mut first = 0;
    while first < ELEMS {
        if (first as i32) < n {
            for_each!(I < FOUR, {
                f(first + I);
            });
        }
        first += FOUR;
    }
}

/// Rows of a word.
#[inline(always)]
const fn width<T: Vector>() -> usize {
    4 / size_of::<T>()
}

impl<const W: usize> Pair<W> {
    #[inline(always)]
    fn element(&self, c: usize) -> u64 {
        (self.address as i64 + c as i64 * self.stride) as u64
    }

    /// All elements, zeros where there are none. No load is branched around or asked for before all are under way.
    #[inline(always)]
    unsafe fn load<T: Vector>(&self) -> [[u32; W]; ELEMS] {
        let mut words = [[0; W]; ELEMS];
        let mut c = 0;
        if self.aligned {
            while c < ELEMS {
                let (from, there) = (self.element(c), u32::from((c as i32) < self.n));
                let words = words.get_unchecked_mut(c);
                if W == 2 {
                    [words[0], words[W - 1]] = guarded::load_x2(from, there);
                } else {
                    [words[0]] = guarded::load_x1(from, there);
                }
                c += 1;
            }
        } else {
            while c < ELEMS {
                let (mut from, there) = (self.element(c), u32::from((c as i32) < self.n));
                let mut w = 0;
                while w < W {
                    *words.get_unchecked_mut(c).get_unchecked_mut(w) = if width::<T>() == 1 {
                        guarded::load_x1(from, there)[0]
                    } else {
                        let (low, high) = (guarded::load_u16(from, there), guarded::load_u16(from + 2, there));
                        u32::from(low) | u32::from(high) << 16
                    };
                    from += 4;
                    w += 1;
                }
                c += 1;
            }
        }
        words
    }

    /// Writes `values + beta · prior`, by the words of an element.
    #[inline(always)]
    unsafe fn store<T: Vector>(&self, p: &SoftmaxParams, values: impl Fn(usize, usize) -> [f32; ROWS]) {
        let beta = p.beta as f32;
        if self.aligned && beta == 0.0 {
            for_fours(self.n, |c| {
                let (to, there) = (self.element(c), u32::from((c as i32) < self.n));
                if W == 2 {
                    guarded::store_x2(to, [pack::<T>(values(c, 0)), pack::<T>(values(c, W - 1))], there);
                } else {
                    guarded::store_x1(to, [pack::<T>(values(c, 0))], there);
                }
            });
            return;
        }
        let mut c = 0;
        while c < ELEMS {
            if (c as i32) < self.n {
                let mut row = 0;
                while row < W * width::<T>() {
                    let value = *values(c, row / width::<T>()).get_unchecked(row % width::<T>());
                    let to = (self.element(c) as *mut T).add(row);
                    let prior = if beta == 0.0 { 0.0 } else { (*to).widen() };
                    *to = T::narrow(math::fma_f32(beta, prior, value));
                    row += 1;
                }
            }
            c += 1;
        }
    }
}

/// What is written, the input and dy.
#[inline(always)]
fn pairs<T: Vector, const W: usize>(p: &SoftmaxParams) -> [Pair<W>; 3] {
    let (size, width) = (size_of::<T>() as i64, (W * width::<T>()) as i64);
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
        Pair { address, stride, n, aligned: (address | stride as u64) & (4 * W as u64 - 1) == 0 }
    };
    [pair(&p.out_row, offsets[0]), pair(&p.in_row, offsets[1]), pair(&p.dy_row, offsets[2])]
}

/// y = softmax(x).
#[inline(always)]
pub unsafe fn forward<T: Vector, const W: usize>(p: &SoftmaxParams) {
    if p.kind == SoftmaxKind::Log as u32 { forward_of::<T, W, true>(p) } else { forward_of::<T, W, false>(p) }
}

#[inline(always)]
unsafe fn forward_of<T: Vector, const W: usize, const LOG: bool>(p: &SoftmaxParams) {
    let [out, input, _] = pairs::<T, W>(p);
    let mut words = input.load::<T>();
    let mut c = 0;
    while c < ELEMS {
        if c as i32 >= input.n {
            // It changes no maximum, and adds nothing.
            *words.get_unchecked_mut(c) = [pack::<T>([f32::NEG_INFINITY; ROWS]); W];
        }
        c += 1;
    }
    let mut most = words[0];
    for_fours(input.n, |c| {
        let mut w = 0;
        while w < W {
            let most = most.get_unchecked_mut(w);
            *most = T::max_of_words(*most, *words.get_unchecked(c).get_unchecked(w));
            w += 1;
        }
    });
    let max = if p.kind == SoftmaxKind::Fast as u32 { [[0.0; ROWS]; W] } else { most.map(unpack::<T>) };
    let of_max = max.map(|max| max.map(Powers::new::<T>));
    // Each power is found once. Of logarithms only their sum is wanted.
    let mut powers = [[[0.0f32; ROWS]; W]; ELEMS];
    let mut sum = [[0.0f32; ROWS]; W];
    for_fours(input.n, |c| {
        let mut w = 0;
        while w < W {
            let x = unpack::<T>(*words.get_unchecked(c).get_unchecked(w));
            let (of_max, sum) = (of_max.get_unchecked(w), sum.get_unchecked_mut(w));
            let powers = powers.get_unchecked_mut(c).get_unchecked_mut(w);
            let mut i = 0;
            while i < width::<T>() {
                let power = of_max.get_unchecked(i).of::<T>(*x.get_unchecked(i));
                *sum.get_unchecked_mut(i) += power;
                *powers.get_unchecked_mut(i) = power;
                i += 1;
            }
            w += 1;
        }
    });
    let alpha = p.alpha as f32;
    // Of a row: what powers are multiplied by; of logarithms the maximum, and -alpha ln Σ.
    let mut factor = [[0.0f32; ROWS]; W];
    let mut rest = [[0.0f32; ROWS]; W];
    let mut w = 0;
    while w < W {
        let mut i = 0;
        while i < width::<T>() {
            let (sum, of_max) = (*sum.get_unchecked(w).get_unchecked(i), of_max.get_unchecked(w).get_unchecked(i));
            let (factor, rest) = (factor.get_unchecked_mut(w), rest.get_unchecked_mut(w));
            if LOG {
                *factor.get_unchecked_mut(i) = finite(*max.get_unchecked(w).get_unchecked(i));
                *rest.get_unchecked_mut(i) = -alpha * ln(sum * of_max.undo);
            } else {
                *factor.get_unchecked_mut(i) = math::divide_full(alpha, sum);
            }
            i += 1;
        }
        w += 1;
    }
    out.store::<T>(p, |c, w| {
        let (factor, rest) = (factor.get_unchecked(w), rest.get_unchecked(w));
        if LOG {
            let [a, b] = unpack::<T>(*words.get_unchecked(c).get_unchecked(w));
            [math::fma_f32(alpha, a - factor[0], rest[0]), math::fma_f32(alpha, b - factor[1], rest[1])]
        } else {
            let [a, b] = *powers.get_unchecked(c).get_unchecked(w);
            [a * factor[0], b * factor[1]]
        }
    });
}

/// dx from y and dy.
#[inline(always)]
pub unsafe fn backward<T: Vector, const W: usize>(p: &SoftmaxParams) {
    let [out, y, dy] = pairs::<T, W>(p);
    let log = p.kind == SoftmaxKind::Log as u32;
    // Zeros add nothing.
    let (y, dy) = (y.load::<T>(), dy.load::<T>());
    let at = |c: usize, w: usize| {
        let words = (*y.get_unchecked(c).get_unchecked(w), *dy.get_unchecked(c).get_unchecked(w));
        (unpack::<T>(words.0), unpack::<T>(words.1))
    };
    let mut sum = [[0.0f32; ROWS]; W];
    for_fours(out.n, |c| {
        let mut w = 0;
        while w < W {
            let ((y, dy), sum, mut i) = (at(c, w), sum.get_unchecked_mut(w), 0);
            while i < width::<T>() {
                let (factor, sum) = (if log { 1.0 } else { *y.get_unchecked(i) }, sum.get_unchecked_mut(i));
                *sum = math::fma_f32(factor, *dy.get_unchecked(i), *sum);
                i += 1;
            }
            w += 1;
        }
    });
    let alpha = p.alpha as f32;
    if log {
        out.store::<T>(p, |c, w| {
            let (([y0, y1], [dy0, dy1]), sum) = (at(c, w), sum.get_unchecked(w));
            [alpha * math::fma_f32(-T::exp(y0), sum[0], dy0), alpha * math::fma_f32(-T::exp(y1), sum[1], dy1)]
        });
    } else {
        out.store::<T>(p, |c, w| {
            let (([y0, y1], [dy0, dy1]), sum) = (at(c, w), sum.get_unchecked(w));
            [alpha * (y0 * (dy0 - sum[0])), alpha * (y1 * (dy1 - sum[1]))]
        });
    }
}
