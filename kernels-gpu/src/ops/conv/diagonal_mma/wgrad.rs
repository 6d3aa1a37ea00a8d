//! `wgrad`: eight channels of x by two taps are the rows of a product, the same channels of dy its columns, and sixteen
//! positions are summed over. The diagonal is kept. Rows of dy stay in shared memory until the last row of x that meets
//! them is there; sums stay in registers over all items of a block.

use super::super::grouped_mma::unroll;
use super::{CHANNELS, CHUNK_BYTES, Margins, Rows, Walk, after, load_source, prepare};
use crate::math::index::div_rem_u32 as div_rem;
use crate::math::tensor_core::TensorCore;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::{cp_async, ldmatrix, shared, warp};
use kernel_abi::ops::conv::ConvPass;
use kernel_abi::ops::conv::diagonal_mma::{
    ConvDiagonalParams, DIAGONAL_AHEAD, DIAGONAL_PIXEL_BYTES, DIAGONAL_SLICE, DIAGONAL_UNIT, DIAGONAL_UNIT_ENTRY,
    DiagonalTaps,
};

/// Sums of two taps, for each row and pair of columns of the filter.
type Sums<const R: usize, const PAIRS: usize> = [[[f32; 4]; PAIRS]; R];

/// dw = alpha · gradient + beta · dw where there is one slab, else partials\[slab\] = this block's part of the gradient.
/// `PAIRS` is half of `R`, rounded up.
///
/// # Safety
/// The host passes live tensors of the extents in `p`, partial sums for all slabs, and the shared memory of
/// `smem_bytes`.
#[inline(always)]
pub(crate) unsafe fn wgrad<T: TensorCore, const R: usize, const STRIDE: u32, const PAIRS: usize>(
    p: &ConvDiagonalParams,
) {
    let taps = DiagonalTaps { extent: R as u32, stride: STRIDE };
    let margins = Margins { before: taps.held() - 1, behind: 0 };
    let base = shared::dynamic_address();
    // Neighbouring blocks take neighbouring channels of the same pixels.
    let (slab, slice) = div_rem(block_idx_x(), p.slices);
    let first_channel = slice * DIAGONAL_SLICE;
    let channel = first_channel + warp::uniform(thread_idx_x() / 32) * CHANNELS;
    prepare(p, taps, ConvPass::Wgrad, base);
    sync_threads();
    let mut ahead = Walk::new(p, margins, slab);
    let mut now = ahead;
    let (source_slots, target_slots) = (ConvDiagonalParams::source_slots(), ConvDiagonalParams::target_slots(taps));
    let (mut source_to, mut target_to) = (0, 0);
    let mut queued = 0;
    while queued < DIAGONAL_AHEAD {
        load(p, taps, &ahead, base, first_channel, [source_to, target_to]);
        cp_async::commit_group();
        ahead.advance(p, margins);
        (source_to, target_to) = (after(source_to, source_slots), after(target_to, target_slots));
        queued += 1;
    }
    let (mut source_from, mut target_from) = (0, 0);
    let mut sums: Sums<R, PAIRS> = [[[0.0; 4]; PAIRS]; R];
    while now.there(p) {
        cp_async::wait_group::<{ DIAGONAL_AHEAD - 1 }>();
        sync_threads();
        load(p, taps, &ahead, base, first_channel, [source_to, target_to]);
        cp_async::commit_group();
        if now.step >= now.first && channel < p.channels {
            products::<T, R, STRIDE, PAIRS>(p, &mut sums, base, now.step, [source_from, target_from]);
        }
        ahead.advance(p, margins);
        now.advance(p, margins);
        (source_to, target_to) = (after(source_to, source_slots), after(target_to, target_slots));
        (source_from, target_from) = (after(source_from, source_slots), after(target_from, target_slots));
    }
    if channel < p.channels {
        write::<T, R, PAIRS>(p, &sums, slab, channel);
    }
}

/// Queues the copies of a step's rows; of x none before the band, whose rows of dy alone are needed.
///
/// # Safety
/// As [`Rows::copy`].
#[inline(always)]
unsafe fn load(
    p: &ConvDiagonalParams,
    taps: DiagonalTaps,
    walk: &Walk,
    base: u32,
    first_channel: u32,
    [source_slot, target_slot]: [u32; 2],
) {
    if !walk.there(p) {
        return;
    }
    if walk.step >= walk.first {
        load_source(p, taps, walk, base, first_channel, source_slot);
    }
    if walk.step < p.target_extents[0] {
        let to = base + p.target_at(taps) + target_slot * p.target_row_bytes();
        Rows::of_target(p, base).copy(p, [walk.image, walk.step, walk.column], first_channel, to);
    }
}

/// Adds what a step's rows of x have in common with the rows of dy.
///
/// # Safety
/// As [`wgrad`]; the rows are there, and all lanes of a warp call it.
#[inline(always)]
unsafe fn products<T: TensorCore, const R: usize, const STRIDE: u32, const PAIRS: usize>(
    p: &ConvDiagonalParams,
    sums: &mut Sums<R, PAIRS>,
    base: u32,
    step: u32,
    [source_slot, target_slot]: [u32; 2],
) {
    let taps = DiagonalTaps { extent: R as u32, stride: STRIDE };
    let lane = thread_idx_x() % 32;
    let channels = thread_idx_x() / 32 * CHUNK_BYTES;
    // A lane names a row of one of four matrices: of x two taps by two units, of dy two units by two rows.
    let (row, matrix) = (lane % 8, lane / 8);
    let x_lane = taps.column_bytes(p.units, matrix % 2) + row * DIAGONAL_PIXEL_BYTES + channels;
    let x_row = base + p.source_at() + source_slot * STRIDE * p.source_row_bytes(taps) + x_lane;
    let dy_lane = (matrix % 2 * DIAGONAL_UNIT + row) * DIAGONAL_PIXEL_BYTES + channels;
    let dy_rows = base + p.target_at(taps) + dy_lane;
    let slots = ConvDiagonalParams::target_slots(taps);
    let mut unit = 0;
    while unit < p.row_units() {
        let x_unit = x_row + shared::load_u32(base + p.unit_table_at() + DIAGONAL_UNIT_ENTRY * (unit + matrix / 2));
        let dy_unit = dy_rows + unit * DIAGONAL_UNIT * DIAGONAL_PIXEL_BYTES;
        unroll!(PHASE in [0 1] {
            let h = (step * STRIDE + PHASE as u32).wrapping_sub(p.padding[0]);
            if (PHASE as u32) < STRIDE && h < p.source_extents[0] {
                let x_unit = x_unit + PHASE as u32 * p.source_row_bytes(taps);
                let mut x = [[0u32; 4]; PAIRS];
                unroll!(PAIR in [0 1 2 3] {
                    if PAIR < PAIRS {
                        let at = x_unit + taps.column_bytes(p.units, 2 * PAIR as u32);
                        x[PAIR] = ldmatrix::load_x4_transposed(at);
                    }
                });
                unroll!(BACK in [0 2 4 6] {
                    // Two rows of dy are loaded at once: the step's own less `BACK`, and the one before.
                    if BACK * STRIDE as usize + PHASE < R {
                        let back = BACK as u32 + matrix / 2;
                        let slot = if target_slot >= back { target_slot - back } else { target_slot + slots - back };
                        let dy = ldmatrix::load_x4_transposed(dy_unit + slot * p.target_row_bytes());
                        unroll!(SECOND in [0 1] {
                            let tap = (BACK + SECOND) * STRIDE as usize + PHASE;
                            // Rows before the first are huge numbers.
                            if tap < R && step.wrapping_sub((BACK + SECOND) as u32) < p.target_extents[0] {
                                unroll!(PAIR in [0 1 2 3] {
                                    if PAIR < PAIRS {
                                        let dy = [dy[2 * SECOND], dy[2 * SECOND + 1]];
                                        T::multiply(&mut sums[tap % R][PAIR], x[PAIR], dy);
                                    }
                                });
                            }
                        });
                    }
                });
            }
        });
        unit += 2;
    }
}

/// Writes the diagonals of a warp's sums.
///
/// # Safety
/// As [`wgrad`]; `channel` is the warp's first.
#[inline(always)]
unsafe fn write<T: TensorCore, const R: usize, const PAIRS: usize>(
    p: &ConvDiagonalParams,
    sums: &Sums<R, PAIRS>,
    slab: u32,
    channel: u32,
) {
    let lane = thread_idx_x() % 32;
    // A lane has two neighbouring columns of a row, and of the eighth row below it, which is the second tap's.
    let row = lane / 4;
    if row / 2 != lane % 4 {
        return;
    }
    // Chosen by bits: a choice between elements would have all sums in memory.
    let of_even = (row % 2).wrapping_sub(1);
    let n_taps = (R * R) as u32;
    let first = u64::from(channel + row) * u64::from(n_taps);
    let slab = u64::from(slab) * u64::from(p.channels) * u64::from(n_taps);
    unroll!(TAP_ROW in [0 1 2 3 4 5 6] {
        unroll!(PAIR in [0 1 2 3] {
            unroll!(SECOND in [0 1] {
                if TAP_ROW < R && 2 * PAIR + SECOND < R {
                    let [even, odd] = [2 * SECOND, 2 * SECOND + 1].map(|i| sums[TAP_ROW % R][PAIR % PAIRS][i].to_bits());
                    let sum = f32::from_bits(even & of_even | odd & !of_even);
                    let tap = (TAP_ROW * R + 2 * PAIR + SECOND) as u32;
                    let element = first + u64::from(if p.flip != 0 { n_taps - 1 - tap } else { tap });
                    if p.slabs == 1 {
                        let to = (p.filter as *mut T).add(element as usize);
                        let mut value = p.alpha * sum;
                        if p.beta != 0.0 {
                            value += p.beta * (*to).widen();
                        }
                        *to = T::narrow(value);
                    } else {
                        *(p.partials as *mut f32).add((slab + element) as usize) = sum;
                    }
                }
            });
        });
    });
}
