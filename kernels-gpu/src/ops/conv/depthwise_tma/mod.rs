//! Depthwise convolution of 16-bit channels-last images on Hopper: rows are streamed through shared memory by the copy
//! engine, each read once but for what neighbouring tiles share, and whole rows of results leave by it.
//!
//! A block has a slice of channels, and goes from tile to tile: some rows and columns of some images. A step brings the
//! rows of the source that follow, `slots` steps ahead, also across tiles; zeros outside of the image come with them,
//! and steps whose rows all lie outside bring nothing. A thread has two channels and a strip of columns. It keeps their
//! taps and the sums of all target rows that a source row meets in registers, so a source row is read from shared
//! memory once. A barrier a step is all that threads wait for: behind it the step's results are whole, and its source
//! rows may be overwritten.
//!
//! Where the transposed convolution has stride 2, a step ends two rows of the target, of pairs of columns.
//!
//! Grid: one-dimensional, slices fastest. Block: as many threads as the tile has pairs of channels, strips and images, up
//! to a whole warp; the threads left over compute what is not written.

mod entry;
mod place;
mod products;
mod taps;

use super::depthwise::gather_row;
use crate::math::tensor_core::TensorCore;
use crate::math::vector::for_each;
use cuda_std::barrier::{fence_proxy_async_shared, sync_threads};
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::{mbarrier, schedule, shared};
use kernel_abi::ops::conv::depthwise_tma::{
    ConvDepthwiseTmaParams, DEPTHWISE_TMA_RESULTS, DepthwiseTmaForm, DepthwiseTmaTile,
};
use place::{Loads, Place, Tile};
use products::spread_row;

/// The kernel: `RING` rows of spans of `SPREAD` positions are under way at once, in `LINES = SPREAD · RING` rows of sums, of
/// strips of `WIDE` columns, which meet `COLUMNS` of the source.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches the threads and the shared memory of the tile.
#[inline(always)]
unsafe fn run<
    T: TensorCore,
    const R: usize,
    const STRIDE: usize,
    const SPREAD: usize,
    const SHIFT: usize,
    const RING: usize,
    const LINES: usize,
    const WIDE: usize,
    const COLUMNS: usize,
>(
    p: &ConvDepthwiseTmaParams,
    [source_map, target_map]: [MapAddress; 2],
) {
    schedule::launch_dependents();
    let form = DepthwiseTmaForm {
        extent: R as u32,
        stride: STRIDE as u32,
        spread: SPREAD as u32,
        shift: SHIFT as u32,
        strip: (WIDE / SPREAD) as u32,
    };
    let barriers = shared::dynamic_address();
    let ring = barriers + DepthwiseTmaTile::ring_at();
    let results = barriers + p.tile.results_at(form);
    let slot_bytes = p.tile.slot_bytes(form);
    let leads = thread_idx_x() == 0;
    if leads {
        tma::prefetch_map(source_map);
        tma::prefetch_map(target_map);
        let mut slot = 0;
        while slot < p.tile.slots {
            mbarrier::init(barriers + 8 * slot, 1);
            slot += 1;
        }
        mbarrier::fence_init();
    }
    schedule::wait_for_predecessors();
    let (mut index, slice) = p.slices.div_rem(block_idx_x());
    let channel = (slice * p.tile.channels) as i32;
    let mut loads = Loads::new(p, form, index);
    if leads {
        let mut slot = 0;
        while slot < p.tile.slots {
            loads.issue(p, form, source_map, channel, barriers + 8 * slot, ring + slot * slot_bytes);
            slot += 1;
        }
    }
    taps::stage::<T, R>(p, channel, results);
    sync_threads();
    let place = Place::new(p, form);
    let w = taps::read::<R>(results, place.pair);
    // Results are written to where the taps are.
    sync_threads();

    let pitch = p.tile.position_bytes();
    let (mut slot, mut parity, mut result) = (0, 0, 0);
    while index < p.n_tiles {
        let tile = Tile::new(p, form, index);
        index += p.workers;
        let mut step = tile.steps[0];
        // The newest rows first.
        let mut sums = [[[0.0f32; 2]; WIDE]; LINES];
        'steps: loop {
            // Written out, so that sums need not be moved from one row to the next.
            for_each!(_PHASE < RING, {
                let is_filled = tile.is_filled(step);
                if is_filled {
                    mbarrier::wait(barriers + 8 * slot, parity);
                    let from = ring + slot * slot_bytes + place.source;
                    let x = row::<T, COLUMNS>(from, pitch);
                    if SPREAD == 2 {
                        spread_row::<R, SHIFT, RING, LINES, WIDE, COLUMNS>(&mut sums, &x, &w);
                    } else {
                        gather_row::<2, R, STRIDE, LINES, WIDE, COLUMNS, 0>(&mut sums, &x, &w);
                    }
                    if STRIDE == 2 {
                        let x = row::<T, COLUMNS>(from + p.tile.row_bytes(form), pitch);
                        gather_row::<2, R, STRIDE, LINES, WIDE, COLUMNS, 1>(&mut sums, &x, &w);
                    }
                }
                let ended = step - (RING as i32 - 1);
                let ends = ended >= tile.rows[0];
                let to = results + result * p.tile.result_bytes(form);
                if ends {
                    let mut i = 0;
                    while i < SPREAD {
                        let sums = sums.get_unchecked_mut(LINES - SPREAD + i);
                        let line = ended * SPREAD as i32 + i as i32;
                        if p.beta != 0.0 {
                            place.add_prior::<T, WIDE>(p, form, &tile, channel, line, sums);
                        }
                        if place.is_able {
                            let to = to + place.target + i as u32 * p.tile.result_row_bytes(form);
                            store_row::<T, WIDE>(to, pitch, sums);
                        }
                        i += 1;
                    }
                    fence_proxy_async_shared();
                    if leads {
                        // What is written next is what left longest ago.
                        tma::wait_group_read::<{ DEPTHWISE_TMA_RESULTS - 2 }>();
                    }
                }
                sync_threads();
                if leads && ends {
                    let [row, column] = [ended, tile.column].map(
                        #[inline(always)]
                        |span| span * SPREAD as i32,
                    );
                    tma::store_4d(target_map, to, [channel, column, row, tile.image]);
                    tma::commit_group();
                }
                if ends {
                    result = if result + 1 == DEPTHWISE_TMA_RESULTS { 0 } else { result + 1 };
                }
                if is_filled {
                    if leads {
                        loads.issue(p, form, source_map, channel, barriers + 8 * slot, ring + slot * slot_bytes);
                    }
                    slot += 1;
                    if slot == p.tile.slots {
                        (slot, parity) = (0, parity ^ 1);
                    }
                }
                step += 1;
                if step == tile.steps[1] {
                    break 'steps;
                }
                let mut line = LINES;
                while line > 0 {
                    line -= 1;
                    *sums.get_unchecked_mut(line) =
                        if line < SPREAD { [[0.0; 2]; WIDE] } else { *sums.get_unchecked(line - SPREAD) };
                }
            });
        }
    }
    if leads {
        // Another kernel's blocks take the shared memory over as soon as this block ends.
        tma::wait_group_read::<0>();
    }
}

/// The columns of a row that a thread's strip meets.
#[inline(always)]
unsafe fn row<T: TensorCore, const COLUMNS: usize>(from: u32, pitch: u32) -> [[f32; 2]; COLUMNS] {
    let mut values = [[0.0; 2]; COLUMNS];
    let mut at = from;
    let mut i = 0;
    while i < COLUMNS {
        *values.get_unchecked_mut(i) = T::unpack(shared::load_u32(at));
        at += pitch;
        i += 1;
    }
    values
}

/// Writes a strip of a row of results.
#[inline(always)]
unsafe fn store_row<T: TensorCore, const WIDE: usize>(to: u32, pitch: u32, sums: &[[f32; 2]; WIDE]) {
    let mut at = to;
    let mut i = 0;
    while i < WIDE {
        let [low, high] = *sums.get_unchecked(i);
        shared::store_u32(at, T::pack(low, high));
        at += pitch;
        i += 1;
    }
}
