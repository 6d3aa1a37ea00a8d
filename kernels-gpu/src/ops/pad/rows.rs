//! Rows that are contiguous in both tensors, whatever their elements mean: a thread writes a piece of 16 bytes of y,
//! wherever the row begins, and reads as many at once where they lie to 16 bytes too.
//!
//! Grid: exact, one-dimensional. Block: 256 threads.

use crate::math::{chunks, vector};
use cuda_std::thread::index_1d;
use kernel_abi::ops::pad::{PadRowsParams, ROW_LEVELS};

/// y from x, elements of `BYTES`, of which `ELEMS` are a piece.
pub unsafe fn copy<const BYTES: usize, const ELEMS: usize>(p: &PadRowsParams) {
    let thread = index_1d();
    if thread >= u64::from(p.n_accesses) {
        return;
    }
    let (mut rest, piece) = p.accesses.div_rem(thread as u32);
    let (mut x, mut y, mut there) = (p.x, p.y, true);
    vector::for_each!(LEVEL < ROW_LEVELS, {
        let (quotient, i) = p.extents.get_unchecked(LEVEL).div_rem(rest);
        rest = quotient;
        let source = p.axes.get_unchecked(LEVEL).source(p.mode, i64::from(i));
        there &= source >= 0;
        x = x.wrapping_add((source * *p.x_strides.get_unchecked(LEVEL)) as u64);
        y = y.wrapping_add((i64::from(i) * *p.y_strides.get_unchecked(LEVEL)) as u64);
    });
    // Pieces lie at multiples of 16 bytes: the first lacks what is before the row.
    let first = i64::from(piece) * ELEMS as i64 - ((y & 15) / BYTES as u64) as i64;
    let from = first - p.row.before;
    let within = first >= 0 && first + ELEMS as i64 <= p.row.y;
    let copied = there && from >= 0 && from + ELEMS as i64 <= p.row.x;
    let at = x.wrapping_add((from * BYTES as i64) as u64);
    let whole = within && copied && at & 15 == 0;
    let mut words = chunks::load::<16>(at, whole);
    if !whole {
        words = [p.value as u32, (p.value >> 32) as u32, p.value as u32, (p.value >> 32) as u32];
        let mut elements = [[0u32; 4]; ELEMS];
        let mut given = [false; ELEMS];
        vector::for_each!(I < ELEMS, {
            let i = first + I as i64;
            let source = if copied { from + I as i64 } else { p.row.source(p.mode, i) };
            let exists = there && source >= 0 && i >= 0 && i < p.row.y;
            *given.get_unchecked_mut(I) = exists;
            *elements.get_unchecked_mut(I) =
                chunks::load::<BYTES>(x.wrapping_add((source * BYTES as i64) as u64), exists);
        });
        vector::for_each!(I < ELEMS, {
            if *given.get_unchecked(I) {
                put::<BYTES>(&mut words, I, elements.get_unchecked(I));
            }
        });
    }
    let to = y.wrapping_add((first * BYTES as i64) as u64);
    chunks::store::<16>(to, words, within);
    if !within {
        vector::for_each!(I < ELEMS, {
            let i = first + I as i64;
            let to = to.wrapping_add((I * BYTES) as u64);
            chunks::store::<BYTES>(to, get::<BYTES>(&words, I), i >= 0 && i < p.row.y);
        });
    }
}

/// Puts an element into a piece.
#[inline(always)]
unsafe fn put<const BYTES: usize>(words: &mut [u32; 4], i: usize, element: &[u32; 4]) {
    if BYTES == 8 {
        *words.get_unchecked_mut(2 * i) = element[0];
        *words.get_unchecked_mut(2 * i + 1) = element[1];
    } else if BYTES == 4 {
        *words.get_unchecked_mut(i) = element[0];
    } else {
        let (word, shift) = (i * BYTES / 4, 8 * (i * BYTES % 4) as u32);
        let mask = ((1u32 << (8 * BYTES)) - 1) << shift;
        *words.get_unchecked_mut(word) = *words.get_unchecked(word) & !mask | element[0] << shift;
    }
}

/// An element of a piece.
#[inline(always)]
unsafe fn get<const BYTES: usize>(words: &[u32; 4], i: usize) -> [u32; 4] {
    if BYTES == 8 {
        [*words.get_unchecked(2 * i), *words.get_unchecked(2 * i + 1), 0, 0]
    } else {
        [*words.get_unchecked(i * BYTES / 4) >> (8 * (i * BYTES % 4)), 0, 0, 0]
    }
}
