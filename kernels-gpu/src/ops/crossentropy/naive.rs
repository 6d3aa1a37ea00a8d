//! One warp a row, any strides; and one block that adds up what the rows' warps or blocks leave.

use crate::math::element::{Accumulator, Element, blend, load};
use crate::math::index::offsets;
use crate::math::typed::{blend_either, load_either};
use crate::math::warp_rows::{self, for_each_lane, reduce};
use cuda_std::thread;
use kernel_abi::ops::crossentropy::{CrossEntropyParams, CrossEntropySumParams, LossReduction, target};

/// What a row's target asks for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// The class does not count.
    Nothing,
    /// A class that there is not.
    Illegal,
    /// One class.
    Class,
    /// A probability of each.
    Probabilities,
}

/// A row's target.
#[derive(Clone, Copy)]
pub(super) struct Target<A> {
    pub(super) kind: Kind,
    pub(super) class: i64,
    /// Of the row: what the mean divides by.
    pub(super) weight: A,
}

/// The target at this offset.
#[inline(always)]
pub(super) unsafe fn target_of<T: Element>(p: &CrossEntropyParams, at: i64) -> Target<T::Acc> {
    if p.target_kind == target::PROBABILITIES {
        return Target { kind: Kind::Probabilities, class: -1, weight: T::Acc::ONE };
    }
    let class = if p.target_kind == target::I32 {
        i64::from(*(p.target.address as *const i32).offset(at as isize))
    } else {
        *(p.target.address as *const i64).offset(at as isize)
    };
    if p.has_ignore_index != 0 && class == p.ignore_index {
        Target { kind: Kind::Nothing, class, weight: T::Acc::ZERO }
    } else if class < 0 || class >= p.n_classes {
        // 0 / 0 of numbers that the compiler does not see.
        Target { kind: Kind::Illegal, class, weight: T::Acc::from_f64(f64::NAN) }
    } else {
        Target { kind: Kind::Class, class, weight: class_weight::<T>(p, class) }
    }
}

/// w_c.
#[inline(always)]
pub(super) unsafe fn class_weight<T: Element>(p: &CrossEntropyParams, c: i64) -> T::Acc {
    if p.weight == 0 { T::Acc::ONE } else { load_either::<T>(p.weight_dtype, p.weight, c * p.weight_stride) }
}

/// a_c, of a row that counts and whose class there is.
#[inline(always)]
unsafe fn coefficient<T: Element>(p: &CrossEntropyParams, target: &Target<T::Acc>, target_at: i64, c: i64) -> T::Acc {
    let named = if target.kind == Kind::Probabilities {
        load::<T>(p.target.address, target_at + c * p.target_class_stride)
    } else if target.class == c {
        T::Acc::ONE
    } else {
        T::Acc::ZERO
    };
    class_weight::<T>(p, c) * smoothed(p, named)
}

/// (1 - s) t + s / C.
#[inline(always)]
pub(super) fn smoothed<A: Accumulator>(p: &CrossEntropyParams, named: A) -> A {
    A::from_f64(1.0 - p.smoothing).mul_add(named, A::from_f64(p.smoothing / p.n_classes as f64))
}

/// What becomes of a row's loss, in one thread: stored, or left to be added up.
#[inline(always)]
unsafe fn give_loss<T: Element>(p: &CrossEntropyParams, row: i64, loss_at: i64, loss: T::Acc, weight: T::Acc) {
    if p.reduction == LossReduction::None as u32 {
        blend_either::<T>(p.loss_dtype, p.loss.address, loss_at, loss, p.alpha, p.beta);
    } else {
        leave_pair(p, row, loss.to_f64(), weight.to_f64());
    }
}

/// Leaves a loss and a weight to be added up.
#[inline(always)]
pub(super) unsafe fn leave_pair(p: &CrossEntropyParams, place: i64, loss: f64, weight: f64) {
    let pair = (p.partials as *mut f64).offset((2 * place) as isize);
    (*pair, *pair.add(1)) = (loss, weight);
}

/// The gradient of a row's loss.
#[inline(always)]
pub(super) unsafe fn row_gradient<T: Element>(p: &CrossEntropyParams, loss_at: i64) -> T::Acc {
    let g = load_either::<T>(p.loss_dtype, p.loss.address, loss_at);
    if p.reduction != LossReduction::Mean as u32 {
        g
    } else if p.total != 0 {
        g / *(p.total as *const T::Acc)
    } else {
        g / T::Acc::from_i64(p.n_rows)
    }
}

/// loss and lse.
pub unsafe fn forward<T: Element>(p: &CrossEntropyParams) {
    for_each_row(p, |row, [x_at, target_at, loss_at, lse_at, _]| {
        let x = |c: i64| load::<T>(p.x.address, x_at + c * p.x_class_stride);
        let (mut max, mut ln_sum) = (T::Acc::ZERO, T::Acc::ZERO);
        if p.log_probs == 0 {
            max = reduce(p.n_classes, T::Acc::NEG_INFINITY, x, |a, b| a.max(b));
            ln_sum = warp_rows::sum(p.n_classes, |c| (x(c) - max).exp()).ln();
        }
        let target = target_of::<T>(p, target_at);
        let term = |c: i64| {
            let a = coefficient::<T>(p, &target, target_at, c);
            term(a, x(c), max, ln_sum)
        };
        let loss = match target.kind {
            // 0, or NaN.
            Kind::Nothing | Kind::Illegal => target.weight,
            Kind::Class if p.smoothing == 0.0 => term(target.class),
            Kind::Class | Kind::Probabilities => warp_rows::sum(p.n_classes, term),
        };
        if thread::lane_id() == 0 {
            give_loss::<T>(p, row, loss_at, loss, target.weight);
            if p.lse.address != 0 {
                *(p.lse.address as *mut T::Acc).offset(lse_at as isize) = max + ln_sum;
            }
        }
    });
}

/// dx.
pub unsafe fn backward<T: Element>(p: &CrossEntropyParams) {
    for_each_row(p, |_, [x_at, target_at, loss_at, lse_at, dx_at]| {
        let target = target_of::<T>(p, target_at);
        let counts = target.kind == Kind::Class || target.kind == Kind::Probabilities;
        let (mut sum, mut lse) = (T::Acc::ZERO, T::Acc::ZERO);
        if counts && p.log_probs == 0 {
            sum = warp_rows::sum(p.n_classes, |c| coefficient::<T>(p, &target, target_at, c));
            lse = *(p.lse.address as *const T::Acc).offset(lse_at as isize);
        }
        let g = row_gradient::<T>(p, loss_at);
        for_each_lane(p.n_classes, |c| {
            let result = if counts {
                let mut share = T::Acc::ZERO;
                if p.log_probs == 0 {
                    share = (load::<T>(p.x.address, x_at + c * p.x_class_stride) - lse).exp() * sum;
                }
                g * (share - coefficient::<T>(p, &target, target_at, c))
            } else {
                // 0, or NaN.
                target.weight
            };
            blend::<T>(p.dx.address, dx_at + c * p.dx_class_stride, result, p.alpha, p.beta);
        });
    });
}

/// Calls `body` with each row that is this warp's, and its offsets in x, target, loss, lse and dx.
#[inline(always)]
unsafe fn for_each_row(p: &CrossEntropyParams, mut body: impl FnMut(i64, [i64; 5])) {
    warp_rows::for_each_row(p.n_rows, |row| {
        body(row, offsets([&p.x, &p.target, &p.loss, &p.lse, &p.dx], row));
    });
}

/// Adds losses and weights up in a fixed order, in f64: a block of 1024 threads, `sums` having room for two numbers each.
pub unsafe fn sum<T: Element>(p: &CrossEntropySumParams, sums: *mut f64) {
    let threads = thread::block_dim_x() as usize;
    let me = thread::thread_idx_x() as usize;
    let (mut loss, mut weight) = (0.0, 0.0);
    let mut i = me as i64;
    while i < p.n_partials {
        let pair = (p.partials as *const f64).offset((2 * i) as isize);
        loss += *pair;
        weight += *pair.add(1);
        i += threads as i64;
    }
    *sums.add(me) = loss;
    *sums.add(threads + me) = weight;
    thread::sync_threads();
    let mut half = threads / 2;
    while half > 0 {
        if me < half {
            *sums.add(me) += *sums.add(me + half);
            *sums.add(threads + me) += *sums.add(threads + me + half);
        }
        thread::sync_threads();
        half /= 2;
    }
    if me == 0 {
        finish_sum::<T>(p, *sums, *sums.add(threads));
    }
}

/// What becomes of the sums of all losses and weights: the loss and, where it is wanted, the total.
#[inline(always)]
pub(super) unsafe fn finish_sum<T: Element>(p: &CrossEntropySumParams, loss: f64, weight: f64) {
    let mean = if p.reduction == LossReduction::Mean as u32 { loss / weight } else { loss };
    blend_either::<T>(p.loss_dtype, p.loss, 0, T::Acc::from_f64(mean), p.alpha, p.beta);
    if p.total != 0 {
        *(p.total as *mut T::Acc) = T::Acc::from_f64(weight);
    }
}

/// What a class with a coefficient adds to the loss: a (ln Σ eˣ - x).
#[inline(always)]
pub(super) fn term<A: Accumulator>(a: A, x: A, max: A, ln_sum: A) -> A {
    let apart = max - x;
    // What no coefficient asks for does not count, be it infinite.
    if a == A::ZERO {
        a
    } else if apart.abs() == -A::NEG_INFINITY {
        // Numbers that are far apart have products that may not be.
        a * max - a * x
    } else {
        a * (apart + ln_sum)
    }
}
