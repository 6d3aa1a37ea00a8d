//! dx without gaps from dy, by the tiles of `packed`: rows and elements that y has once are moved as they are, the copies of
//! others are added in the order of dy, and rounded once.

use super::gradient::for_each_copied_row;
use super::packed::{Piece, Rule, SEVERAL, address, cut, is_inside, load_around, load_singly, write};
use crate::math::element::{Accumulator, Element};
use crate::math::{chunks, vector};
use core::marker::PhantomData;
use kernel_abi::ops::pad::{PadPackedParams, ROW_LEVELS};

struct Sum<T, const BYTES: usize, const ELEMS: usize>(PhantomData<T>);

impl<T: Element, const BYTES: usize, const ELEMS: usize> Rule for Sum<T, BYTES, ELEMS> {
    const ADDS: bool = true;

    #[inline(always)]
    unsafe fn row(p: &PadPackedParams, row: u32) -> i32 {
        let (mut rest, mut begins, mut single) = (row, 0, true);
        vector::for_each!(LEVEL < ROW_LEVELS, {
            let (quotient, at) = p.extents.get_unchecked(LEVEL).div_rem(rest);
            rest = quotient;
            let line = p.lines.get_unchecked(LEVEL);
            single &= line.is_single(at as i32);
            begins += (at as i32 + line.before) * *p.strides.get_unchecked(LEVEL);
        });
        if single { begins } else { SEVERAL }
    }

    #[inline(always)]
    unsafe fn element(p: &PadPackedParams, row: u32, begins: i32, column: i32) -> [u32; 4] {
        let mut sum = T::Acc::ZERO;
        if begins == SEVERAL {
            for_each_copied_row!(&p.lines, p.mode, p.strides, places(p, row), |begins| {
                sum = add_copies::<T, BYTES>(p, begins, column, sum);
            });
        } else {
            sum = add_copies::<T, BYTES>(p, begins, column, sum);
        }
        let mut words = [0; 4];
        vector::put::<T>(&mut words, 0, &T::narrow(sum));
        words
    }

    #[inline(always)]
    unsafe fn piece(p: &PadPackedParams, row: u32, piece: &Piece) -> [u32; 4] {
        let mut sums = [T::Acc::ZERO; ELEMS];
        for_each_copied_row!(&p.lines, p.mode, p.strides, places(p, row), |row| {
            let from = row + piece.from;
            let at = address::<BYTES>(p, from);
            let words = if is_inside::<ELEMS>(p, from) {
                cut::<BYTES>(load_around::<BYTES>(at, true), at as u32)
            } else {
                load_singly::<BYTES, ELEMS>(at, piece)
            };
            let values = vector::widened::<T, ELEMS>(&words);
            vector::for_each!(I < ELEMS, {
                *sums.get_unchecked_mut(I) = *sums.get_unchecked(I) + *values.get_unchecked(I);
            });
        });
        vector::narrowed::<T, ELEMS>(&sums)
    }
}

/// Where a row of dx is along the dimensions around.
#[inline(always)]
unsafe fn places(p: &PadPackedParams, row: u32) -> [i32; ROW_LEVELS] {
    let (mut rest, mut places) = (row, [0; ROW_LEVELS]);
    vector::for_each!(LEVEL < ROW_LEVELS, {
        let (quotient, at) = p.extents.get_unchecked(LEVEL).div_rem(rest);
        rest = quotient;
        *places.get_unchecked_mut(LEVEL) = at as i32;
    });
    places
}

/// Adds the copies of a column that are in the row of dy that begins with an element.
#[inline(always)]
unsafe fn add_copies<T: Element, const BYTES: usize>(
    p: &PadPackedParams,
    begins: i32,
    column: i32,
    mut sum: T::Acc,
) -> T::Acc {
    let mut i = p.row.first_copy(p.mode, column);
    while i < p.row.y.divisor as i32 {
        let words = chunks::load::<BYTES>(address::<BYTES>(p, begins + i), true);
        sum = sum + vector::element::<T>(&words, 0).widen();
        i = p.row.next_copy(p.mode, column, i);
    }
    sum
}

/// dx from dy, elements of `BYTES`, of which `ELEMS` are a piece.
pub unsafe fn gather<T: Element, const BYTES: usize, const ELEMS: usize>(p: &PadPackedParams) {
    write::<Sum<T, BYTES, ELEMS>, BYTES, ELEMS>(p)
}
