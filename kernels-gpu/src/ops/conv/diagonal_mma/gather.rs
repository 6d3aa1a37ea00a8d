//! `fprop`, and `dgrad` with stride 1, which is `fprop` with the filter turned around: sixteen positions are the rows of
//! a product, eight channels its columns, and the same channels by two taps are summed over: a factor holds the
//! filters of two taps as diagonals. Those stay in registers. A row of the source is multiplied for all rows of the
//! target that it meets, whose sums go on from step to step; a row of results leaves through shared memory.

use super::super::grouped_mma::unroll;
use super::{CHANNELS, CHUNK_BYTES, Margins, Rows, Walk, after, load_source, prepare};
use crate::math::index::div_rem_u32 as div_rem;
use crate::math::tensor_core::TensorCore;
use cuda_std::memory::X4;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::{cp_async, ldmatrix, shared, warp};
use kernel_abi::ops::conv::ConvPass;
use kernel_abi::ops::conv::diagonal_mma::{
    ConvDiagonalParams, DIAGONAL_AHEAD, DIAGONAL_PIXEL_BYTES, DIAGONAL_SLICE, DIAGONAL_UNIT, DIAGONAL_UNIT_ENTRY,
    DiagonalTaps,
};

/// Sums of sixteen positions, for each row of the target that is under way, the latest first, and each pair of units.
type Sums<const HELD: usize, const UNITS: usize> = [[[f32; 4]; UNITS]; HELD];

/// What a lane holds of the filters of a warp's channels: for each row and pair of columns.
type Filters<const R: usize, const PAIRS: usize> = [[[u32; 2]; PAIRS]; R];

/// target = alpha · conv(source, filter) + beta · target. `PAIRS` is half of `R`, rounded up, `HELD` what of `R` meets
/// a row, and `UNITS` how many pairs of units a row may have.
///
/// # Safety
/// The host passes live tensors of the extents in `p`, and the shared memory of `smem_bytes`.
#[inline(always)]
pub(crate) unsafe fn gather<
    T: TensorCore,
    const R: usize,
    const STRIDE: u32,
    const PAIRS: usize,
    const HELD: usize,
    const UNITS: usize,
>(
    p: &ConvDiagonalParams,
) {
    let taps = DiagonalTaps { extent: R as u32, stride: STRIDE };
    let margins = Margins { before: 0, behind: HELD as u32 - 1 };
    let base = shared::dynamic_address();
    // Neighbouring blocks take neighbouring channels of the same pixels.
    let (slab, slice) = div_rem(block_idx_x(), p.slices);
    let first_channel = slice * DIAGONAL_SLICE;
    let channel = first_channel + warp::uniform(thread_idx_x() / 32) * CHANNELS;
    prepare(p, taps, ConvPass::Fprop, base);
    sync_threads();
    let mut ahead = Walk::new(p, margins, slab);
    let mut now = ahead;
    let slots = ConvDiagonalParams::source_slots();
    let (mut to, mut from) = (0, 0);
    let mut queued = 0;
    while queued < DIAGONAL_AHEAD {
        if ahead.there(p) {
            load_source(p, taps, &ahead, base, first_channel, to);
        }
        cp_async::commit_group();
        ahead.advance(p, margins);
        to = after(to, slots);
        queued += 1;
    }
    let filters = load_filters::<R, PAIRS>(p, channel);
    let mut sums: Sums<HELD, UNITS> = [[[0.0; 4]; UNITS]; HELD];
    // The row of results that is on its way out, and whether there is one.
    let (mut leaving, mut leaves) = ([0; 3], false);
    let mut results = base + p.target_at(taps);
    let mut other = results + p.target_row_bytes();
    while now.there(p) {
        cp_async::wait_group::<{ DIAGONAL_AHEAD - 1 }>();
        sync_threads();
        if ahead.there(p) {
            load_source(p, taps, &ahead, base, first_channel, to);
        }
        cp_async::commit_group();
        if leaves {
            store(p, base, leaving, first_channel, other);
        }
        if now.step == now.first {
            sums = [[[0.0; 4]; UNITS]; HELD];
        }
        products::<T, R, STRIDE, PAIRS, HELD, UNITS>(p, &mut sums, &filters, base, now.step, from);
        // The step's last row of the target has all its sums.
        let row = now.step.wrapping_sub(HELD as u32 - 1);
        leaves = now.step >= now.first + HELD as u32 - 1;
        leaving = [now.image, row, now.column];
        if leaves && channel < p.channels {
            round::<T, UNITS>(p, &sums[HELD - 1], leaving, channel, results);
        }
        unroll!(BACK in [6 5 4 3 2 1] {
            if BACK < HELD {
                sums[BACK] = sums[BACK - 1];
            }
        });
        sums[0] = [[0.0; 4]; UNITS];
        ahead.advance(p, margins);
        now.advance(p, margins);
        (to, from) = (after(to, slots), after(from, slots));
        (results, other) = (other, results);
    }
    sync_threads();
    if leaves {
        store(p, base, leaving, first_channel, other);
    }
}

/// The filters of eight channels from `channel` on as factors of products: diagonals.
///
/// # Safety
/// The host passes a live filter in `p`.
#[inline(always)]
unsafe fn load_filters<const R: usize, const PAIRS: usize>(p: &ConvDiagonalParams, channel: u32) -> Filters<R, PAIRS> {
    let lane = thread_idx_x() % 32;
    // A lane holds two rows of a column: those of the diagonal, or zeros.
    let column = lane / 4;
    let there = column / 2 == lane % 4 && channel + column < p.channels;
    let n_taps = (R * R) as isize;
    let first = (p.filter as *const u16).wrapping_offset((channel + column) as isize * n_taps);
    let mut filters = [[[0; 2]; PAIRS]; R];
    unroll!(TAP_ROW in [0 1 2 3 4 5 6] {
        unroll!(PAIR in [0 1 2 3] {
            unroll!(SECOND in [0 1] {
                if TAP_ROW < R && 2 * PAIR + SECOND < R {
                    let tap = (TAP_ROW * R + 2 * PAIR + SECOND) as isize;
                    let tap = if p.flip != 0 { n_taps - 1 - tap } else { tap };
                    let value = if there { u32::from(*first.wrapping_offset(tap)) } else { 0 };
                    filters[TAP_ROW % R][PAIR % PAIRS][SECOND] = value << (column % 2 * 16);
                }
            });
        });
    });
    filters
}

/// Adds what a step's rows of the source are to the rows of the target.
///
/// # Safety
/// As [`gather`]; the rows are there, and all lanes of a warp call it.
#[inline(always)]
unsafe fn products<
    T: TensorCore,
    const R: usize,
    const STRIDE: u32,
    const PAIRS: usize,
    const HELD: usize,
    const UNITS: usize,
>(
    p: &ConvDiagonalParams,
    sums: &mut Sums<HELD, UNITS>,
    filters: &Filters<R, PAIRS>,
    base: u32,
    step: u32,
    slot: u32,
) {
    let taps = DiagonalTaps { extent: R as u32, stride: STRIDE };
    let lane = thread_idx_x() % 32;
    // A lane names a row of one of four matrices: two units by two taps.
    let (row, matrix) = (lane % 8, lane / 8);
    let at_lane =
        taps.column_bytes(p.units, matrix / 2) + row * DIAGONAL_PIXEL_BYTES + thread_idx_x() / 32 * CHUNK_BYTES;
    let rows = base + p.source_at() + slot * STRIDE * p.source_row_bytes(taps) + at_lane;
    unroll!(UNIT in [0 1 2 3] {
        if UNIT < UNITS && 2 * (UNIT as u32) < p.row_units() {
            let unit = 2 * UNIT as u32 + matrix % 2;
            let at = rows + shared::load_u32(base + p.unit_table_at() + DIAGONAL_UNIT_ENTRY * unit);
            unroll!(PHASE in [0 1] {
                let h = (step * STRIDE + PHASE as u32).wrapping_sub(p.padding[0]);
                if (PHASE as u32) < STRIDE && h < p.source_extents[0] {
                    let at = at + PHASE as u32 * p.source_row_bytes(taps);
                    unroll!(PAIR in [0 1 2 3] {
                        if PAIR < PAIRS {
                            let x = ldmatrix::load_x4(at + taps.column_bytes(p.units, 2 * PAIR as u32));
                            unroll!(BACK in [0 1 2 3 4 5 6] {
                                let tap = BACK * STRIDE as usize + PHASE;
                                if tap < R {
                                    T::multiply(&mut sums[BACK % HELD][UNIT % UNITS], x, filters[tap % R][PAIR]);
                                }
                            });
                        }
                    });
                }
            });
        }
    });
}

/// Rounds a warp's results and leaves them in shared memory.
///
/// # Safety
/// As [`gather`]; nobody reads there any more.
#[inline(always)]
unsafe fn round<T: TensorCore, const UNITS: usize>(
    p: &ConvDiagonalParams,
    sums: &[[f32; 4]; UNITS],
    [image, row, column]: [u32; 3],
    channel: u32,
    to: u32,
) {
    let lane = thread_idx_x() % 32;
    let lane_bytes = lane / 4 * DIAGONAL_PIXEL_BYTES + thread_idx_x() / 32 * CHUNK_BYTES + lane % 4 * 4;
    unroll!(UNIT in [0 1 2 3] {
        if UNIT < UNITS && 2 * (UNIT as u32) < p.row_units() {
            unroll!(SECOND in [0 1] {
                let unit = 2 * UNIT as u32 + SECOND as u32;
                let sums = &sums[UNIT % UNITS];
                let mut pair = [p.alpha * sums[2 * SECOND], p.alpha * sums[2 * SECOND + 1]];
                if p.beta != 0.0 {
                    let (of_image, part) = div_rem(unit, p.units);
                    let column = column + part * DIAGONAL_UNIT + lane / 4;
                    if of_image < p.images && image + of_image < p.n && column < p.target_extents[1] {
                        let [height, width] = p.target_extents.map(u64::from);
                        let pixel = (u64::from(image + of_image) * height + u64::from(row)) * width + u64::from(column);
                        let element = pixel * u64::from(p.channels) + u64::from(channel + lane % 4 * 2);
                        let prior = T::unpack(*((p.target + 2 * element) as *const u32));
                        pair = [pair[0] + p.beta * prior[0], pair[1] + p.beta * prior[1]];
                    }
                }
                let at = to + unit * DIAGONAL_UNIT * DIAGONAL_PIXEL_BYTES + lane_bytes;
                shared::store_u32(at, T::pack(pair[0], pair[1]));
            });
        }
    });
}

/// Writes a row of results from shared memory.
///
/// # Safety
/// As [`gather`]; the row is there.
#[inline(always)]
unsafe fn store(p: &ConvDiagonalParams, base: u32, place: [u32; 3], first_channel: u32, from: u32) {
    Rows::of_target(p, base).pieces(p, place, first_channel, |at, address, there| {
        if there {
            *(address as *mut X4<u32>) = X4(shared::load_x4(from + at));
        }
    });
}
