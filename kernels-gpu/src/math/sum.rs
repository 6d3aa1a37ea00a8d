//! Sums of any length: blocks of terms in the type of the terms, the sums of blocks in f64.
//!
//! The sum of f64 blocks keeps what rounding took from it apart. That of integers is exact.

use super::element::{Accumulator, Term};
use core::marker::PhantomData;

/// Terms of a block.
pub const BLOCK: u32 = 1024;

/// The sum of blocks.
#[derive(Clone, Copy)]
pub struct Blocks<T> {
    sum: f64,
    lost: f64,
    term: PhantomData<T>,
}

impl<T: Term> Blocks<T> {
    /// No blocks.
    pub const EMPTY: Self = Blocks { sum: 0.0, lost: 0.0, term: PhantomData };

    /// The next block's sum.
    #[inline(always)]
    pub fn push(&mut self, block: T) {
        let block = block.wide();
        let next = self.sum + block;
        if size_of::<T>() == size_of::<f64>() {
            let sum_is_larger = Accumulator::abs(self.sum) >= Accumulator::abs(block);
            self.lost += if sum_is_larger { (self.sum - next) + block } else { (block - next) + self.sum };
        }
        self.sum = next;
    }

    /// The sum.
    #[inline(always)]
    pub fn finish(self) -> f64 {
        // An infinity leaves NaN among what was lost.
        if self.sum - self.sum == 0.0 { self.sum + self.lost } else { self.sum }
    }
}

/// A sum whose terms come one after the other.
#[derive(Clone, Copy)]
pub struct Sum<T> {
    block: T,
    terms: u32,
    blocks: Blocks<T>,
}

impl<T: Term> Sum<T> {
    /// No terms.
    pub const EMPTY: Self = Sum { block: T::EMPTY, terms: 0, blocks: Blocks::EMPTY };

    /// The product `a · b` as the next term.
    #[inline(always)]
    pub fn push_product(&mut self, a: T, b: T) {
        self.block = a.multiply_add(b, self.block);
        self.count();
    }

    #[inline(always)]
    fn count(&mut self) {
        self.terms += 1;
        if self.terms == BLOCK {
            self.blocks.push(self.block);
            (self.block, self.terms) = (T::EMPTY, 0);
        }
    }

    /// The sum.
    #[inline(always)]
    pub fn finish(mut self) -> f64 {
        self.blocks.push(self.block);
        self.blocks.finish()
    }
}

impl<A: Accumulator + Term> Sum<A> {
    /// The next term.
    #[inline(always)]
    pub fn push(&mut self, term: A) {
        self.block = self.block + term;
        self.count();
    }
}
