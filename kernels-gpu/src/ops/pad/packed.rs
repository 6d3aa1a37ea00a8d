//! y without gaps, whatever its elements mean: a thread writes a piece of 16 bytes at a multiple of 16, in which up to two
//! rows meet. What of each row lies together in x too is one window of x; elements outside are read one by one.
//!
//! Grid: exact, one-dimensional. Block: 256 threads.

use crate::math::{chunks, vector};
use cuda_std::thread::index_1d;
use kernel_abi::ops::pad::{PadMode, PadPackedParams, ROW_LEVELS};

/// y from x, elements of `BYTES`, of which `ELEMS` are a piece.
pub unsafe fn copy<const BYTES: usize, const ELEMS: usize>(p: &PadPackedParams) {
    let thread = index_1d();
    if thread >= u64::from(p.n_pieces) {
        return;
    }
    // The first piece lacks what is before y.
    let first = thread as i32 * ELEMS as i32 - (p.y & 15) as i32 / BYTES as i32;
    let (begin, end) = (if first < 0 { -first } else { 0 }, least(p.n - first, ELEMS as i32));
    let (mut rest, column) = p.row.y.div_rem((first + begin) as u32);
    let column = column as i32 - begin;
    // The element of x that the piece's row begins with, and the same of the next row.
    let (mut rows, mut there) = ([0i32; 2], [true; 2]);
    let mut carry = 1;
    vector::for_each!(LEVEL < ROW_LEVELS, {
        let line = p.lines.get_unchecked(LEVEL);
        let (quotient, i) = line.y.div_rem(rest);
        rest = quotient;
        let next = if i + carry == line.y.divisor { 0 } else { i + carry };
        carry = u32::from(carry == 1 && next == 0);
        let sources = [line.source(p.mode, i as i32), line.source(p.mode, next as i32)];
        vector::for_each!(ROW < TWO, {
            let source = *sources.get_unchecked(ROW);
            *there.get_unchecked_mut(ROW) &= source >= 0;
            *rows.get_unchecked_mut(ROW) += source * *p.x_strides.get_unchecked(LEVEL);
        });
    });
    let width = p.row.y.divisor as i32;
    let next = least(width - column, end);
    let element = |i: i32| p.x.wrapping_add((i64::from(i) * BYTES as i64) as u64);
    let mut words = [p.value as u32, (p.value >> 32) as u32, p.value as u32, (p.value >> 32) as u32];
    // Elements that are read one by one.
    let mut singly = 0;
    vector::for_each!(ROW < TWO, {
        let (begin, end) = if ROW == 0 { (begin, next) } else { (next, end) };
        if begin < end && *there.get_unchecked(ROW) {
            let from = column - p.row.before - if ROW == 0 { 0 } else { width };
            let copied = chunks::bits(most(begin, -from), least(end, p.row.x - from));
            let at = element(*rows.get_unchecked(ROW) + from);
            let whole = copied != 0 && chunks::window_lies_in(at, p.x, p.x.wrapping_add(p.x_bytes));
            chunks::select::<BYTES>(if whole { copied } else { 0 }, &mut words, &chunks::load_window(at, whole));
            let outside = if p.mode == PadMode::Constant as u32 { copied } else { chunks::bits(begin, end) };
            singly |= if whole { outside & !copied } else { outside };
        }
    });
    while singly != 0 {
        let i = singly.trailing_zeros() as i32;
        singly &= singly - 1;
        let (row, at) = if i < next { (rows[0], column + i) } else { (rows[1], column + i - width) };
        let source = p.row.source(p.mode, at);
        chunks::put::<BYTES>(&mut words, i as usize, &chunks::load::<BYTES>(element(row + source), true));
    }
    let to = p.y.wrapping_add((i64::from(first) * BYTES as i64) as u64);
    let within = begin == 0 && end == ELEMS as i32;
    chunks::store::<16>(to, words, within);
    if !within {
        vector::for_each!(I < ELEMS, {
            let exists = I as i32 >= begin && (I as i32) < end;
            chunks::store::<BYTES>(to.wrapping_add((I * BYTES) as u64), chunks::get::<BYTES>(&words, I), exists);
        });
    }
}

const TWO: usize = 2;

#[inline(always)]
fn least(a: i32, b: i32) -> i32 {
    if a < b { a } else { b }
}

#[inline(always)]
fn most(a: i32, b: i32) -> i32 {
    if a > b { a } else { b }
}
