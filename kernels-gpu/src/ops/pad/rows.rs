//! Rows that are contiguous in both tensors, whatever their elements mean: y is written in pieces of 16 bytes, wherever rows
//! begin. A piece that lies to 16 bytes in x too, or has nothing of x, is moved as it is, of which a thread has several
//! under way; elements of others are read one by one.
//!
//! Grid: exact, one-dimensional. Block: 256 threads.

use crate::math::{chunks, vector};
use cuda_std::guarded;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use kernel_abi::ops::pad::{PIECES_AT_ONCE, PIECES_THREADS as THREADS, PadMode, PadRowsParams, ROW_LEVELS};

const AT_ONCE: usize = PIECES_AT_ONCE as usize;

/// 16 bytes of y.
struct Piece {
    /// Where the row begins that is read, if there is one.
    x: u64,
    there: bool,
    /// Where the piece is written, and the element of the row that it begins with.
    to: u64,
    first: i32,
}

impl Piece {
    #[inline(always)]
    unsafe fn new<const BYTES: usize, const ELEMS: usize>(p: &PadRowsParams, number: u32) -> Self {
        let (mut rest, piece) = p.accesses.div_rem(number);
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
        let first = piece as i32 * ELEMS as i32 - (y & 15) as i32 / BYTES as i32;
        Piece { x, there, to: y.wrapping_add((i64::from(first) * BYTES as i64) as u64), first }
    }

    /// Whether all of it exists.
    #[inline(always)]
    fn is_within<const ELEMS: usize>(&self, p: &PadRowsParams) -> bool {
        self.first >= 0 && self.first + ELEMS as i32 <= p.row.y.divisor as i32
    }

    /// The element of the row of x in its place, and whether all of it lies there together.
    #[inline(always)]
    fn from<const ELEMS: usize>(&self, p: &PadRowsParams) -> (i32, bool) {
        let from = self.first - p.row.before;
        (from, self.there && from >= 0 && from + ELEMS as i32 <= p.row.x)
    }
}

/// y from x, elements of `BYTES`, of which `ELEMS` are a piece.
pub unsafe fn copy<const BYTES: usize, const ELEMS: usize>(p: &PadRowsParams) {
    let value = [p.value as u32, (p.value >> 32) as u32, p.value as u32, (p.value >> 32) as u32];
    let mut words = [[0u32; 4]; AT_ONCE];
    let mut to = [0u64; AT_ONCE];
    let (mut moved, mut others, mut outside) = (0u32, 0u32, 0u32);
    let first = block_idx_x() * p.at_once;
    vector::for_each!(I < AT_ONCE, {
        let number = (first + I as u32) * THREADS + thread_idx_x();
        let exists = (I as u32) < p.at_once && number < p.n_accesses;
        let piece = Piece::new::<BYTES, ELEMS>(p, number);
        let (from, copied) = piece.from::<ELEMS>(p);
        let nothing =
            p.mode == PadMode::Constant as u32 && (!piece.there || from <= -(ELEMS as i32) || from >= p.row.x);
        let from = piece.x.wrapping_add((i64::from(from) * BYTES as i64) as u64);
        let read = copied && from & 15 == 0;
        let whole = exists && piece.is_within::<ELEMS>(p) && (read || nothing);
        moved |= u32::from(whole) << I;
        others |= u32::from(exists && !whole) << I;
        outside |= u32::from(nothing) << I;
        *words.get_unchecked_mut(I) = guarded::load_x4(from, u32::from(whole && read));
        *to.get_unchecked_mut(I) = piece.to;
    });
    vector::for_each!(I < AT_ONCE, {
        let words = if outside & 1 << I != 0 { value } else { *words.get_unchecked(I) };
        guarded::store_x4(*to.get_unchecked(I), words, moved & 1 << I);
    });
    while others != 0 {
        let number = (first + others.trailing_zeros()) * THREADS + thread_idx_x();
        others &= others - 1;
        copy_singly::<BYTES, ELEMS>(p, Piece::new::<BYTES, ELEMS>(p, number), value);
    }
}

/// The elements of a piece, one by one.
#[inline(always)]
unsafe fn copy_singly<const BYTES: usize, const ELEMS: usize>(p: &PadRowsParams, piece: Piece, value: [u32; 4]) {
    let (from, copied) = piece.from::<ELEMS>(p);
    let mut words = value;
    let mut elements = [[0u32; 4]; ELEMS];
    let mut given = [false; ELEMS];
    let width = p.row.y.divisor as i32;
    vector::for_each!(I < ELEMS, {
        let i = piece.first + I as i32;
        let source = if copied { from + I as i32 } else { p.row.source(p.mode, i) };
        let exists = piece.there && source >= 0 && i >= 0 && i < width;
        *given.get_unchecked_mut(I) = exists;
        *elements.get_unchecked_mut(I) =
            chunks::load::<BYTES>(piece.x.wrapping_add((i64::from(source) * BYTES as i64) as u64), exists);
    });
    vector::for_each!(I < ELEMS, {
        if *given.get_unchecked(I) {
            chunks::put::<BYTES>(&mut words, I, elements.get_unchecked(I));
        }
    });
    let within = piece.is_within::<ELEMS>(p);
    chunks::store::<16>(piece.to, words, within);
    if !within {
        vector::for_each!(I < ELEMS, {
            let i = piece.first + I as i32;
            let to = piece.to.wrapping_add((I * BYTES) as u64);
            chunks::store::<BYTES>(to, chunks::get::<BYTES>(&words, I), i >= 0 && i < width);
        });
    }
}
