//! Two f16 parts of f32 elements that share a scale, a power of two: rows of the first operand, of a stage's 32 terms
//! each, and 16 neighbouring columns of the second. See [`kernel_abi::ops::conv::f32_wgmma`] for what this loses.
//!
//! Where a group's columns differ too much for one scale, or anything is infinite, NaN, or so large or small that the
//! product of two scales might leave f32, each column has its own, and both are multiplied one after the other.

use super::EXPONENT;
use crate::math::vector;
use cuda_std::{convert, math, shared, thread, warp};
use kernel_abi::ops::conv::f32_wgmma::{GROUP, TOP};

/// A power of two.
#[derive(Clone, Copy)]
struct Scale(f32);

impl Scale {
    /// The one that brings the largest finite magnitude of a block to [`TOP`].
    #[inline(always)]
    fn of(largest: f32) -> Self {
        let field = 2 * 127 + TOP - (largest.to_bits() >> 23);
        Scale(f32::from_bits((if field < 253 { field } else { 253 }) << 23))
    }

    /// What undoes it.
    #[inline(always)]
    fn down(self) -> f32 {
        f32::from_bits((254 << 23) - self.0.to_bits())
    }
}

/// Whether products of two such blocks' scales are far from the ends of f32: zero, or 2⁻⁴⁸ to 2⁶⁴.
#[inline(always)]
fn is_moderate(largest: f32) -> bool {
    const LEAST: u32 = (127 - 48) << 23;
    const MOST: u32 = (127 + 64) << 23;
    let bits = largest.to_bits();
    bits.wrapping_sub(1) >= LEAST - 1 && bits < MOST
}

/// Whether a column's largest magnitude would lose bits under the scale of its group's.
#[inline(always)]
fn is_lone(column: f32, group: u32) -> bool {
    column.to_bits().wrapping_sub(1) < group.saturating_sub(TOP << 23).saturating_sub(1)
}

/// The larger magnitude; NaN if one is.
#[inline(always)]
pub(super) fn larger(a: f32, b: f32) -> f32 {
    math::max_nan_f32(a, b)
}

#[inline(always)]
fn magnitude(x: u32) -> f32 {
    f32::from_bits(x).abs()
}

/// The same of finite numbers, and 0 of others.
#[inline(always)]
fn finite_magnitude(x: u32) -> f32 {
    let bits = x & !(1 << 31);
    f32::from_bits(if bits < EXPONENT { bits } else { 0 })
}

#[inline(always)]
fn largest_of_eight(eight: &[u32; 8], magnitude: impl Fn(u32) -> f32) -> f32 {
    let [a, b, c, d, e, f, g, h] = eight.map(magnitude);
    larger(larger(larger(a, b), larger(c, d)), larger(larger(e, f), larger(g, h)))
}

/// Two f32 as two pairs of f16: the nearest, and the nearest to what is left.
#[inline(always)]
fn apart(low: u32, high: u32, up: [f32; 2]) -> [u32; 2] {
    let (low, high) = (f32::from_bits(low) * up[0], f32::from_bits(high) * up[1]);
    let first = convert::f16x2_from_f32(low, high);
    let [first_low, first_high] = convert::f32_from_f16x2(first);
    [first, convert::f16x2_from_f32(low - first_low, high - first_high)]
}

/// The same of any numbers. An infinity is its sign and itself: each product of it with a part meets its factor's first
/// part, and never one that is zero or has the other sign.
#[inline(always)]
fn apart_any(low: u32, high: u32, up: [f32; 2]) -> [u32; 2] {
    let one = #[inline(always)]
    |x: u32, up: f32| -> [u32; 2] {
        let sign = x >> 31 << 15;
        if x & !(1 << 31) == EXPONENT {
            return [sign | 0x3c00, sign | 0x7c00];
        }
        let [first, second] = apart(x, 0, [up; 2]);
        // What vanishes beside the block's largest is kept as the least there is: an infinity may meet it.
        let vanishes = first & 0x7fff == 0 && x & !(1 << 31) != 0;
        [if vanishes { sign | 1 } else { first & 0xffff }, second & 0xffff]
    };
    let (low, high) = (one(low, up[0]), one(high, up[1]));
    [low[0] | high[0] << 16, low[1] | high[1] << 16]
}

/// A thread's fragments of two rows.
pub(super) struct Scaled {
    /// Two steps of the first parts, then of the second.
    pub(super) parts: [[u32; 4]; 4],
    /// What undoes the rows' scales.
    down: [f32; 2],
    /// Whether they are not to be multiplied by columns' beforehand.
    extreme: bool,
}

/// Takes the eight pairs of a thread's fragments apart: `pairs[step][i]` is register i of a step's fragment, its lower
/// element first, of which the even ones are of one row, the odd ones of another.
///
/// # Safety
/// All threads of the warp call it.
#[inline(always)]
pub(super) unsafe fn fragments(pairs: [[[u32; 2]; 4]; 2]) -> Scaled {
    let [[p0, p1, p2, p3], [p4, p5, p6, p7]] = pairs;
    // Four neighbouring threads have the same rows.
    let over_quad = |x: f32| {
        let x = larger(x, warp::shuffle_xor_f32(x, 1));
        larger(x, warp::shuffle_xor_f32(x, 2))
    };
    let largest = #[inline(always)]
    |a: [u32; 2], b: [u32; 2], c: [u32; 2], d: [u32; 2], magnitude: fn(u32) -> f32| {
        let eight = [a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]];
        over_quad(largest_of_eight(&eight, magnitude))
    };
    let (upper, lower) = (largest(p0, p2, p4, p6, magnitude), largest(p1, p3, p5, p7, magnitude));
    macro_rules! each {
        ($of:expr, $upper:expr, $lower:expr, $extreme:expr) => {{
            let of = $of;
            let (u, l) = ($upper, $lower);
            let (e0, e1, e2, e3) = (of(p0, u.0), of(p1, l.0), of(p2, u.0), of(p3, l.0));
            let (e4, e5, e6, e7) = (of(p4, u.0), of(p5, l.0), of(p6, u.0), of(p7, l.0));
            Scaled {
                parts: [
                    [e0[0], e1[0], e2[0], e3[0]],
                    [e4[0], e5[0], e6[0], e7[0]],
                    [e0[1], e1[1], e2[1], e3[1]],
                    [e4[1], e5[1], e6[1], e7[1]],
                ],
                down: [u.down(), l.down()],
                extreme: $extreme,
            }
        }};
    }
    // The warp stays together.
    if warp::any(!is_moderate(upper) || !is_moderate(lower)) {
        let upper = Scale::of(largest(p0, p2, p4, p6, finite_magnitude));
        let lower = Scale::of(largest(p1, p3, p5, p7, finite_magnitude));
        each!(|[low, high]: [u32; 2], up: f32| apart_any(low, high, [up; 2]), upper, lower, true)
    } else {
        each!(|[low, high]: [u32; 2], up: f32| apart(low, high, [up; 2]), Scale::of(upper), Scale::of(lower), false)
    }
}

/// Writes the parts of eight neighbours each to shared memory, `part_bytes` from each other: `take` is given which eight
/// and which two of them.
///
/// # Safety
/// The addresses are those of room for 16 bytes, and multiples of 16.
#[inline(always)]
unsafe fn store<const N: usize>(
    eights: &[[u32; 8]; N],
    to: &[u32; N],
    part_bytes: u32,
    take: impl Fn(usize, usize, u32, u32) -> [u32; 2],
) {
    vector::for_each!(I < N, {
        let [a, b, c, d, e, f, g, h] = *eights.get_unchecked(I);
        let (p0, p1, p2, p3) = (take(I, 0, a, b), take(I, 1, c, d), take(I, 2, e, f), take(I, 3, g, h));
        let to = *to.get_unchecked(I);
        shared::store_x4(to, [p0[0], p1[0], p2[0], p3[0]]);
        shared::store_x4(to + part_bytes, [p0[1], p1[1], p2[1], p3[1]]);
    });
}

/// What undoes the scales of a thread's columns, and of its warp's groups: infinite where each column has its own.
pub(super) struct Stored<const C: usize> {
    pub(super) columns: [f32; C],
    pub(super) group: f32,
}

/// Takes terms of a column each apart and writes their parts. `share` gives each column's largest of all threads that
/// have terms of it, of those given.
///
/// # Safety
/// As [`store`]; all threads of a warp call it, which has all terms of its columns.
#[inline(always)]
pub(super) unsafe fn store_columns<const N: usize>(
    eights: &[[u32; 8]; N],
    to: &[u32; N],
    part_bytes: u32,
    share: impl Fn([f32; N]) -> [f32; N],
) -> Stored<N> {
    let mut own = [0.0; N];
    vector::for_each!(I < N, {
        *own.get_unchecked_mut(I) = largest_of_eight(eights.get_unchecked(I), magnitude);
    });
    let own = share(own);
    let mut most = 0.0;
    vector::for_each!(I < N, { most = larger(most, *own.get_unchecked(I)) });
    let group = warp::max_u32(most.to_bits());
    let mut lone = !is_moderate(f32::from_bits(group));
    vector::for_each!(I < N, { lone |= is_lone(*own.get_unchecked(I), group) });
    // The warp stays together.
    if warp::any(lone) {
        let mut own = [0.0; N];
        vector::for_each!(I < N, {
            *own.get_unchecked_mut(I) = largest_of_eight(eights.get_unchecked(I), finite_magnitude);
        });
        let scales = share(own).map(Scale::of);
        store(
            eights,
            to,
            part_bytes,
            #[inline(always)]
            |i, _, low, high| {
                // SAFETY: there is a scale for each eight.
                apart_any(low, high, [unsafe { scales.get_unchecked(i) }.0; 2])
            },
        );
        Stored { columns: scales.map(Scale::down), group: f32::INFINITY }
    } else {
        let scale = Scale::of(f32::from_bits(group));
        store(
            eights,
            to,
            part_bytes,
            #[inline(always)]
            |_, _, low, high| apart(low, high, [scale.0; 2]),
        );
        Stored { columns: [scale.down(); N], group: scale.down() }
    }
}

/// Takes eight columns apart, of some terms each, and writes their parts. `share` gives a column's largest of all threads
/// that have terms of it.
///
/// # Safety
/// As [`store_columns`].
#[inline(always)]
pub(super) unsafe fn store_rows<const N: usize>(
    rows: &[[u32; 8]; N],
    to: &[u32; N],
    part_bytes: u32,
    share: impl Fn(f32) -> f32,
) -> Stored<8> {
    let largest = #[inline(always)]
    |magnitude: fn(u32) -> f32| {
        let mut most = [0.0f32; 8];
        vector::for_each!(I < N, {
            let [a, b, c, d, e, f, g, h] = rows.get_unchecked(I).map(magnitude);
            let [ma, mb, mc, md, me, mf, mg, mh] = most;
            most = [
                larger(ma, a),
                larger(mb, b),
                larger(mc, c),
                larger(md, d),
                larger(me, e),
                larger(mf, f),
                larger(mg, g),
                larger(mh, h),
            ];
        });
        most
    };
    let own = largest(magnitude);
    let group = warp::max_u32(largest_of_eight(&own.map(f32::to_bits), f32::from_bits).to_bits());
    // Those of a thread alone may be few, which is seldom.
    let lone = own.map(|column| is_lone(column, group));
    let [a, b, c, d, e, f, g, h] = lone;
    let lone = a | b | c | d | e | f | g | h;
    // The warp stays together.
    if warp::any(lone || !is_moderate(f32::from_bits(group))) {
        let scales = largest(finite_magnitude).map(|own| Scale::of(share(own)));
        store(
            rows,
            to,
            part_bytes,
            #[inline(always)]
            |_, pair, low, high| {
                // SAFETY: there are four pairs.
                let up = unsafe { [scales.get_unchecked(2 * pair).0, scales.get_unchecked(2 * pair + 1).0] };
                apart_any(low, high, up)
            },
        );
        Stored { columns: scales.map(Scale::down), group: f32::INFINITY }
    } else {
        let scale = Scale::of(f32::from_bits(group));
        store(
            rows,
            to,
            part_bytes,
            #[inline(always)]
            |_, _, low, high| apart(low, high, [scale.0; 2]),
        );
        Stored { columns: [scale.down(); 8], group: scale.down() }
    }
}

/// Adds a stage's sums to the whole, rounding to nearest, with the scales undone: those of columns lie at `columns`, those
/// of groups at `groups`, from this thread's first ones on.
///
/// # Safety
/// They are there.
#[inline(always)]
pub(super) unsafe fn add<const R: usize>(sums: &mut [f32; R], d: &[f32; R], a: &Scaled, columns: u32, groups: u32) {
    let [g0, g1, g2, g3] = shared::load_x4(groups).map(f32::from_bits);
    let [g4, g5, g6, g7] = if R > 32 { shared::load_x4(groups + 16).map(f32::from_bits) } else { [0.0; 4] };
    let group = [g0, g1, g2, g3, g4, g5, g6, g7];
    let n_groups = R / (GROUP as usize / 2);
    let mut most = g0;
    let mut i = 1;
    while i < n_groups {
        most = larger(most, *group.get_unchecked(i));
        i += 1;
    }
    let [upper, lower] = a.down;
    if a.extreme || most == f32::INFINITY {
        let at = columns + thread::thread_idx_x() % 4 * 8;
        let mut i = 0;
        while i < R / 4 {
            let [even, odd] = shared::load_x2(at + i as u32 * 32).map(f32::from_bits);
            let mut one = |j: usize, column: f32, row: f32| {
                // The smaller first: the other way round what is finite in the end may not be so in between.
                let (first, second) = if column < row { (column, row) } else { (row, column) };
                // SAFETY: there are four sums for each pair of columns.
                unsafe { *sums.get_unchecked_mut(4 * i + j) += *d.get_unchecked(4 * i + j) * first * second };
            };
            one(0, even, upper);
            one(1, odd, upper);
            one(2, even, lower);
            one(3, odd, lower);
            i += 1;
        }
        return;
    }
    let mut i = 0;
    while i < n_groups {
        let group = *group.get_unchecked(i);
        let factors = [upper * group, lower * group];
        let mut j = 0;
        while j < 8 {
            let sum = sums.get_unchecked_mut(8 * i + j);
            *sum = math::fma_f32(*d.get_unchecked(8 * i + j), *factors.get_unchecked(j / 2 % 2), *sum);
            j += 1;
        }
        i += 1;
    }
}
