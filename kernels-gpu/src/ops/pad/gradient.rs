//! dx from dy in rows that are contiguous in both tensors: a thread gathers a piece of 16 bytes of dx. The elements of it
//! that y has once, in their place, are one window of a row of dy; the copies of the others are enumerated, as are those of
//! rows, so that nothing is searched for. Copies are added in the order of dy.
//!
//! Grid: exact, one-dimensional. Block: 256 threads.

use crate::math::element::{Accumulator, Element};
use crate::math::{chunks, vector};
use cuda_std::thread::index_1d;
use kernel_abi::ops::pad::{PadGradientParams, ROW_LEVELS};

/// dx from dy, `V` elements a piece.
pub unsafe fn gather<T: Element, const V: usize>(p: &PadGradientParams) {
    let thread = index_1d();
    if thread >= u64::from(p.n_pieces) {
        return;
    }
    let (mut rest, piece) = p.pieces.div_rem(thread as u32);
    let mut dx = p.dx;
    let mut place = [0; ROW_LEVELS];
    vector::for_each!(LEVEL < ROW_LEVELS, {
        let (quotient, at) = p.extents.get_unchecked(LEVEL).div_rem(rest);
        rest = quotient;
        dx = dx.wrapping_add((i64::from(at) * *p.dx_strides.get_unchecked(LEVEL)) as u64);
        *place.get_unchecked_mut(LEVEL) = at as i32;
    });
    // Pieces lie at multiples of 16 bytes: the first lacks what is before the row.
    let first = piece as i32 * V as i32 - (dx & 15) as i32 / size_of::<T>() as i32;
    let (begin, end) = (if first < 0 { -first } else { 0 }, least(p.row.x - first, V as i32));
    if begin >= end {
        return;
    }
    let mut sums = [T::Acc::ZERO; V];
    let ends = [p.lines[0].y.divisor as i32, p.lines[1].y.divisor as i32, p.lines[2].y.divisor as i32];
    let mut i2 = p.lines[2].first_copy(p.mode, place[2]);
    while i2 < ends[2] {
        let mut i1 = p.lines[1].first_copy(p.mode, place[1]);
        while i1 < ends[1] {
            let mut i0 = p.lines[0].first_copy(p.mode, place[0]);
            while i0 < ends[0] {
                let [s0, s1, s2] = p.dy_strides;
                add_row::<T, V>(p, i0 * s0 + i1 * s1 + i2 * s2, first, begin, end, &mut sums);
                i0 = p.lines[0].next_copy(p.mode, place[0], i0);
            }
            i1 = p.lines[1].next_copy(p.mode, place[1], i1);
        }
        i2 = p.lines[2].next_copy(p.mode, place[2], i2);
    }
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

#[inline(always)]
fn least(a: i32, b: i32) -> i32 {
    if a < b { a } else { b }
}
