//! f32 convolution on Hopper's bf16 tensor cores, as exact as scalar f32: see
//! [`kernel_abi::ops::conv::bf16x3_wgmma`] for the parts.
//!
//! Built as `im2col_wgmma`, from which rings, tiles and classes come. The copy engine gathers f32 as it lies. The first
//! operand goes through the consumers' registers, which take it apart on its way; the second comes in parts: those of a
//! filter are made by a small kernel before, or by a warpgroup of the same block that reads the filter as it lies, those
//! of `wgrad`'s images by a warpgroup that reads what the copy engine gathered. Tensor cores cut sums off instead of rounding them: each 32 terms begin anew, small products first, and are added in f32 arithmetic.
//!
//! Results are stored by threads, so they may lie anyhow.

mod cluster;
mod direct;
mod entry;
mod gather;
mod pack;
mod wgrad;
mod windows;

use crate::ops::conv::im2col_wgmma::Ring;
use cuda_std::{convert, shared, warp};
use kernel_abi::ops::conv::bf16x3_wgmma::PARTS_PANEL;
use kernel_abi::ops::conv::im2col_wgmma::ConvTile;

/// The product instructions of one kernel. A thread holds `R` sums of 64 rows.
trait PartsProduct<const R: usize> {
    const TILE: ConvTile;
    /// Whether B lies with the columns contiguous.
    const B_IS_MN_MAJOR: bool;

    /// Queues the products of one stage: of the parts of A's fragments, two steps each, and B's parts behind each other
    /// from the descriptor on. Overwrites `d`.
    ///
    /// # Safety
    /// All threads of the warpgroup call it with a descriptor of tiles that are there; neither `d` nor `a` is touched
    /// until [`finish`].
    ///
    /// [`finish`]: PartsProduct::finish
    unsafe fn multiply(d: &mut [f32; R], a: &[[u32; 4]; 6], b: u64);

    /// Waits for all queued products.
    ///
    /// # Safety
    /// All threads of the warpgroup call it.
    unsafe fn finish(d: &mut [f32; R], a: &mut [[u32; 4]; 6]);
}

/// Registers of a thread of each role where there is a warpgroup more: together what a multiprocessor has.
const LOADER_REGISTERS: u32 = 48;
const CONVERTER_REGISTERS: u32 = 80;
const CONSUMER_REGISTERS: u32 = 192;

/// Which buffer of parts one role stands at.
#[derive(Clone, Copy)]
struct Buffer {
    index: u32,
    parity: u32,
}

impl Buffer {
    const FIRST: Buffer = Buffer { index: 0, parity: 0 };

    #[inline(always)]
    fn advance(&mut self, tile: ConvTile) {
        self.index += 1;
        if self.index == tile.converted {
            self.index = 0;
            self.parity ^= 1;
        }
    }

    /// Its address.
    #[inline(always)]
    fn at(self, ring: &Ring) -> u32 {
        ring.base + ring.tile.converted_at() + self.index * ring.tile.converted_bytes()
    }
}

/// What the bits of numbers that are not finite have all of.
const EXPONENT: u32 = 0x7f80_0000;

/// Two f32 as three pairs of bf16 numbers whose sums they are, where both are finite: the first cut off, so that it
/// cannot become infinite, the others nearest to what is left.
#[inline(always)]
fn apart(low: u32, high: u32) -> [u32; 3] {
    let top = 0xffff_0000;
    let first = low >> 16 | high & top;
    let rest = |x: u32| f32::from_bits(x) - f32::from_bits(x & top);
    let (low, high) = (rest(low), rest(high));
    let second = convert::bf16x2_from_f32(low, high);
    let [second_low, second_high] = convert::f32_from_bf16x2(second);
    [first, second, convert::bf16x2_from_f32(low - second_low, high - second_high)]
}

/// The same of any numbers. An infinity is its sign, nothing, and itself: each product of it with a part meets one that
/// is its factor's sign or first part, and never one that is zero or has the other sign.
#[inline(always)]
pub(super) fn apart_any(low: u32, high: u32) -> [u32; 3] {
    let one = |x: u32| -> [u32; 3] {
        if x & !(1 << 31) == EXPONENT {
            return [(x >> 31 << 15) | 0x3f80, 0, x >> 16];
        }
        let [first, second, third] = apart(x, 0);
        [first & 0xffff, second & 0xffff, third & 0xffff]
    };
    let (low, high) = (one(low), one(high));
    [low[0] | high[0] << 16, low[1] | high[1] << 16, low[2] | high[2] << 16]
}

/// Takes eight neighbours apart, and writes their parts to shared memory, `part_bytes` from each other.
///
/// # Safety
/// All threads of the warp call it; the addresses are those of room for 16 bytes, and multiples of 16.
#[inline(always)]
unsafe fn store_eight([a, b, c, d, e, f, g, h]: [u32; 8], to: u32, part_bytes: u32) {
    let special = |x: u32| x & EXPONENT == EXPONENT;
    let any = special(a) | special(b) | special(c) | special(d) | special(e) | special(f) | special(g) | special(h);
    let [p0, p1, p2, p3] = if warp::any(any) {
        [apart_any(a, b), apart_any(c, d), apart_any(e, f), apart_any(g, h)]
    } else {
        [apart(a, b), apart(c, d), apart(e, f), apart(g, h)]
    };
    shared::store_x4(to, [p0[0], p1[0], p2[0], p3[0]]);
    shared::store_x4(to + part_bytes, [p0[1], p1[1], p2[1], p3[1]]);
    shared::store_x4(to + 2 * part_bytes, [p0[2], p1[2], p2[2], p3[2]]);
}

/// 16 terms of a column: four quads.
type Sixteen = [[u32; 4]; 4];

/// Bytes of a column of a part: 32 terms.
const COLUMN_BYTES: u32 = PARTS_PANEL * 2;

/// Where in a part, whose columns lie with the sum contiguous, 16 terms of a column begin, as they lie swizzled.
#[inline(always)]
fn place_of_sixteen(column: u32, sixteen: u32) -> u32 {
    column * COLUMN_BYTES + ((2 * sixteen) ^ (column / 2 % 4)) * 16
}

/// Takes them apart, and writes their parts: the first halves of all quads, then the others.
///
/// # Safety
/// As [`store_eight`].
#[inline(always)]
unsafe fn store_sixteen([a, b, c, d]: Sixteen, to: u32, part_bytes: u32) {
    store_eight([a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]], to, part_bytes);
    store_eight([a[2], a[3], b[2], b[3], c[2], c[3], d[2], d[3]], to ^ 16, part_bytes);
}

/// Takes the eight pairs of a thread's fragments apart: `pairs[step][i]` is register i of a step's fragment, its lower
/// element first. Gives the steps of the first parts, of the second, of the third.
///
/// # Safety
/// All threads of the warp call it.
#[inline(always)]
unsafe fn fragments(pairs: [[[u32; 2]; 4]; 2]) -> [[u32; 4]; 6] {
    let [[p0, p1, p2, p3], [p4, p5, p6, p7]] = pairs;
    // Zero, or NaN when there is an infinity or a NaN among them: fewer instructions than a comparison for each.
    let probe = |sum: f32, pair: [u32; 2]| {
        let sum = cuda_std::math::fma_f32(f32::from_bits(pair[0]), 0.0, sum);
        cuda_std::math::fma_f32(f32::from_bits(pair[1]), 0.0, sum)
    };
    let (even, odd) = (probe(probe(0.0, p0), p2), probe(probe(0.0, p1), p3));
    let (even, odd) = (probe(probe(even, p4), p6), probe(probe(odd, p5), p7));
    let sum = even + odd;
    macro_rules! each {
        ($apart:ident) => {{
            let of = |[low, high]: [u32; 2]| $apart(low, high);
            let (e0, e1, e2, e3) = (of(p0), of(p1), of(p2), of(p3));
            let (e4, e5, e6, e7) = (of(p4), of(p5), of(p6), of(p7));
            [
                [e0[0], e1[0], e2[0], e3[0]],
                [e4[0], e5[0], e6[0], e7[0]],
                [e0[1], e1[1], e2[1], e3[1]],
                [e4[1], e5[1], e6[1], e7[1]],
                [e0[2], e1[2], e2[2], e3[2]],
                [e4[2], e5[2], e6[2], e7[2]],
            ]
        }};
    }
    // The warp stays together.
    if warp::any(sum != 0.0) { each!(apart_any) } else { each!(apart) }
}

/// Adds a stage's sums to the whole, rounding to nearest.
#[inline(always)]
fn add<const R: usize>(sums: &mut [f32; R], d: &[f32; R]) {
    let mut i = 0;
    while i < R {
        // SAFETY: i is below R.
        unsafe { *sums.get_unchecked_mut(i) += *d.get_unchecked(i) };
        i += 1;
    }
}
