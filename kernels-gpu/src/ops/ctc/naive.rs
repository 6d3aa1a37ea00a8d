//! Four kernels: the rows' ln Σ eˣ, a warp a row; the states' ln α, and ln β beside them, a block a sequence, a thread a
//! state, a barrier a step; the loss, one block; the gradient, a warp a row, a lane a class.

use crate::math::element::{Accumulator, Element, blend, load};
use crate::math::index::div_rem;
use crate::math::typed::{blend_either, load_either};
use crate::math::warp_rows::{self, for_each_lane, reduce};
use cuda_std::{barrier, thread};
use kernel_abi::ops::crossentropy::LossReduction;
use kernel_abi::ops::ctc::CtcParams;

/// One sequence.
struct Sequence<'a> {
    p: &'a CtcParams,
    n: i64,
    /// Steps that it has; all of them where their number is out of range.
    n_steps: i64,
    n_labels: i64,
    /// Whether its lengths are within their ranges.
    legal: bool,
}

/// An index of one of the index tensors.
#[inline(always)]
unsafe fn index(p: &CtcParams, which: usize, at: i64) -> i64 {
    if p.index_bytes[which] == 4 {
        i64::from(*(p.indices[which] as *const i32).offset(at as isize))
    } else {
        *(p.indices[which] as *const i64).offset(at as isize)
    }
}

impl<'a> Sequence<'a> {
    #[inline(always)]
    unsafe fn new(p: &'a CtcParams, n: i64) -> Self {
        let n_steps = index(p, 1, n * p.index_strides[1]);
        let n_labels = index(p, 2, n * p.index_strides[2]);
        let legal_steps = n_steps >= 0 && n_steps <= p.n_steps;
        let legal_labels = n_labels >= 0 && n_labels <= p.n_labels;
        Sequence {
            p,
            n,
            n_steps: if legal_steps { n_steps } else { p.n_steps },
            n_labels: if legal_labels { n_labels } else { 0 },
            legal: legal_steps && legal_labels,
        }
    }

    #[inline(always)]
    fn n_states(&self) -> i64 {
        2 * self.n_labels + 1
    }

    /// Label `i`, whatever it is.
    #[inline(always)]
    unsafe fn label(&self, i: i64) -> i64 {
        index(self.p, 0, self.n * self.p.index_strides[0] + i * self.p.label_stride)
    }

    /// The class of a state.
    #[inline(always)]
    unsafe fn class(&self, s: i64) -> i64 {
        if s & 1 == 0 { self.p.blank } else { self.label(s >> 1) }
    }

    /// ln p of a class; not a number for a class that there is not.
    #[inline(always)]
    unsafe fn log_p<T: Element>(&self, t: i64, c: i64) -> T::Acc {
        if c < 0 || c >= self.p.n_classes {
            return T::Acc::from_f64(f64::NAN);
        }
        let at = t * self.p.x_strides[0] + self.n * self.p.x_strides[1] + c * self.p.x_strides[2];
        let x = load::<T>(self.p.x, at);
        if self.p.lse == 0 { x } else { x - *self.lse::<T::Acc>(t) }
    }

    #[inline(always)]
    unsafe fn lse<A>(&self, t: i64) -> *mut A {
        (self.p.lse as *mut A).offset((self.n * self.p.n_steps + t) as isize)
    }

    /// The states of a step in a table of so many steps a sequence.
    #[inline(always)]
    unsafe fn row<A>(&self, table: u64, rows: i64, t: i64) -> *mut A {
        let row = if rows == self.p.n_steps { t } else { t & 1 };
        (table as *mut A).offset(((self.n * rows + row) * (2 * self.p.n_labels + 1)) as isize)
    }

    /// The share of its loss in the result.
    #[inline(always)]
    fn share<A: Accumulator>(&self) -> A {
        if self.p.reduction != LossReduction::Mean as u32 {
            return A::ONE;
        }
        let n_labels = if self.n_labels > 1 { self.n_labels } else { 1 };
        A::from_f64(1.0 / (n_labels as f64 * self.p.n_sequences as f64))
    }
}

/// ln(eᵃ + eᵇ + eᶜ).
#[inline(always)]
fn log_sum<A: Accumulator>(a: A, b: A, c: A) -> A {
    let max = a.max(b).max(c);
    // Of nothing, or not a number.
    if max == A::NEG_INFINITY || max.is_nan() {
        return max;
    }
    max + ((a - max).exp() + (b - max).exp() + (c - max).exp()).ln()
}

/// ln Σ eˣ of every row.
pub unsafe fn lse<T: Element>(p: &CtcParams) {
    for_each_row(p, |t, n| {
        let at = t * p.x_strides[0] + n * p.x_strides[1];
        let x = |c: i64| load::<T>(p.x, at + c * p.x_strides[2]);
        let max = reduce(p.n_classes, T::Acc::NEG_INFINITY, x, |a, b| a.max(b));
        let sum = warp_rows::sum(p.n_classes, |c| (x(c) - max).exp());
        if thread::lane_id() == 0 {
            *(p.lse as *mut T::Acc).offset((n * p.n_steps + t) as isize) = max + sum.ln();
        }
    });
}

/// ln α of every state and the loss of every sequence; blocks with y = 1 compute ln β.
pub unsafe fn states<T: Element>(p: &CtcParams) {
    let backward = thread::block_idx_y() == 1;
    let mut n = i64::from(thread::block_idx_x());
    while n < p.n_sequences {
        let sequence = Sequence::new(p, n);
        if backward {
            betas::<T>(&sequence);
        } else {
            alphas::<T>(&sequence);
        }
        n += i64::from(thread::grid_dim_x());
    }
}

#[inline(always)]
unsafe fn alphas<T: Element>(sequence: &Sequence<'_>) {
    let p = sequence.p;
    let (me, threads) = (i64::from(thread::thread_idx_x()), i64::from(thread::block_dim_x()));
    let n_states = sequence.n_states();
    let (mut illegal, mut i) = (!sequence.legal, me);
    while i < sequence.n_labels {
        let label = sequence.label(i);
        illegal |= label < 0 || label >= p.n_classes;
        i += threads;
    }
    illegal = barrier::sync_threads_or(illegal);
    let mut t = 0;
    while t < sequence.n_steps {
        let row = sequence.row::<T::Acc>(p.alphas, p.alpha_rows, t);
        let before = sequence.row::<T::Acc>(p.alphas, p.alpha_rows, t - 1);
        let mut s = me;
        while s < n_states {
            let class = sequence.class(s);
            let from = if t == 0 {
                if s < 2 { T::Acc::ZERO } else { T::Acc::NEG_INFINITY }
            } else {
                let one = if s >= 1 { *before.offset((s - 1) as isize) } else { T::Acc::NEG_INFINITY };
                let skips = s >= 2 && class != sequence.class(s - 2);
                let two = if skips { *before.offset((s - 2) as isize) } else { T::Acc::NEG_INFINITY };
                log_sum(*before.offset(s as isize), one, two)
            };
            *row.offset(s as isize) = from + sequence.log_p::<T>(t, class);
            s += threads;
        }
        barrier::sync_threads();
        t += 1;
    }
    if me == 0 {
        let loss = if illegal {
            T::Acc::from_f64(f64::NAN)
        } else if sequence.n_steps == 0 {
            if n_states == 1 { T::Acc::ZERO } else { -T::Acc::NEG_INFINITY }
        } else {
            let end = sequence.row::<T::Acc>(p.alphas, p.alpha_rows, sequence.n_steps - 1);
            let last = *end.offset((n_states - 1) as isize);
            let label = if n_states > 1 { *end.offset((n_states - 2) as isize) } else { T::Acc::NEG_INFINITY };
            -log_sum(last, label, T::Acc::NEG_INFINITY)
        };
        *(p.losses as *mut T::Acc).offset(sequence.n as isize) = loss;
    }
    // Nobody may begin the next sequence while this one's states are still read.
    barrier::sync_threads();
}

#[inline(always)]
unsafe fn betas<T: Element>(sequence: &Sequence<'_>) {
    let p = sequence.p;
    let (me, threads) = (i64::from(thread::thread_idx_x()), i64::from(thread::block_dim_x()));
    let n_states = sequence.n_states();
    let mut t = sequence.n_steps - 1;
    while t >= 0 {
        let row = sequence.row::<T::Acc>(p.betas, p.n_steps, t);
        let after = sequence.row::<T::Acc>(p.betas, p.n_steps, t + 1);
        let mut s = me;
        while s < n_states {
            let class = sequence.class(s);
            let from = if t + 1 == sequence.n_steps {
                if s + 2 >= n_states { T::Acc::ZERO } else { T::Acc::NEG_INFINITY }
            } else {
                let one = if s + 1 < n_states { *after.offset((s + 1) as isize) } else { T::Acc::NEG_INFINITY };
                let skips = s + 2 < n_states && class != sequence.class(s + 2);
                let two = if skips { *after.offset((s + 2) as isize) } else { T::Acc::NEG_INFINITY };
                log_sum(*after.offset(s as isize), one, two)
            };
            *row.offset(s as isize) = from + sequence.log_p::<T>(t, class);
            s += threads;
        }
        barrier::sync_threads();
        t -= 1;
    }
}

/// The loss of every sequence, or their sum: one block.
pub unsafe fn loss<T: Element>(p: &CtcParams) {
    let value = |n: i64| {
        let loss = *(p.losses as *const T::Acc).offset(n as isize);
        let infinite = loss == -T::Acc::NEG_INFINITY;
        if infinite && p.zero_infinity != 0 { T::Acc::ZERO } else { loss * Sequence::new(p, n).share() }
    };
    let me = i64::from(thread::thread_idx_x());
    if p.reduction == LossReduction::None as u32 {
        let mut n = me;
        while n < p.n_sequences {
            blend_either::<T>(p.loss_dtype, p.loss, n * p.loss_stride, value(n), p.alpha, p.beta);
            n += i64::from(thread::block_dim_x());
        }
    } else {
        // Threads add in f64, and then halves of them: always in the same order.
        let sums = cuda_std::shared_array![f64; 256];
        let threads = thread::block_dim_x();
        let (mut sum, mut n) = (0.0, me);
        while n < p.n_sequences {
            sum += value(n).to_f64();
            n += i64::from(threads);
        }
        *sums.add(me as usize) = sum;
        barrier::sync_threads();
        let mut half = threads / 2;
        while half > 0 {
            if me < i64::from(half) {
                *sums.add(me as usize) += *sums.add(me as usize + half as usize);
            }
            barrier::sync_threads();
            half /= 2;
        }
        if me == 0 {
            blend_either::<T>(p.loss_dtype, p.loss, 0, T::Acc::from_f64(*sums), p.alpha, p.beta);
        }
    }
}

/// dx.
pub unsafe fn gradient<T: Element>(p: &CtcParams) {
    for_each_row(p, |t, n| {
        let sequence = Sequence::new(p, n);
        let loss = *(p.losses as *const T::Acc).offset(n as isize);
        let infinite = loss == -T::Acc::NEG_INFINITY;
        let behind = t >= sequence.n_steps || (infinite && p.zero_infinity != 0);
        let g = load_either::<T>(p.loss_dtype, p.loss, n * p.loss_stride) * sequence.share();
        let alphas = sequence.row::<T::Acc>(p.alphas, p.alpha_rows, t);
        let betas = sequence.row::<T::Acc>(p.betas, p.n_steps, t);
        for_each_lane(p.n_classes, |c| {
            let result = if behind {
                T::Acc::ZERO
            } else if infinite || loss.is_nan() {
                T::Acc::from_f64(f64::NAN)
            } else {
                let log_p = sequence.log_p::<T>(t, c);
                // Any number of states may be of one class.
                let mut occupied = 0.0f64;
                let mut s = 0;
                // No state is one of probability 0, and the sum would not be a number.
                while s < sequence.n_states() && log_p != T::Acc::NEG_INFINITY {
                    if sequence.class(s) == c {
                        let through = *alphas.offset(s as isize) + *betas.offset(s as isize);
                        occupied += (through - log_p + loss).exp().to_f64();
                    }
                    s += 1;
                }
                g * (log_p.exp() - T::Acc::from_f64(occupied))
            };
            let at = t * p.dx_strides[0] + n * p.dx_strides[1] + c * p.dx_strides[2];
            blend::<T>(p.dx, at, result, p.alpha, p.beta);
        });
    });
}

/// Calls `body` with the step and sequence of each row that is this warp's.
#[inline(always)]
unsafe fn for_each_row(p: &CtcParams, mut body: impl FnMut(i64, i64)) {
    warp_rows::for_each_row(p.n_steps * p.n_sequences, |row| {
        let (t, n) = div_rem(row, p.n_sequences);
        body(t, n);
    });
}
