//! `wgrad` of 3 × 3 taps: positions are what is summed over.
//!
//! The rows of a product are 16 channels of x by one tap, or, where groups are at most 8 wide, 8 by two taps of a row, and
//! twice 8 by the third, of which the product with 8 channels of dy needs half. Its
//! columns are 8 channels of dy, and both come from shared memory transposed. A warp keeps the elements of dy of all rows
//! that a row of x meets, and its sums stay in registers over all tiles of its block. In the end the warps of all strips
//! add up through shared memory, in their order, and each block writes its own part.

use super::super::grouped_mma::unroll;
use super::{FilterPart, Share, Tile, Work, begin, met, swizzled, window};
use crate::math::tensor_core::TensorCore;
use crate::math::vector::for_each;
use cuda_std::barrier::sync_named;
use cuda_std::thread::lane_id;
use cuda_std::tma::MapAddress;
use cuda_std::{ldmatrix, shared};
use kernel_abi::ops::conv::grouped_tma::{ConvGroupedTmaParams, GROUPED_TMA_PRODUCT, GroupedTmaForm};

/// Taps of a row of the filter.
const ROW_TAPS: usize = 3;
/// Taps of the filter.
const TAPS: usize = ROW_TAPS * ROW_TAPS;
/// As in [`forward`](super::forward), of so many taps.
const PHASES: usize = 4;
/// The barrier of the warps that compute.
const MEETING: u32 = 1;

/// Two halves of 16 channels of dy, for each of `COLUMNS` taps, or pairs of taps, of each row of the filter.
type Sums<const COLUMNS: usize> = [[[[f32; 4]; 2]; COLUMNS]; ROW_TAPS];

/// partials\[slab\] = this block's part of the gradient by w. `COLUMNS` is 2 for `WIDTH` 8, else 3.
///
/// # Safety
/// The host passes maps and extents of live tensors, partial sums for all slabs, and launches the threads and the shared
/// memory of the tile.
#[inline(always)]
pub(super) unsafe fn run<
    T: TensorCore,
    const WIDTH: u32,
    const COLUMNS: usize,
    const STRIDE: usize,
    const HELD: usize,
>(
    p: &ConvGroupedTmaParams,
    maps: [MapAddress; 2],
) {
    let form = GroupedTmaForm { stride: STRIDE as u32, taps: ROW_TAPS as u32, wgrad: true };
    let Some(Work { share, source: mut ring, .. }) = begin(p, maps, WIDTH, form) else { return };
    let base = ring.at();
    let (strip, part) = (share.warp / share.parts, share.warp % share.parts);
    // Groups of 32 channels need two warps for the channels of x.
    let (to_part, from_part) = if WIDTH == 32 { (part / 2, part / 4 * 2 + part % 2) } else { (part, part) };
    // A product's rows are of the first and third matrix, then of the second and fourth; its positions of the first and
    // second, then of the others.
    let (position, lower) = (lane_id() / 16 * 8 + lane_id() % 8, lane_id() / 8 % 2);
    let first = strip * GROUPED_TMA_PRODUCT;
    let sixteen = |s: u32| window(p, form, first + position, from_part * 2 + lower, s);
    let windows = if WIDTH == 8 {
        // Two taps of eight channels make one product of 16; the third taps of both halves come together.
        let pair = |half: u32| window(p, form, first + position, from_part * 2 + half, lower);
        [pair(0), pair(1), sixteen(2)]
    } else {
        [sixteen(0), sixteen(1), sixteen(2)]
    };
    let row_of_dy = first + lane_id() % GROUPED_TMA_PRODUCT;
    let target = p.tile.target_at(form) + swizzled(p, row_of_dy, to_part * 2 + lane_id() / GROUPED_TMA_PRODUCT);
    let mut read = 0;
    let mut sums: Sums<COLUMNS> = [[[[0.0; 4]; 2]; COLUMNS]; ROW_TAPS];
    let mut index = share.slab;
    while index < p.n_tiles {
        let tile = Tile::new(p, index);
        let (first, end) = (tile.source_row(p, form), tile.source_rows(form));
        let mut dy = [[0u32; 4]; HELD];
        let mut row = 0;
        'rows: loop {
            // Written out, so that elements need not be moved from one row to the next.
            for_each!(PHASE < PHASES, {
                if PHASE < HELD * STRIDE {
                    let (brings_source, brings_target) = tile.brings(p, form, first, row);
                    let at = if brings_source || brings_target { ring.take(&mut read) } else { 0 };
                    if PHASE % STRIDE == 0 {
                        *dy.get_unchecked_mut(PHASE / STRIDE % HELD) =
                            if brings_target { ldmatrix::load_x4_transposed(at + target) } else { [0; 4] };
                    }
                    if brings_source {
                        let mut x = [[0; 4]; ROW_TAPS];
                        unroll!(S in [0 1 2] { x[S] = ldmatrix::load_x4_transposed(at + windows[S]) });
                        products::<T, WIDTH, COLUMNS, STRIDE, HELD, PHASE>(&mut sums, &x, &dy);
                    }
                    row += 1;
                    if row == end {
                        break 'rows;
                    }
                }
            });
        }
        index += p.slabs;
    }
    add_strips::<COLUMNS>(&mut sums, base, share, strip, part);
    if strip == 0 {
        let first = [from_part, to_part].map(
            #[inline(always)]
            |part| share.first_channel + part * form.channels(),
        );
        write_partials::<WIDTH, COLUMNS>(p, &sums, share.slab, first);
    }
}

/// Adds the products of a row of x.
///
/// # Safety
/// All threads of the warp call it.
#[inline(always)]
unsafe fn products<
    T: TensorCore,
    const WIDTH: u32,
    const COLUMNS: usize,
    const STRIDE: usize,
    const HELD: usize,
    const PHASE: usize,
>(
    sums: &mut Sums<COLUMNS>,
    x: &[[u32; 4]; ROW_TAPS],
    dy: &[[u32; 4]; HELD],
) {
    unroll!(COLUMN in [0 1 2] {
        if COLUMN < COLUMNS {
            unroll!(R in [0 1 2] {
                if let Some(slot) = met::<STRIDE, HELD>(PHASE, R) {
                    let dy = dy.get_unchecked(slot);
                    let sums = &mut sums[R][COLUMN % COLUMNS];
                    unroll!(HALF in [0 1] {
                        // Of the third taps of both halves, half of the product's rows count.
                        let shift = if WIDTH > 8 { COLUMN } else { [HALF, 2, 2][COLUMN] };
                        let x = *x.get_unchecked(shift);
                        T::multiply(&mut sums[HALF], x, [dy[2 * HALF], dy[2 * HALF + 1]]);
                    });
                }
            });
        }
    });
}

/// Adds the sums of the other strips to those of the first one, in their order, where the ring was at `base`.
///
/// # Safety
/// All warps that compute call it, after their last stage; there is room for the sums.
#[inline(always)]
unsafe fn add_strips<const COLUMNS: usize>(sums: &mut Sums<COLUMNS>, base: u32, share: Share, strip: u32, part: u32) {
    /// Bytes of a sum of each thread of a warp.
    const LINE: u32 = 4 * 32;
    let strips = share.workers / share.parts;
    if strips == 1 {
        return;
    }
    let warp_bytes = (ROW_TAPS * COLUMNS * 8) as u32 * LINE;
    let place = |strip: u32| base + ((strip - 1) * share.parts + part) * warp_bytes + 4 * lane_id();
    sync_named(MEETING, 32 * share.workers);
    if strip > 0 {
        let mut at = place(strip);
        each(sums, |sum| {
            shared::store_f32(at, *sum);
            at += LINE;
        });
    }
    sync_named(MEETING, 32 * share.workers);
    if strip == 0 {
        let mut other = 1;
        while other < strips {
            let mut at = place(other);
            each(sums, |sum| {
                *sum += shared::load_f32(at);
                at += LINE;
            });
            other += 1;
        }
    }
}

/// Calls a function with each sum.
#[inline(always)]
unsafe fn each<const COLUMNS: usize>(sums: &mut Sums<COLUMNS>, mut of: impl FnMut(&mut f32)) {
    unroll!(R in [0 1 2] {
        unroll!(COLUMN in [0 1 2] {
            if COLUMN < COLUMNS {
                unroll!(HALF in [0 1] {
                    unroll!(I in [0 1 2 3] { of(&mut sums[R][COLUMN % COLUMNS][HALF][I]) });
                });
            }
        });
    });
}

/// Writes a warp's sums: those whose channels are of one group.
///
/// # Safety
/// As [`run`]; `first` are the warp's first channels of x and of dy.
#[inline(always)]
unsafe fn write_partials<const WIDTH: u32, const COLUMNS: usize>(
    p: &ConvGroupedTmaParams,
    sums: &Sums<COLUMNS>,
    slab: u32,
    first: [u32; 2],
) {
    // Widths that fill a product are known when this is compiled.
    let width = if WIDTH == 8 { p.width } else { WIDTH };
    unroll!(HALF in [0 1] {
        unroll!(COLUMN in [0 1] {
            // The channels of a product's upper rows, and of its lower ones.
            let to = first[1] + 8 * HALF as u32 + lane_id() % 4 * 2 + COLUMN as u32;
            let part = |lower: u32| FilterPart::new(p, slab, TAPS as u32, width, [to, first[0] + 8 * lower + lane_id() / 4]);
            // Of groups up to 8 wide, the channels of both halves are those of pairs' rows, upper and lower.
            let parts = if WIDTH == 8 { [part(HALF as u32); 2] } else { [part(0), part(1)] };
            unroll!(LOWER in [0 1] {
                if parts[LOWER].is_of_group {
                    unroll!(R in [0 1 2] {
                        unroll!(S in [0 1 2] {
                            let sums = if WIDTH > 8 {
                                Some(&sums[R][S % COLUMNS][HALF])
                            } else if S == 2 {
                                // Of the third taps of both halves, those of the other half do not count.
                                (LOWER == HALF).then_some(&sums[R][1][HALF])
                            } else {
                                // A pair's lower rows are the second tap's.
                                (LOWER == S).then_some(&sums[R][0][HALF])
                            };
                            if let Some(sums) = sums {
                                parts[LOWER].write((3 * R + S) as u32, sums[2 * LOWER + COLUMN]);
                            }
                        });
                    });
                }
            });
        });
    });
}
