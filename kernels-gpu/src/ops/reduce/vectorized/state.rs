//! What is known of the elements that were seen.

use super::{ReducePartsParams, put, put_part};
use crate::math::element::Accumulator;
use crate::math::reduction::{Part, Scale, is_scaled, join, start, term, wanted};
use crate::math::rows::Vector;
use crate::math::vector::for_each;
use core::marker::PhantomData;
use kernel_abi::ops::reduce::ReducePass;

/// The state of a thread, a warp or a block.
pub(super) trait State<A: Accumulator>: Copy {
    /// Whether another scale than 1 may be wanted.
    const IS_SCALED: bool;
    /// Whether long rows are split into parts; of others, a thread may have any number of terms.
    const IS_SPLIT: bool;
    /// Of nothing.
    fn new() -> Self;
    /// What stands for elements that there are not: it changes nothing.
    fn neutral() -> A;
    /// With elements, times a factor where one may be wanted.
    fn take<const V: usize>(&mut self, elements: [A; V], factor: A);
    /// With what another one has seen.
    fn with(self, other: Self) -> Self;
    fn shuffle_xor(self, lane: u32) -> Self;
    /// The scale that is wanted, by the result with scale 1.
    fn wanted(self) -> Scale;
    /// Stores the result of elements times a factor.
    unsafe fn put(self, p: &ReducePartsParams, output: i64, factor: A);
}

/// Two by two, so that no result waits for the one before.
#[inline(always)]
pub(super) fn tree<A: Accumulator, const V: usize, const OP: u32>(mut terms: [A; V]) -> A {
    let mut half = V / 2;
    while half > 0 {
        for_each!(I < V, {
            if I < half {
                // SAFETY: below V.
                unsafe {
                    *terms.get_unchecked_mut(I) = join(OP, *terms.get_unchecked(I), *terms.get_unchecked(I + half))
                };
            }
        });
        half /= 2;
    }
    terms[0]
}

/// What an element times a factor counts as; the factor is 1 where no other is ever wanted.
#[inline(always)]
pub(super) fn term_of<A: Accumulator, const OP: u32>(element: A, factor: A) -> A {
    term(OP, if is_scaled(OP) { element * factor } else { element })
}

#[inline(always)]
pub(super) fn terms<A: Accumulator, const V: usize, const OP: u32>(elements: [A; V], factor: A) -> [A; V] {
    let mut terms = elements;
    for_each!(I < V, {
        terms[I] = term_of::<A, OP>(elements[I], factor);
    });
    terms
}

/// Sums, products, the smallest and the largest.
#[derive(Clone, Copy)]
pub(super) struct Folded<A, const OP: u32>(A);

impl<A: Accumulator, const OP: u32> State<A> for Folded<A, OP> {
    const IS_SCALED: bool = is_scaled(OP);
    const IS_SPLIT: bool = true;

    #[inline(always)]
    fn new() -> Self {
        Folded(start(OP))
    }

    #[inline(always)]
    fn neutral() -> A {
        start(OP)
    }

    #[inline(always)]
    fn take<const V: usize>(&mut self, elements: [A; V], factor: A) {
        self.0 = join(OP, self.0, tree::<A, V, OP>(terms::<A, V, OP>(elements, factor)));
    }

    #[inline(always)]
    fn with(self, other: Self) -> Self {
        Folded(join(OP, self.0, other.0))
    }

    #[inline(always)]
    fn shuffle_xor(self, lane: u32) -> Self {
        Folded(self.0.shuffle_xor(lane))
    }

    #[inline(always)]
    fn wanted(self) -> Scale {
        wanted(OP, self.0)
    }

    #[inline(always)]
    unsafe fn put(self, p: &ReducePartsParams, output: i64, factor: A) {
        put_part(p, output, Part { whole: self.0, factor });
    }
}

/// A maximum, and Σ e^(x - max).
#[derive(Clone, Copy)]
pub(super) struct Exponentials<T> {
    max: f32,
    sum: f32,
    element: PhantomData<T>,
}

/// What is subtracted: of infinities, the difference would be no number.
#[inline(always)]
fn shift(max: f32) -> f32 {
    if max.abs() == f32::INFINITY { 0.0 } else { max }
}

const MAX: u32 = ReducePass::Max as u32;

impl<T: Vector> State<f32> for Exponentials<T> {
    const IS_SCALED: bool = false;
    const IS_SPLIT: bool = false;

    #[inline(always)]
    fn new() -> Self {
        Exponentials { max: f32::NEG_INFINITY, sum: 0.0, element: PhantomData }
    }

    #[inline(always)]
    fn neutral() -> f32 {
        f32::NEG_INFINITY
    }

    #[inline(always)]
    fn take<const V: usize>(&mut self, elements: [f32; V], _: f32) {
        let max = join(MAX, self.max, tree::<f32, V, MAX>(elements));
        let shift = shift(max);
        let mut powers = elements;
        for_each!(I < V, {
            powers[I] = T::exp(elements[I] - shift);
        });
        self.sum = self.sum * T::exp(self.max - shift) + tree::<f32, V, { ReducePass::Add as u32 }>(powers);
        self.max = max;
    }

    #[inline(always)]
    fn with(self, other: Self) -> Self {
        let max = join(MAX, self.max, other.max);
        let shift = shift(max);
        let sum = self.sum * T::exp(self.max - shift) + other.sum * T::exp(other.max - shift);
        Exponentials { max, sum, ..self }
    }

    #[inline(always)]
    fn shuffle_xor(self, lane: u32) -> Self {
        Exponentials { max: self.max.shuffle_xor(lane), sum: self.sum.shuffle_xor(lane), ..self }
    }

    #[inline(always)]
    fn wanted(self) -> Scale {
        Scale::One
    }

    #[inline(always)]
    unsafe fn put(self, p: &ReducePartsParams, output: i64, _: f32) {
        // An infinite maximum is the result, whatever became of the sum beside it.
        let is_infinite = self.max.abs() == f32::INFINITY;
        put(p, output, if is_infinite { self.max } else { Accumulator::ln(self.sum) + self.max });
    }
}
