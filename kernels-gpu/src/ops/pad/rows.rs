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
        let line = p.lines.get_unchecked(LEVEL);
        let (quotient, i) = line.y.div_rem(rest);
        rest = quotient;
        let source = line.source(p.mode, i as i32);
        there &= source >= 0;
        x = x.wrapping_add((i64::from(source) * *p.x_strides.get_unchecked(LEVEL)) as u64);
        y = y.wrapping_add((i64::from(i) * *p.y_strides.get_unchecked(LEVEL)) as u64);
    });
    // Pieces lie at multiples of 16 bytes: the first lacks what is before the row.
    let width = p.row.y.divisor as i32;
    let first = piece as i32 * ELEMS as i32 - (y & 15) as i32 / BYTES as i32;
    let from = first - p.row.before;
    let within = first >= 0 && first + ELEMS as i32 <= width;
    let copied = there && from >= 0 && from + ELEMS as i32 <= p.row.x;
    let at = x.wrapping_add((i64::from(from) * BYTES as i64) as u64);
    let whole = within && copied && at & 15 == 0;
    let mut words = chunks::load::<16>(at, whole);
    if !whole {
        words = [p.value as u32, (p.value >> 32) as u32, p.value as u32, (p.value >> 32) as u32];
        let mut elements = [[0u32; 4]; ELEMS];
        let mut given = [false; ELEMS];
        vector::for_each!(I < ELEMS, {
            let i = first + I as i32;
            let source = if copied { from + I as i32 } else { p.row.source(p.mode, i) };
            let exists = there && source >= 0 && i >= 0 && i < width;
            *given.get_unchecked_mut(I) = exists;
            *elements.get_unchecked_mut(I) =
                chunks::load::<BYTES>(x.wrapping_add((i64::from(source) * BYTES as i64) as u64), exists);
        });
        vector::for_each!(I < ELEMS, {
            if *given.get_unchecked(I) {
                chunks::put::<BYTES>(&mut words, I, elements.get_unchecked(I));
            }
        });
    }
    let to = y.wrapping_add((i64::from(first) * BYTES as i64) as u64);
    chunks::store::<16>(to, words, within);
    if !within {
        vector::for_each!(I < ELEMS, {
            let i = first + I as i32;
            let to = to.wrapping_add((I * BYTES) as u64);
            chunks::store::<BYTES>(to, chunks::get::<BYTES>(&words, I), i >= 0 && i < width);
        });
    }
}
