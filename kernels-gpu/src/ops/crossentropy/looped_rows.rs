//! `G` threads go along a row of contiguous classes, `K` pieces of 16 bytes each at a time, as often as it takes. Forward,
//! maximum and sum are found in one reading; where all classes have a share in the loss, the row is read once more.
//!
//! Grid: blocks along x take rows in turns; backward, parts of a row along y, each of so many pieces. Block: as many rows as
//! fit its threads, or one row. Shared memory: two slots a warp, and a pair a row where losses are added up; a grid of one
//! block finishes the sum itself, others leave a pair a block.

use super::naive::{Kind, Target, class_weight, finish_sum, leave_pair, row_gradient, smoothed, target_of, term};
use crate::math::index::offsets;
use crate::math::rows::{MAX_LANES, Online, Powers, Row, Vector, ln, map, reduce};
use crate::math::typed::blend_either;
use crate::math::vector;
use core::mem::size_of;
use cuda_std::thread;
use kernel_abi::TensorParam;
use kernel_abi::ops::crossentropy::{CrossEntropyParams, LINES_FROM, LossReduction, target};

/// A row, and where a thread stands in it.
pub(super) struct Place {
    pub(super) lane: u32,
    pub(super) there: bool,
    pub(super) x: Row,
    /// Probabilities, where these are the target.
    probabilities: Row,
    dx: Row,
    pub(super) target: Target<f32>,
    loss_at: i64,
    lse_at: i64,
    x_from: u64,
}

impl Place {
    /// Rows that there are not have no classes, so that their threads stay with their warp.
    #[inline(always)]
    pub(super) unsafe fn new<T: Vector, const G: u32>(p: &CrossEntropyParams, row: i64) -> Self {
        let there = row < p.n_rows;
        let n = if there { p.n_classes as i32 } else { 0 };
        let [x_at, target_at, loss_at, lse_at, dx_at] =
            offsets([&p.x, &p.target, &p.loss, &p.lse, &p.dx], if there { row } else { 0 });
        let address =
            |tensor: &TensorParam, offset: i64| (tensor.address as i64 + offset * size_of::<T>() as i64) as u64;
        let x_from = address(&p.x, x_at);
        // What a warp moves of long rows begins with a line of the cache; short ones would have pieces without elements.
        let skip = if p.n_classes < LINES_FROM { Row::skip_of::<T>(x_from) } else { Row::skip_of_line::<T>(x_from) };
        Place {
            lane: thread::thread_idx_x() % G,
            there,
            x: Row::new::<T>(x_from, n, skip),
            probabilities: Row::new::<T>(address(&p.target, target_at), n, skip),
            dx: Row::new::<T>(address(&p.dx, dx_at), n, skip),
            target: target_of::<T>(p, target_at),
            loss_at,
            lse_at,
            x_from,
        }
    }

    #[inline(always)]
    fn counts(&self) -> bool {
        self.there && (self.target.kind == Kind::Class || self.target.kind == Kind::Probabilities)
    }
}

/// What a class counts in a row's loss.
struct Coefficients<'a> {
    p: &'a CrossEntropyParams,
    target: Target<f32>,
    /// Whether the target's class alone has one.
    single: bool,
}

impl<'a> Coefficients<'a> {
    #[inline(always)]
    fn new(p: &'a CrossEntropyParams, target: Target<f32>) -> Self {
        Coefficients { p, target, single: p.smoothing == 0.0 && p.target_kind != target::PROBABILITIES }
    }

    /// a_c, with the class' probability where the target has one. The class is one of the row's.
    #[inline(always)]
    unsafe fn of<T: Vector>(&self, c: i32, probability: f32) -> f32 {
        let is_target = i64::from(c) == self.target.class;
        let named = if self.target.kind == Kind::Probabilities { probability } else { f32::from(is_target as u8) };
        class_weight::<T>(self.p, i64::from(c)) * smoothed(self.p, named)
    }
}

/// The sum of what `term` says of the row's classes and their probabilities. A piece at a time: more of them would take the
/// registers of those rows too that have a single class. Pieces are added in f64, since a thread may have any number.
#[inline(always)]
unsafe fn sum_terms<T: Vector, const G: u32>(
    p: &CrossEntropyParams,
    place: &Place,
    reads_x: bool,
    slots: *mut f32,
    term: impl Fn(f32, i32, f32) -> f32,
) -> f32 {
    let (mut sum, mut piece, end) = (0.0f64, place.lane, place.x.n_pieces::<T>());
    while piece < end && place.counts() {
        let mut of_piece = 0.0f32;
        let (mut x, mut named) = ([[0u32; 4]; 1], [[0u32; 4]; 1]);
        if reads_x {
            x = place.x.load::<T, 1>(piece, G, 0.0);
        }
        if p.target_kind == target::PROBABILITIES {
            named = place.probabilities.load::<T, 1>(piece, G, 0.0);
        }
        let first = place.x.first::<T>(piece);
        let named = T::unpack(named[0]);
        map::<T>(x[0], |x, i| {
            let c = first + i as i32;
            if c >= 0 && i64::from(c) < p.n_classes {
                of_piece += term(x, c, *named.get_unchecked(i));
            }
            x
        });
        sum += f64::from(of_piece);
        piece += G;
    }
    reduce::<G>(sum as f32, slots, |a, b| a + b)
}

/// Maximum and ln Σ e^(x - max) of a row.
#[derive(Clone, Copy)]
pub(super) struct Logits {
    pub(super) max: f32,
    pub(super) ln_sum: f32,
}

impl Logits {
    /// Where x holds logarithms of probabilities.
    const NORMAL: Self = Logits { max: 0.0, ln_sum: 0.0 };

    #[inline(always)]
    pub(super) fn of(online: Online) -> Self {
        // A row of nothing but -∞ is no number, as the other kernels have it.
        Logits { max: online.max, ln_sum: ln(online.sum) + (online.max - online.max) }
    }

    #[inline(always)]
    fn term(&self, coefficient: f32, x: f32) -> f32 {
        term(coefficient, x, self.max, self.ln_sum)
    }
}

/// The sums of losses and weights of a thread's rows.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    loss: f64,
    weight: f64,
}

impl Sums {
    pub(super) const NONE: Self = Sums { loss: 0.0, weight: 0.0 };

    /// The loss of a row that `logits` belong to, where the target's class alone counts; only in the row's first thread.
    #[inline(always)]
    pub(super) unsafe fn take_class<T: Vector>(&mut self, p: &CrossEntropyParams, place: &Place, logits: Logits) {
        if place.lane != 0 {
            return;
        }
        // 0, or not a number.
        let mut loss = place.target.weight;
        if place.target.kind == Kind::Class {
            let x = *(place.x_from as *const T).offset(place.target.class as isize);
            loss = logits.term(place.target.weight, x.widen());
        }
        self.take::<T>(p, place, logits, loss);
    }

    /// A row's loss: stored, or added.
    #[inline(always)]
    unsafe fn take<T: Vector>(&mut self, p: &CrossEntropyParams, place: &Place, logits: Logits, loss: f32) {
        if place.lane != 0 || !place.there {
            return;
        }
        if p.reduction == LossReduction::None as u32 {
            blend_either::<T>(p.loss_dtype, p.loss.address, place.loss_at, loss, p.alpha, p.beta);
        } else {
            self.loss += f64::from(loss);
            self.weight += f64::from(place.target.weight);
        }
        if p.lse.address != 0 {
            *(p.lse.address as *mut f32).offset(place.lse_at as isize) = logits.max + logits.ln_sum;
        }
    }

    /// Adds the rows of a block up, in their order.
    #[inline(always)]
    pub(super) unsafe fn give<T: Vector, const G: u32>(self, p: &CrossEntropyParams, pairs: *mut f64) {
        if p.reduction == LossReduction::None as u32 {
            return;
        }
        let me = thread::thread_idx_x();
        if me % G == 0 {
            let pair = pairs.add(2 * (me / G) as usize);
            (*pair, *pair.add(1)) = (self.loss, self.weight);
        }
        thread::sync_threads();
        if me != 0 {
            return;
        }
        let (mut loss, mut weight, mut i) = (0.0, 0.0, 0);
        while i < thread::block_dim_x() / G {
            let pair = pairs.add(2 * i as usize);
            loss += *pair;
            weight += *pair.add(1);
            i += 1;
        }
        if thread::grid_dim_x() == 1 {
            finish_sum::<T>(&p.sum(0), loss, weight);
        } else {
            leave_pair(p, i64::from(thread::block_idx_x()), loss, weight);
        }
    }
}

/// Calls `body` with the first of each block of rows that is this block's, in all its threads.
#[inline(always)]
pub(super) unsafe fn for_each_block<const G: u32>(p: &CrossEntropyParams, mut body: impl FnMut(i64)) {
    let rows = i64::from(thread::block_dim_x() / G);
    let mut first = i64::from(thread::block_idx_x()) * rows;
    while first < p.n_rows {
        body(first + i64::from(thread::thread_idx_x() / G));
        if G > 32 {
            // Nobody may begin the next row while slots are still read.
            thread::sync_threads();
        }
        first += i64::from(thread::grid_dim_x()) * rows;
    }
}

/// Loads of a thread whose sums are added one after the other.
const LOADS: u32 = 1024;

/// loss and lse.
#[inline(always)]
pub unsafe fn forward<T: Vector, const G: u32, const K: usize>(
    p: &CrossEntropyParams,
    slots: *mut f32,
    pairs: *mut f64,
) {
    let mut sums = Sums::NONE;
    for_each_block::<G>(p, |row| {
        let place = Place::new::<T, G>(p, row);
        let mut logits = Logits::NORMAL;
        if p.log_probs == 0 {
            let (mut whole, mut piece, end) = (Online::EMPTY, place.lane, place.x.n_pieces::<T>());
            while piece < end {
                let (first, block) = (piece == place.lane, piece + LOADS * K as u32 * G);
                let block_end = if block < end { block } else { end };
                let mut online = Online::EMPTY;
                while piece < block_end {
                    let words = place.x.load::<T, K>(piece, G, f32::NEG_INFINITY);
                    online.push::<T, K>(&words, false);
                    piece += K as u32 * G;
                }
                whole = if first { online } else { whole.with::<T>(online) };
            }
            logits = Logits::of(whole.reduce::<T, G>(slots));
        }
        let coefficients = Coefficients::new(p, place.target);
        if coefficients.single {
            sums.take_class::<T>(p, &place, logits);
            return;
        }
        let loss = sum_terms::<T, G>(p, &place, true, slots, |x, c, t| logits.term(coefficients.of::<T>(c, t), x));
        // 0, or not a number, where the row does not count.
        sums.take::<T>(p, &place, logits, if place.counts() { loss } else { place.target.weight });
    });
    sums.give::<T, G>(p, pairs);
}

/// dx.
#[inline(always)]
pub unsafe fn backward<T: Vector, const G: u32, const K: usize>(p: &CrossEntropyParams, slots: *mut f32, _: *mut f64) {
    let begin = thread::block_idx_y() * p.part_pieces;
    for_each_block::<G>(p, |row| {
        let place = Place::new::<T, G>(p, row);
        let coefficients = Coefficients::new(p, place.target);
        let counts = place.counts();
        // Without weights, what smoothing takes of one class it gives to all.
        let mut sum = place.target.weight;
        let summed = p.target_kind == target::PROBABILITIES || (p.smoothing != 0.0 && p.weight != 0);
        if p.log_probs == 0 && summed {
            sum = sum_terms::<T, G>(p, &place, false, slots, |_, c, t| coefficients.of::<T>(c, t));
        } else if p.smoothing != 0.0 && counts {
            sum = 1.0;
        }
        let (mut lse, mut g) = (0.0, 0.0);
        if counts {
            g = row_gradient::<T>(p, place.loss_at);
            if p.log_probs == 0 {
                lse = *(p.lse.address as *const f32).offset(place.lse_at as isize);
            }
        }
        let plain = p.log_probs == 0 && coefficients.single && counts;
        let powers = Powers::new::<T>(lse);
        let factor = p.alpha as f32 * g * (sum * powers.undo);
        let n_pieces = place.x.n_pieces::<T>();
        let end = if begin + p.part_pieces < n_pieces { begin + p.part_pieces } else { n_pieces };
        let mut piece = begin + place.lane;
        while piece < end {
            let (mut words, mut named) = ([[0u32; 4]; K], [[0u32; 4]; K]);
            if p.log_probs == 0 {
                words = place.x.load::<T, K>(piece, G, 0.0);
            }
            if p.target_kind == target::PROBABILITIES {
                named = place.probabilities.load::<T, K>(piece, G, 0.0);
            }
            let mut k = 0;
            while k < K {
                let at = piece + k as u32 * G;
                let first = place.x.first::<T>(at);
                let words = *words.get_unchecked(k);
                let dx = if plain {
                    // All classes alike, and then the target's: not each class looked at.
                    let of_target = place.target.class as i32 - first;
                    let mut dx = map::<T>(words, |x, _| powers.of::<T>(x) * factor);
                    if of_target >= 0 && of_target < T::LANES as i32 {
                        vector::for_each!(I < MAX_LANES, {
                            let less =
                                if I as i32 == of_target { p.alpha as f32 * g * place.target.weight } else { 0.0 };
                            *dx.get_unchecked_mut(I) -= less;
                        });
                    }
                    dx
                } else {
                    let named = T::unpack(*named.get_unchecked(k));
                    let result = |x: f32, coefficient: f32| {
                        let share = if p.log_probs == 0 { T::exp(x - lse) * sum } else { 0.0 };
                        // 0, or not a number, where the row does not count.
                        p.alpha as f32 * if counts { g * (share - coefficient) } else { place.target.weight }
                    };
                    map::<T>(words, |x, i| {
                        let c = first + i as i32;
                        let there = c >= 0 && i64::from(c) < p.n_classes;
                        result(x, if there { coefficients.of::<T>(c, *named.get_unchecked(i)) } else { 0.0 })
                    })
                };
                if at < end {
                    place.dx.store::<T>(at, dx, 1.0, p.beta as f32);
                }
                k += 1;
            }
            piece += K as u32 * G;
        }
    });
}
