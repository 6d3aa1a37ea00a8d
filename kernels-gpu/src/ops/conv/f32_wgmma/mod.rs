//! f32 convolution on Hopper's 16-bit tensor cores, as exact as scalar f32: see
//! [`kernel_abi::ops::conv::f32_wgmma`] for the parts.
//!
//! Built as `im2col_wgmma`, from which rings, tiles and classes come. The copy engine gathers f32 as it lies. The first
//! operand goes through the consumers' registers, which take it apart on its way; the second comes in parts: three bf16
//! ones of a filter are made by a small kernel before, two f16 ones by a warpgroup of the same block, of what the copy
//! engine loaded or of what it reads itself. Tensor cores cut sums off instead of rounding them: each 32 terms begin
//! anew, small products first, and are added in f32 arithmetic.
//!
//! Results are stored by threads, so they may lie anyhow.

mod cluster;
mod direct;
mod entry;
mod gather;
mod pack;
mod panels;
mod scaled;
mod staged;
mod wgrad;
mod windows;

use crate::ops::conv::im2col_wgmma::Ring;
use cuda_std::{convert, math, mbarrier, warp};
use kernel_abi::ops::conv::f32_wgmma::PARTS_PANEL;
use kernel_abi::ops::conv::im2col_wgmma::ConvTile;

/// The product instructions of one kernel, and how it takes operands apart. A thread holds `R` sums of 64 rows.
trait PartsProduct<const R: usize> {
    const TILE: ConvTile;
    /// Whether B lies with the columns contiguous.
    const B_IS_MN_MAJOR: bool;
    /// A's fragments of a stage, of two steps, taken apart.
    type Fragments;

    /// Takes the eight pairs of a thread's fragments apart: `pairs[step][i]` is register i of a step's fragment, its lower
    /// element first.
    ///
    /// # Safety
    /// All threads of the warp call it.
    unsafe fn take_apart(pairs: [[[u32; 2]; 4]; 2]) -> Self::Fragments;

    /// Queues the products of one stage: of the parts of A's fragments, and B's parts behind each other from the
    /// descriptor on. Overwrites `d`.
    ///
    /// # Safety
    /// All threads of the warpgroup call it with a descriptor of tiles that are there; neither `d` nor `a` is touched
    /// until [`finish`].
    ///
    /// [`finish`]: PartsProduct::finish
    unsafe fn multiply(d: &mut [f32; R], a: &Self::Fragments, b: u64);

    /// Waits for all queued products.
    ///
    /// # Safety
    /// All threads of the warpgroup call it.
    unsafe fn finish(d: &mut [f32; R], a: &mut Self::Fragments);

    /// Adds a stage's sums to the whole, rounding to nearest; what is to be known of B's columns lies at `factors`, this
    /// consumer's from `first_column` on.
    ///
    /// # Safety
    /// All threads of the warp call it, and it is there.
    unsafe fn add(sums: &mut [f32; R], d: &[f32; R], a: &Self::Fragments, factors: u32, first_column: u32);
}

/// Registers of a thread of each role where there is a warpgroup more: together what a multiprocessor has.
const LOADER_REGISTERS: u32 = 48;
const CONVERTER_REGISTERS: u32 = 112;
const CONSUMER_REGISTERS: u32 = 176;

/// Whether consumers that hold so many sums a thread take the next fragments apart while products are computed: others
/// have no registers left for them.
const fn takes_apart_ahead(sums: usize) -> bool {
    sums < 64
}

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

    /// Where what undoes its columns' scales lies, then that of their groups.
    #[inline(always)]
    fn factors(self, ring: &Ring) -> u32 {
        ring.base + ring.tile.factors_at() + self.index * ring.tile.factor_bytes()
    }
}

/// Signals that this thread has read a buffer of parts, and what belongs to it. Every thread does so for itself, since it
/// has read scales.
///
/// # Safety
/// All threads of a consumer call it.
#[inline(always)]
unsafe fn give_back(ring: &Ring, buffer: Buffer) {
    mbarrier::arrive(ring.parts_empty(buffer.index));
}

/// What the bits of numbers that are not finite have all of.
const EXPONENT: u32 = 0x7f80_0000;

/// The first parts of two f32: cut off, so that they cannot become infinite.
#[inline(always)]
fn first_parts(low: u32, high: u32) -> u32 {
    math::permute_bytes(low, high, 0x7632)
}

/// Two f32 as three pairs of bf16 numbers whose sums they are, where both are finite, of which the first are known: the
/// others are nearest to what is left.
#[inline(always)]
fn apart(low: u32, high: u32, first: u32) -> [u32; 3] {
    let rest = |x: u32| f32::from_bits(x) - f32::from_bits(x & 0xffff_0000);
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
        let [first, second, third] = apart(x, 0, first_parts(x, 0));
        [first & 0xffff, second & 0xffff, third & 0xffff]
    };
    let (low, high) = (one(low), one(high));
    [low[0] | high[0] << 16, low[1] | high[1] << 16, low[2] | high[2] << 16]
}

/// Adds what shows whether there is an infinity or a NaN among first parts: nothing, or NaN.
#[inline(always)]
fn probe(sum: u32, first: u32) -> u32 {
    math::fma_bf16x2(first, 0, sum)
}

/// Whether [`probe`] has met one.
#[inline(always)]
fn is_special(sum: u32) -> bool {
    sum & 0x7fff_7fff != 0
}

/// 16 terms of a column: four quads.
type Sixteen = [[u32; 4]; 4];

/// The first halves of all quads, then the others: as the terms stand in a part, see `part_channel`.
#[inline(always)]
fn halves([a, b, c, d]: Sixteen) -> [[u32; 8]; 2] {
    [[a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]], [a[2], a[3], b[2], b[3], c[2], c[3], d[2], d[3]]]
}

/// Bytes of a column of a part: 32 terms.
const COLUMN_BYTES: u32 = PARTS_PANEL * 2;

/// Where in a part, whose columns lie with the sum contiguous, 16 terms of a column begin, as they lie swizzled; the other
/// half of them lies where the address differs by 16.
#[inline(always)]
fn place_of_sixteen(column: u32, sixteen: u32) -> u32 {
    column * COLUMN_BYTES + ((2 * sixteen) ^ (column / 2 % 4)) * 16
}

/// Takes the eight pairs of a thread's fragments apart: `pairs[step][i]` is register i of a step's fragment, its lower
/// element first. Gives the steps of the first parts, of the second, of the third.
///
/// # Safety
/// All threads of the warp call it.
#[inline(always)]
unsafe fn fragments(pairs: [[[u32; 2]; 4]; 2]) -> [[u32; 4]; 6] {
    let [[p0, p1, p2, p3], [p4, p5, p6, p7]] = pairs;
    let first = |[low, high]: [u32; 2]| first_parts(low, high);
    let (f0, f1, f2, f3) = (first(p0), first(p1), first(p2), first(p3));
    let (f4, f5, f6, f7) = (first(p4), first(p5), first(p6), first(p7));
    let (even, odd) = (probe(probe(0, f0), f2), probe(probe(0, f1), f3));
    let (even, odd) = (probe(probe(even, f4), f6), probe(probe(odd, f5), f7));
    macro_rules! each {
        ($of:expr) => {{
            let of = $of;
            let (e0, e1, e2, e3) = (of(p0, f0), of(p1, f1), of(p2, f2), of(p3, f3));
            let (e4, e5, e6, e7) = (of(p4, f4), of(p5, f5), of(p6, f6), of(p7, f7));
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
    if warp::any(is_special(even) || is_special(odd)) {
        each!(|[low, high]: [u32; 2], _| apart_any(low, high))
    } else {
        each!(|[low, high]: [u32; 2], first| apart(low, high, first))
    }
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
