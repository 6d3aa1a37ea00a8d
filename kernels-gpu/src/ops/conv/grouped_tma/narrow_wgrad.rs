//! `wgrad` of 5 × 5 and 7 × 7 taps, groups of up to 8 channels: positions are what is summed over.
//!
//! The rows of a product are 8 channels of x by two taps of a row, its columns the same 8 channels of dy, and both come from
//! shared memory transposed. A warp has 8 channels and two products of positions, keeps the elements of dy of all rows that a
//! row of x meets, and its sums stay in registers over all tiles of its block. In the end the warps of all strips add up
//! through shared memory, in their order, and each block writes its own part.
//!
//! The first of these warps brings the rows too: a warp more would leave the others of its scheduler a fifth less registers.

use super::super::grouped_mma::unroll;
use super::{FilterPart, Loader, Share, Tile, Work, begin, met, swizzled, window};
use crate::math::tensor_core::TensorCore;
use crate::math::vector::for_each;
use cuda_std::barrier::sync_named;
use cuda_std::thread::lane_id;
use cuda_std::tma::MapAddress;
use cuda_std::{ldmatrix, shared};
use kernel_abi::ops::conv::grouped_tma::{ConvGroupedTmaParams, GROUPED_TMA_PRODUCT, GroupedTmaForm};

/// As in [`forward`](super::forward).
const PHASES: usize = 7;
/// The barrier of the warps that compute.
const MEETING: u32 = 1;
/// Products of positions that a warp has.
const PRODUCTS: usize = 2;
/// Rows that the warp which brings more may be ahead of the others.
const AHEAD: u32 = 2;

/// Of each row of the filter, and two of its taps.
type Sums<const ROW_TAPS: usize, const PAIRS: usize> = [[[f32; 4]; PAIRS]; ROW_TAPS];
/// Two taps of a row of x each, and a product's positions.
type Source<const PAIRS: usize> = [[u32; 4]; PAIRS];

/// partials\[slab\] = this block's part of the gradient by w, whose rows have `ROW_TAPS` taps, `PAIRS` pairs, the last with one; a
/// row of x meets up to `HELD` rows of dy.
///
/// # Safety
/// The host passes maps and extents of live tensors, partial sums for all slabs, and launches the threads and the shared
/// memory of the tile.
#[inline(always)]
pub(super) unsafe fn run<
    T: TensorCore,
    const ROW_TAPS: usize,
    const PAIRS: usize,
    const STRIDE: usize,
    const HELD: usize,
>(
    p: &ConvGroupedTmaParams,
    maps: [MapAddress; 2],
) {
    let form = GroupedTmaForm { stride: STRIDE as u32, taps: ROW_TAPS as u32, wgrad: true };
    let Some(Work { share, source: mut ring, .. }) = begin(p, maps, 8, form) else { return };
    let base = ring.at();
    let (strip, part) = (share.warp / share.parts, share.warp % share.parts);
    let first = strip * form.strip();
    // A product's rows are of the first and third matrix, then of the second and fourth; its positions of the first and
    // second, then of the others.
    let (position, second) = (lane_id() / 16 * 8 + lane_id() % 8, lane_id() / 8 % 2);
    let mut windows = [[0; PAIRS]; PRODUCTS];
    unroll!(PRODUCT in [0 1] {
        unroll!(PAIR in [0 1 2 3] {
            if PAIR < PAIRS {
                // The last tap is alone: what is computed beside it is nobody's.
                let s = (2 * PAIR as u32 + second).min(ROW_TAPS as u32 - 1);
                let position = first + PRODUCT as u32 * GROUPED_TMA_PRODUCT + position;
                windows[PRODUCT][PAIR] = window(p, form, position, part, s);
            }
        });
    });
    let target = p.tile.target_at(form) + swizzled(p, first + lane_id(), part);
    let mut loader = Loader::new(p, maps, ring, share);
    let brings = share.warp == 0;
    let mut under_way = AHEAD;
    while brings && under_way < p.tile.stages && loader.is_before_end(p) {
        loader.bring(p, form);
        under_way += 1;
    }
    let mut read = 0;
    let mut sums: Sums<ROW_TAPS, PAIRS> = [[[0.0; 4]; PAIRS]; ROW_TAPS];
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
                    if brings_source || brings_target {
                        let at = ring.take(&mut read);
                        if brings && loader.is_before_end(p) {
                            loader.bring(p, form);
                        }
                        if PHASE % STRIDE == 0 && brings_target {
                            *dy.get_unchecked_mut(PHASE / STRIDE % HELD) = ldmatrix::load_x4_transposed(at + target);
                        }
                        if brings_source {
                            let x = windows.map(
                                #[inline(always)]
                                |windows| load(at, windows),
                            );
                            products::<T, ROW_TAPS, PAIRS, STRIDE, HELD, PHASE>(&mut sums, &x, &dy, &tile, row);
                        }
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
    add_strips(&mut sums, base, share, strip, part, form);
    if strip == 0 {
        write_partials(p, &sums, share.slab, share.first_channel + part * form.channels());
    }
}

/// The taps of a row of x.
///
/// # Safety
/// All threads of the warp call it with an address in a stage that is full.
#[inline(always)]
unsafe fn load<const PAIRS: usize>(at: u32, windows: [u32; PAIRS]) -> Source<PAIRS> {
    windows.map(
        #[inline(always)]
        |window| ldmatrix::load_x4_transposed(at + window),
    )
}

/// Adds the products of the `row`-th row of x with the rows of dy that it meets and the tile has.
///
/// # Safety
/// All threads of the warp call it.
#[inline(always)]
unsafe fn products<
    T: TensorCore,
    const ROW_TAPS: usize,
    const PAIRS: usize,
    const STRIDE: usize,
    const HELD: usize,
    const PHASE: usize,
>(
    sums: &mut Sums<ROW_TAPS, PAIRS>,
    x: &[Source<PAIRS>; PRODUCTS],
    dy: &[[u32; 4]; HELD],
    tile: &Tile,
    row: u32,
) {
    unroll!(R in [0 1 2 3 4 5 6] {
        // Rows before the first are huge numbers.
        if R < ROW_TAPS
            && let Some(slot) = met::<STRIDE, HELD>(PHASE, R)
            && row.wrapping_sub(R as u32) / (STRIDE as u32) < tile.rows
        {
            let dy = dy.get_unchecked(slot);
            // Products that follow each other have other sums.
            unroll!(PRODUCT in [0 1] {
                unroll!(PAIR in [0 1 2 3] {
                    if PAIR < PAIRS {
                        let dy = [dy[2 * PRODUCT], dy[2 * PRODUCT + 1]];
                        T::multiply(&mut sums[R % ROW_TAPS][PAIR], x[PRODUCT][PAIR], dy);
                    }
                });
            });
        }
    });
}

/// Adds the sums of the other strips to those of the first one, in their order, where the ring was at `base`.
///
/// # Safety
/// All warps that compute call it, after their last stage; there is room for the sums.
#[inline(always)]
unsafe fn add_strips<const ROW_TAPS: usize, const PAIRS: usize>(
    sums: &mut Sums<ROW_TAPS, PAIRS>,
    base: u32,
    share: Share,
    strip: u32,
    part: u32,
    form: GroupedTmaForm,
) {
    /// Bytes of a sum of each thread of a warp.
    const LINE: u32 = 4 * 32;
    let strips = share.workers / share.parts;
    if strips == 1 {
        return;
    }
    let place = |strip: u32| base + ((strip - 1) * share.parts + part) * form.sums(8) * LINE + 4 * lane_id();
    sync_named(MEETING, 32 * share.workers);
    if strip > 0 {
        let mut at = place(strip);
        for sum in sums.as_flattened_mut().as_flattened_mut() {
            shared::store_f32(at, *sum);
            at += LINE;
        }
    }
    sync_named(MEETING, 32 * share.workers);
    if strip == 0 {
        let mut other = 1;
        while other < strips {
            let mut at = place(other);
            for sum in sums.as_flattened_mut().as_flattened_mut() {
                *sum += shared::load_f32(at);
                at += LINE;
            }
            other += 1;
        }
    }
}

/// Writes a warp's sums: those whose channels are of one group.
///
/// # Safety
/// As [`run`]; `first` is the warp's first channel.
#[inline(always)]
unsafe fn write_partials<const ROW_TAPS: usize, const PAIRS: usize>(
    p: &ConvGroupedTmaParams,
    sums: &Sums<ROW_TAPS, PAIRS>,
    slab: u32,
    first: u32,
) {
    let from = first + lane_id() / 4;
    unroll!(COLUMN in [0 1] {
        let to = first + lane_id() % 4 * 2 + COLUMN as u32;
        let filter = FilterPart::new(p, slab, (ROW_TAPS * ROW_TAPS) as u32, p.width, [to, from]);
        if filter.is_of_group {
            unroll!(R in [0 1 2 3 4 5 6] {
                unroll!(PAIR in [0 1 2 3] {
                    // A product's lower rows are the second tap's.
                    unroll!(SECOND in [0 1] {
                        if R < ROW_TAPS && 2 * PAIR + SECOND < ROW_TAPS {
                            let sum = sums[R % ROW_TAPS][PAIR % PAIRS][2 * SECOND + COLUMN];
                            filter.write((ROW_TAPS * R + 2 * PAIR + SECOND) as u32, sum);
                        }
                    });
                });
            });
        }
    });
}
