//! Sums of any length on the CPU: lanes within blocks, blocks in pairs.
//!
//! Term `i` of a block goes to lane `i % LANES`, lanes are added in pairs, and so are blocks. The order depends on the
//! length alone: any number of threads gives the same bits. Terms are added in f64, also where they are f32: their sum
//! then needs no second path for overflow. Of f64 terms, an element meets about `BLOCK / LANES + log₂ n` additions.

use crate::tensor::{Element, Real};
use std::marker::PhantomData;
use std::ops::Range;

/// Sums that advance side by side.
const LANES: usize = 16;
/// Terms of a block.
const BLOCK: usize = 4096;
/// Blocks from which on halves are separate tasks.
const TASK_BLOCKS: usize = 16;

/// `block` of each block of `n` terms, combined in pairs by `join`. Halves of long folds are separate tasks.
pub(crate) fn over_blocks<R: Send>(
    n: usize,
    block: &(impl Fn(Range<usize>) -> R + Sync),
    join: &(impl Fn(R, R) -> R + Sync),
) -> R {
    fn pairs<R: Send>(
        range: Range<usize>,
        block: &(impl Fn(Range<usize>) -> R + Sync),
        join: &(impl Fn(R, R) -> R + Sync),
    ) -> R {
        let blocks = range.len().div_ceil(BLOCK);
        if blocks <= 1 {
            return block(range);
        }
        let middle = range.start + blocks.div_ceil(2) * BLOCK;
        let (low, high) = (range.start..middle, middle..range.end);
        let (low, high) = if blocks < TASK_BLOCKS {
            (pairs(low, block, join), pairs(high, block, join))
        } else {
            rayon::join(|| pairs(low, block, join), || pairs(high, block, join))
        };
        join(low, high)
    }
    pairs(0..n, block, join)
}

/// Calls `body` with the runs of `run` elements that `range` meets: the run's number, and the places within it.
pub(crate) fn for_each_run(range: Range<usize>, run: usize, mut body: impl FnMut(usize, Range<usize>)) {
    let mut at = range.start;
    while at < range.end {
        let (i, first) = (at / run, at % run);
        let end = run.min(first + (range.end - at));
        body(i, first..end);
        at += end - first;
    }
}

/// A fold of the terms of one block, by one operation.
pub(crate) struct Lanes<F> {
    lanes: [f64; LANES],
    terms: usize,
    join: F,
}

impl<F: Fn(f64, f64) -> f64> Lanes<F> {
    /// Begins with `start`, which changes no term.
    pub(crate) fn new(start: f64, join: F) -> Self {
        Lanes { lanes: [start; LANES], terms: 0, join }
    }

    /// The next term.
    #[inline]
    pub(crate) fn push(&mut self, term: f64) {
        let lane = &mut self.lanes[self.terms % LANES];
        *lane = (self.join)(*lane, term);
        self.terms += 1;
    }

    /// The next terms, of neighbours in memory.
    #[inline]
    pub(crate) fn push_slice<A: Copy>(&mut self, values: &[A], term: impl Fn(A) -> f64) {
        let (head, rest) = values.split_at(values.len().min(self.terms.next_multiple_of(LANES) - self.terms));
        head.iter().for_each(|&value| self.push(term(value)));
        let whole = rest.chunks_exact(LANES);
        let tail = whole.remainder();
        for chunk in whole {
            for (lane, &value) in self.lanes.iter_mut().zip(chunk) {
                *lane = (self.join)(*lane, term(value));
            }
        }
        tail.iter().for_each(|&value| self.push(term(value)));
        // A multiple of the lanes that went past `push` does not change whose turn it is.
    }

    /// All lanes, combined in pairs.
    pub(crate) fn finish(mut self) -> f64 {
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                self.lanes[i] = (self.join)(self.lanes[i], self.lanes[i + half]);
            }
            half /= 2;
        }
        self.lanes[0]
    }
}

/// A sum whose terms come one after the other: blocks of lanes, and what rounding took from the blocks' sum apart.
pub(crate) struct Stream {
    lanes: [f64; LANES],
    terms: usize,
    sum: f64,
    lost: f64,
}

impl Stream {
    /// No terms.
    pub(crate) fn new() -> Self {
        Stream { lanes: [0.0; LANES], terms: 0, sum: 0.0, lost: 0.0 }
    }

    /// The next term.
    #[inline]
    pub(crate) fn push(&mut self, term: f64) {
        self.lanes[self.terms % LANES] += term;
        self.terms += 1;
        if self.terms == BLOCK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let block = Lanes { lanes: self.lanes, terms: 0, join: |a: f64, b: f64| a + b }.finish();
        add(&mut self.sum, &mut self.lost, block);
        (self.lanes, self.terms) = ([0.0; LANES], 0);
    }

    /// The sum.
    pub(crate) fn finish(mut self) -> f64 {
        self.flush();
        whole(self.sum, self.lost)
    }
}

/// Adds a term to a sum; what rounding takes from it goes to `lost`.
#[inline]
fn add(sum: &mut f64, lost: &mut f64, term: f64) {
    let next = *sum + term;
    *lost += if sum.abs() >= term.abs() { (*sum - next) + term } else { (term - next) + *sum };
    *sum = next;
}

/// A sum with what rounding took from it.
#[inline]
fn whole(sum: f64, lost: f64) -> f64 {
    // An infinity leaves NaN among what was lost.
    if sum.is_finite() { sum + lost } else { sum }
}

/// Sums whose terms come in any order, each by the number of its sum.
pub(crate) trait Scattered<A> {
    /// Sums of nothing.
    fn new(n: usize) -> Self;
    /// The next term of a sum.
    fn add(&mut self, at: usize, term: A);
    /// Stores the sums.
    fn finish(self, to: &mut [A]);
}

/// Of real numbers, with what rounding took from each.
pub(crate) struct Reals<A> {
    sums: Vec<(f64, f64)>,
    stored: PhantomData<A>,
}

impl<A: Real> Scattered<A> for Reals<A> {
    fn new(n: usize) -> Self {
        Reals { sums: vec![(0.0, 0.0); n], stored: PhantomData }
    }

    #[inline]
    fn add(&mut self, at: usize, term: A) {
        let (sum, lost) = &mut self.sums[at];
        add(sum, lost, Element::to_f64(term));
    }

    fn finish(self, to: &mut [A]) {
        to.iter_mut().zip(self.sums).for_each(|(to, (sum, lost))| *to = A::real(whole(sum, lost)));
    }
}

/// Of integers, wrapping.
pub(crate) struct Integers(Vec<i64>);

impl Scattered<i64> for Integers {
    fn new(n: usize) -> Self {
        Integers(vec![0; n])
    }

    #[inline]
    fn add(&mut self, at: usize, term: i64) {
        self.0[at] = self.0[at].wrapping_add(term);
    }

    fn finish(self, to: &mut [i64]) {
        to.copy_from_slice(&self.0);
    }
}

/// Rows of sums whose terms come a row at a time: of many, blocks in the row itself, and the blocks' sums in f64.
pub(crate) struct RowSums<'a, A> {
    row: &'a mut [A],
    terms: usize,
    blocks: Vec<f64>,
}

impl<'a, A: Real> RowSums<'a, A> {
    /// Of nothing.
    pub(crate) fn new(row: &'a mut [A]) -> Self {
        row.fill(A::zero());
        RowSums { row, terms: 0, blocks: Vec::new() }
    }

    /// The row, to which a term of each sum is added.
    #[inline]
    pub(crate) fn next(&mut self) -> &mut [A] {
        if self.terms == BLOCK {
            self.blocks.resize(self.row.len(), 0.0);
            for (whole, sum) in self.blocks.iter_mut().zip(&mut *self.row) {
                *whole += Element::to_f64(std::mem::replace(sum, A::zero()));
            }
            self.terms = 0;
        }
        self.terms += 1;
        self.row
    }

    /// Leaves the sums in the row.
    pub(crate) fn finish(self) {
        for (sum, whole) in self.row.iter_mut().zip(self.blocks) {
            *sum = A::real(whole + Element::to_f64(*sum));
        }
    }
}

/// The sum of an iterator's terms.
pub(crate) fn sum(terms: impl IntoIterator<Item = f64>) -> f64 {
    let mut stream = Stream::new();
    terms.into_iter().for_each(|term| stream.push(term));
    stream.finish()
}

/// 2ᵏ for k = ⌊log₂ x⌋, of a finite x above 0; no smaller than the smallest normal number.
pub(crate) fn power_of_two_below(x: f64) -> f64 {
    f64::from_bits((x.to_bits() >> 52).clamp(1, 2046) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(x: &[f32]) -> f64 {
        over_blocks(
            x.len(),
            &|range| {
                let mut lanes = Lanes::new(0.0, |a, b| a + b);
                for_each_run(range, 7, |i, within| {
                    lanes.push_slice(&x[i * 7..][within], f64::from);
                });
                lanes.finish()
            },
            &|a, b| a + b,
        )
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        for n in [0, 1, 15, 16, 17, 4095, 4096, 4097, 300_001] {
            let x: Vec<f32> = (0..n).map(|i| 0.1 + (i % 977) as f32).collect();
            let exact: f64 = x.iter().map(|&x| f64::from(x)).sum();
            let of = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| blocks(&x)).to_bits()
            };
            assert_eq!((of(1), of(1)), (of(2), of(3)), "{n} terms");
            assert!((blocks(&x) - exact).abs() <= exact * 1e-12);
            assert!((sum(x.iter().map(|&x| f64::from(x))) - exact).abs() <= exact * 1e-12);
        }
    }

    #[test]
    fn lanes_do_not_depend_on_the_runs() {
        let x: Vec<f64> = (0..4096).map(|i| 0.1 * f64::from(i)).collect();
        let of = |run: usize| {
            let mut lanes = Lanes::new(0.0, |a, b| a + b);
            for_each_run(0..4096, run, |i, within| lanes.push_slice(&x[i * run..][within], |x| x));
            lanes.finish().to_bits()
        };
        assert_eq!((of(4096), of(4096)), (of(3), of(100)));
    }

    #[test]
    fn rows_and_scattered_sums_lose_nothing() {
        const N: usize = 3 * BLOCK + 5;
        let (mut row, mut scattered) = ([0f32; 2], [0f32; 2]);
        let (mut rows, mut sums) = (RowSums::new(&mut row), Reals::new(2));
        for _ in 0..N {
            rows.next().iter_mut().for_each(|sum| *sum += 4001.0);
            (0..2).for_each(|at| sums.add(at, 4001f32));
        }
        rows.finish();
        sums.finish(&mut scattered);
        let exact = (N as f64 * 4001.0) as f32;
        assert_eq!((row, scattered), ([exact; 2], [exact; 2]));
    }

    #[test]
    fn infinities_stay_and_powers_are_exact() {
        assert_eq!(sum([1.0, f64::INFINITY]), f64::INFINITY);
        assert!(sum([f64::NEG_INFINITY, f64::INFINITY]).is_nan());
        assert_eq!(power_of_two_below(3.0), 2.0);
        assert_eq!(power_of_two_below(f64::MAX), 2f64.powi(1023));
        assert_eq!(power_of_two_below(5e-324), f64::MIN_POSITIVE);
    }
}
