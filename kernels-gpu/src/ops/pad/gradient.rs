//! dx from dy in rows that are contiguous in both tensors, 16 bytes of dx a piece. A piece that y has once, and at a multiple
//! of 16 bytes, is moved; a thread has several of these under way. Of others, the elements that y has once, in their place,
//! are one window of a row of dy; the copies of the others are enumerated, as are those of rows, so that nothing is searched
//! for. Copies are added in the order of dy.
//!
//! Grid: exact, one-dimensional. Block: 256 threads.

use super::packed::least;
use crate::math::element::{Accumulator, Element};
use crate::math::{chunks, vector};
use cuda_std::guarded;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use kernel_abi::ops::pad::{PIECES_AT_ONCE, PIECES_THREADS as THREADS, PadGradientParams, ROW_LEVELS};

const AT_ONCE: usize = PIECES_AT_ONCE as usize;

/// Runs a body for each row of dy that is a copy of the row of dx at these places, in the order of dy: with the element that
/// it begins with. Two places where a closure is called would leave it out of line.
macro_rules! for_each_copied_row {
    ($lines:expr, $mode:expr, $strides:expr, $place:expr, |$row:ident| $body:block) => {{
        let (lines, mode, [s0, s1, s2], [p0, p1, p2]) = ($lines, $mode, $strides, $place);
        let mut i2 = lines[2].first_copy(mode, p2);
        while i2 < lines[2].y.divisor as i32 {
            let mut i1 = lines[1].first_copy(mode, p1);
            while i1 < lines[1].y.divisor as i32 {
                let mut i0 = lines[0].first_copy(mode, p0);
                while i0 < lines[0].y.divisor as i32 {
                    let $row = i0 * s0 + i1 * s1 + i2 * s2;
                    $body
                    i0 = lines[0].next_copy(mode, p0, i0);
                }
                i1 = lines[1].next_copy(mode, p1, i1);
            }
            i2 = lines[2].next_copy(mode, p2, i2);
        }
    }};
}
pub(super) use for_each_copied_row;

/// dx from dy, `V` elements a piece.
pub unsafe fn gather<T: Element, const V: usize>(p: &PadGradientParams) {
    let plain = p.alpha == 1.0 && p.beta == 0.0;
    let mut words = [[0u32; 4]; AT_ONCE];
    let mut to = [0u64; AT_ONCE];
    let (mut moved, mut others) = (0u32, 0u32);
    let first = block_idx_x() * p.at_once;
    vector::for_each!(I < AT_ONCE, {
        let number = (first + I as u32) * THREADS + thread_idx_x();
        let exists = (I as u32) < p.at_once && number < p.n_pieces;
        let Piece { dx, first, place } = Piece::new::<T, V>(p, number);
        let (mut row, mut single) = (0, first >= p.row.single && first + V as i32 <= p.row.single + p.row.n_single);
        vector::for_each!(LEVEL < ROW_LEVELS, {
            let (line, at) = (p.lines.get_unchecked(LEVEL), *place.get_unchecked(LEVEL));
            single &= line.is_single(at);
            row += (at + line.before) * *p.dy_strides.get_unchecked(LEVEL);
        });
        let from = p.dy.wrapping_add((i64::from(row + first + p.row.before) * size_of::<T>() as i64) as u64);
        let alone = exists && plain && single && from & 15 == 0;
        moved |= u32::from(alone) << I;
        others |= u32::from(exists && !alone) << I;
        *words.get_unchecked_mut(I) = guarded::load_x4(from, u32::from(alone));
        *to.get_unchecked_mut(I) = dx.wrapping_add((i64::from(first) * size_of::<T>() as i64) as u64);
    });
    vector::for_each!(I < AT_ONCE, {
        guarded::store_x4(*to.get_unchecked(I), *words.get_unchecked(I), moved & 1 << I);
    });
    while others != 0 {
        let number = (first + others.trailing_zeros()) * THREADS + thread_idx_x();
        others &= others - 1;
        sum_up::<T, V>(p, Piece::new::<T, V>(p, number));
    }
}

/// 16 bytes of dx: the address of its row, the element of it that they begin with, and the row's places along the dimensions
/// around.
struct Piece {
    dx: u64,
    first: i32,
    place: [i32; ROW_LEVELS],
}

impl Piece {
    #[inline(always)]
    unsafe fn new<T: Element, const V: usize>(p: &PadGradientParams, number: u32) -> Self {
        let (mut rest, piece) = p.pieces.div_rem(number);
        let mut dx = p.dx;
        let mut place = [0; ROW_LEVELS];
        vector::for_each!(LEVEL < ROW_LEVELS, {
            let (quotient, at) = p.extents.get_unchecked(LEVEL).div_rem(rest);
            rest = quotient;
            dx = dx.wrapping_add((i64::from(at) * *p.dx_strides.get_unchecked(LEVEL)) as u64);
            *place.get_unchecked_mut(LEVEL) = at as i32;
        });
        // Pieces lie at multiples of 16 bytes: the first lacks what is before the row.
        Piece { dx, first: piece as i32 * V as i32 - (dx & 15) as i32 / size_of::<T>() as i32, place }
    }
}

/// A piece whose elements have any number of copies, or that is scaled, or lies at the end of a row.
#[inline(always)]
unsafe fn sum_up<T: Element, const V: usize>(p: &PadGradientParams, Piece { dx, first, place }: Piece) {
    let (begin, end) = (if first < 0 { -first } else { 0 }, least(p.row.x - first, V as i32));
    if begin >= end {
        return;
    }
    let mut sums = [T::Acc::ZERO; V];
    for_each_copied_row!(&p.lines, p.mode, p.dy_strides, place, |row| {
        add_row::<T, V>(p, row, first, begin, end, &mut sums);
    });
    let to = dx.wrapping_add((i64::from(first) * size_of::<T>() as i64) as u64);
    let (alpha, beta) = (T::Acc::from_f64(p.alpha), T::Acc::from_f64(p.beta));
    let within = begin == 0 && end == V as i32;
    let mut prior = [T::Acc::ZERO; V];
    if p.beta != 0.0 {
        let words = if within { chunks::load::<16>(to, true) } else { [0; 4] };
        prior = vector::of_run::<T, V>(&words, to, first, p.row.x, within, T::Acc::ZERO);
    }
    let mut results = [T::narrow(T::Acc::ZERO); V];
    vector::for_each!(I < V, {
        let value = alpha * *sums.get_unchecked(I);
        *results.get_unchecked_mut(I) = T::narrow(beta.mul_add(*prior.get_unchecked(I), value));
    });
    if within {
        vector::write::<T, V>(to, results);
    } else {
        vector::for_each!(I < V, {
            if I as i32 >= begin && (I as i32) < end {
                *(to as *mut T).add(I) = *results.get_unchecked(I);
            }
        });
    }
}

/// Adds the row of dy that begins with element `row` to the elements `begin` to `end` of the piece that begins with element `first` of dx.
#[inline(always)]
unsafe fn add_row<T: Element, const V: usize>(
    p: &PadGradientParams,
    row: i32,
    first: i32,
    begin: i32,
    end: i32,
    sums: &mut [T::Acc; V],
) {
    let element = |i: i32| p.dy.wrapping_add((i64::from(row + i) * size_of::<T>() as i64) as u64);
    let (low, high) = (p.row.single - first, p.row.single + p.row.n_single - first);
    let single = chunks::bits(if low > begin { low } else { begin }, least(high, end));
    let at = element(first + p.row.before);
    let whole = single != 0 && chunks::window_lies_in(at, p.dy, p.dy.wrapping_add(p.dy_bytes));
    let values = vector::widened::<T, V>(&chunks::load_window(at, whole));
    vector::for_each!(I < V, {
        if whole && single >> I & 1 != 0 {
            *sums.get_unchecked_mut(I) = *sums.get_unchecked(I) + *values.get_unchecked(I);
        }
    });
    let mut others = chunks::bits(begin, end) & !if whole { single } else { 0 };
    while others != 0 {
        let lane = others.trailing_zeros();
        others &= others - 1;
        let at = first + lane as i32;
        let mut sum = T::Acc::ZERO;
        let mut i = p.row.first_copy(p.mode, at);
        while i < p.row.y.divisor as i32 {
            sum = sum + (*(element(i) as *const T)).widen();
            i = p.row.next_copy(p.mode, at, i);
        }
        vector::for_each!(I < V, {
            if I as u32 == lane {
                *sums.get_unchecked_mut(I) = *sums.get_unchecked(I) + sum;
            }
        });
    }
}
