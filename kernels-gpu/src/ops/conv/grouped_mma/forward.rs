//! `fprop` with any stride, and `dgrad` with stride 1, which is `fprop` with the filter turned around.

use super::filter::Filter;
use super::output::Output;
use super::{CHUNK_BYTES, Share, TAPS, fill_tables, load_source, tap_offsets, unroll};
use crate::math::tensor_core::TensorCore;
use cuda_std::thread::{sync_threads, thread_idx_x};
use cuda_std::{cp_async, ldmatrix, shared, warp};
use kernel_abi::ops::conv::grouped_mma::{GROUPED_ROWS, GROUPED_SLICE, GroupedMmaParams};

/// Channels of a warp.
pub(super) const WARP_CHANNELS: u32 = 16;
/// Warps that share a tile's positions.
pub(super) const WARP_ROWS: u32 = 2;

/// target = conv(source, filter), for groups of `WIDTH` channels, or of a divisor of 8 where that is 8, in `STEPS`
/// products of 8 channels.
///
/// # Safety
/// The host passes live tensors of the extents in `p`, and a tiling that fits the shared memory of the launch.
#[inline(always)]
pub(crate) unsafe fn forward<T: TensorCore, const WIDTH: u32, const STEPS: usize>(
    p: &GroupedMmaParams,
    transposed: bool,
) {
    each_rows::<WIDTH, STEPS>(p, transposed, |rows| products::<T, WIDTH, STEPS>(p, rows));
}

/// What a warp computes at a time: 16 positions, or cells of them, of its channels.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, const STEPS: usize> {
    /// Its channels' filters.
    pub(super) filters: &'a [[[u32; STEPS]; 2]; TAPS],
    pub(super) output: &'a Output,
    /// Shared-window addresses of the tables, and of the tile of source.
    pub(super) base: u32,
    pub(super) stage: u32,
    /// The first position.
    pub(super) row: u32,
    /// Which 16 channels of the slice.
    pub(super) part: u32,
}

/// Has each warp compute its rows of all tiles of a block, the next tile on its way meanwhile.
///
/// # Safety
/// As [`forward`].
#[inline(always)]
pub(super) unsafe fn each_rows<const WIDTH: u32, const STEPS: usize>(
    p: &GroupedMmaParams,
    transposed: bool,
    compute: impl Fn(Rows<'_, STEPS>),
) {
    let base = shared::dynamic_address();
    let share = Share::of_block(p);
    let warp = warp::uniform(thread_idx_x() / 32);
    fill_tables(p, base);
    sync_threads();
    let mut tile = share.slab;
    let mut stage = base + p.tiles_at();
    let mut other = stage + p.halo_bytes();
    load_source(p, share, tile, base, stage);
    cp_async::commit_group();
    let part = warp % (GROUPED_SLICE / WARP_CHANNELS);
    let first_channel = share.first_channel + part * WARP_CHANNELS;
    let filter = Filter { at: p.filter, channels: p.channels, width: p.width, flip: p.flip, transposed };
    let filters = &filter.load::<WIDTH, STEPS, true, TAPS>(first_channel);
    while tile < p.tiles() {
        let next = tile + p.slabs;
        if next < p.tiles() {
            load_source(p, share, next, base, other);
        }
        cp_async::commit_group();
        cp_async::wait_group::<1>();
        sync_threads();
        let output = &Output::new::<WIDTH>(p, base, tile, first_channel);
        let mut row = warp / (GROUPED_SLICE / WARP_CHANNELS) * GROUPED_ROWS;
        while row < p.positions() {
            compute(Rows { filters, output, base, stage, row, part });
            row += WARP_ROWS * GROUPED_ROWS;
        }
        sync_threads();
        (stage, other) = (other, stage);
        tile = next;
    }
}

/// The first channel, within the slice, of the 16 or 32 that a warp's 16 channels read.
#[inline(always)]
pub(super) const fn source_part<const WIDTH: u32>(part: u32) -> u32 {
    if WIDTH == 32 { part / 2 * 32 } else { part * WARP_CHANNELS }
}

/// Address of this lane's row for `ldmatrix` of 16 positions and 16 channels.
///
/// # Safety
/// As [`forward`]; the tables are filled.
#[inline(always)]
pub(super) unsafe fn window_address(p: &GroupedMmaParams, base: u32, tile_address: u32, row: u32, channel: u32) -> u32 {
    let lane = thread_idx_x() % 32;
    let offset = shared::load_u32(base + p.offsets_at() + 4 * (row + lane % GROUPED_ROWS));
    tile_address + offset + channel * 2 + lane / GROUPED_ROWS * CHUNK_BYTES
}

/// Computes and writes 16 positions of a warp's channels.
///
/// # Safety
/// As [`forward`].
#[inline(always)]
unsafe fn products<T: TensorCore, const WIDTH: u32, const STEPS: usize>(
    p: &GroupedMmaParams,
    Rows { filters, output, base, stage, row, part }: Rows<'_, STEPS>,
) {
    let window = window_address(p, base, stage, row, source_part::<WIDTH>(part));
    let taps = tap_offsets(p);
    let mut sums = [[0.0f32; 4]; 2];
    let mut held = [0u32; 4];
    unroll!(TAP in [0 1 2 3 4 5 6 7 8] {
        let at = window + taps[TAP];
        let x = ldmatrix::load_x4(at);
        if WIDTH == 8 {
            // Two taps of 8 channels make one product of 16.
            if TAP % 2 == 1 {
                T::multiply(&mut sums[0], [held[0], held[1], x[0], x[1]], [filters[TAP - TAP % 2][0][0], filters[TAP][0][0]]);
                T::multiply(&mut sums[1], [held[2], held[3], x[2], x[3]], [filters[TAP - TAP % 2][1][0], filters[TAP][1][0]]);
            } else if TAP == 8 {
                T::multiply(&mut sums[0], [x[0], x[1], 0, 0], [filters[TAP][0][0], 0]);
                T::multiply(&mut sums[1], [x[2], x[3], 0, 0], [filters[TAP][1][0], 0]);
            }
            held = x;
        } else {
            T::multiply(&mut sums[0], x, [filters[TAP][0][0], filters[TAP][0][1 % STEPS]]);
            T::multiply(&mut sums[1], x, [filters[TAP][1][0], filters[TAP][1][1 % STEPS]]);
            if WIDTH == 32 {
                let x = ldmatrix::load_x4(at + 2 * CHUNK_BYTES);
                T::multiply(&mut sums[0], x, [filters[TAP][0][2 % STEPS], filters[TAP][0][3 % STEPS]]);
                T::multiply(&mut sums[1], x, [filters[TAP][1][2 % STEPS], filters[TAP][1][3 % STEPS]]);
            }
        }
    });
    output.write::<T, WIDTH>(p, &sums, row, 0, 0);
}
