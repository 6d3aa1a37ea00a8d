//! `wgrad` with any stride: positions are what is summed over.
//!
//! The rows of a product are the source's channels: 16 by one tap, or, where groups are at most 8 wide, 8 by two taps.
//! Its columns are 8 channels of dy, and both come from the tile transposed. A warp's sums stay in registers over all
//! tiles of its block; each block, and where two warps share a tile's positions each of them, writes its own part.

use super::forward::window_address;
use super::{
    CHUNK, CHUNK_BYTES, CHUNKS, PIXELS_AT_ONCE, Share, TAPS, fill_tables, load_source, tap_offsets, tile_origin, unroll,
};
use crate::math::tensor_core::TensorCore;
use cuda_std::thread::{sync_threads, thread_idx_x};
use cuda_std::{cp_async, ldmatrix, shared, warp};
use kernel_abi::ops::conv::grouped_mma::{
    GROUPED_PIXEL_BYTES, GROUPED_ROWS, GroupedMmaParams, unpack_place, wgrad_row_parts,
};

/// Two halves of a warp's 16 columns, for each of `PARTS` taps or pairs of taps.
type Sums<const PARTS: usize> = [[[f32; 4]; 2]; PARTS];

/// partials\[slab\] = this block's part of the gradient by w. `PARTS` is 5 for `WIDTH` 8, else 9.
///
/// # Safety
/// The host passes live tensors of the extents in `p`, partial sums for all slabs, and a tiling that fits the shared
/// memory of the launch.
#[inline(always)]
pub(crate) unsafe fn wgrad<T: TensorCore, const WIDTH: u32, const PARTS: usize>(p: &GroupedMmaParams) {
    let base = shared::dynamic_address();
    let share = Share::of_block(p);
    let warp = warp::uniform(thread_idx_x() / 32);
    fill_tables(p, base);
    sync_threads();
    let mut tile = share.slab;
    let mut stage = base + p.tiles_at();
    let mut other = stage + p.stage_bytes(true);
    load_source(p, share, tile, base, stage);
    load_target(p, share, tile, base, stage + p.halo_bytes());
    cp_async::commit_group();
    // A warp takes 16 channels of dy. Groups of 32 need two warps for the channels of x, others leave two for rows.
    let row_parts = wgrad_row_parts(WIDTH);
    let (to_part, from_part, row_part) =
        if WIDTH == 32 { (warp / 2, warp / 4 * 2 + warp % 2, 0) } else { (warp % 4, warp % 4, warp / 4) };
    let mut sums: Sums<PARTS> = [[[0.0; 4]; 2]; PARTS];
    while tile < p.tiles() {
        let next = tile + p.slabs;
        if next < p.tiles() {
            load_source(p, share, next, base, other);
            load_target(p, share, next, base, other + p.halo_bytes());
        }
        cp_async::commit_group();
        cp_async::wait_group::<1>();
        sync_threads();
        let mut row = row_part * GROUPED_ROWS;
        while row < p.positions() {
            products::<T, WIDTH, PARTS>(p, &mut sums, base, stage, row, to_part, from_part);
            row += row_parts * GROUPED_ROWS;
        }
        sync_threads();
        (stage, other) = (other, stage);
        tile = next;
    }
    let slab = share.slab * row_parts + row_part;
    let first = [share.first_channel + from_part * 16, share.first_channel + to_part * 16];
    write_partials::<WIDTH, PARTS>(p, &sums, slab, first);
}

/// Queues the copies of a tile's positions of dy to `to`, zeros where there are none.
///
/// # Safety
/// The tables are filled; `to` has room for `padded_positions`.
#[inline(always)]
unsafe fn load_target(p: &GroupedMmaParams, share: Share, tile: u32, base: u32, to: u32) {
    let origin = tile_origin(p, tile);
    let chunk = thread_idx_x() % CHUNKS;
    let channel = share.first_channel + chunk * CHUNK;
    let mut position = thread_idx_x() / CHUNKS;
    while position < p.padded_positions() {
        let [n, h, w] = unpack_place(shared::load_u32(base + p.places_at() + 4 * position));
        let (n, h, w) = (origin[0] + n, origin[1] + h, origin[2] + w);
        let there = n < p.n && h < p.target_extents[0] && w < p.target_extents[1] && channel < p.channels;
        let index = (n * p.target_extents[0] + h) * p.target_extents[1] + w;
        let offset = if there { u64::from(index) * u64::from(p.channels) + u64::from(channel) } else { 0 };
        let bytes = if there { CHUNK_BYTES } else { 0 };
        cp_async::copy_x4(
            to + position * GROUPED_PIXEL_BYTES + chunk * CHUNK_BYTES,
            (p.target + 2 * offset) as *const u8,
            bytes,
        );
        position += PIXELS_AT_ONCE;
    }
}

/// Adds the products of 16 positions.
///
/// # Safety
/// As [`wgrad`].
#[inline(always)]
unsafe fn products<T: TensorCore, const WIDTH: u32, const PARTS: usize>(
    p: &GroupedMmaParams,
    sums: &mut Sums<PARTS>,
    base: u32,
    stage: u32,
    row: u32,
    to_part: u32,
    from_part: u32,
) {
    let lane = thread_idx_x() % 32;
    let target_row = stage + p.halo_bytes() + (row + lane % GROUPED_ROWS) * GROUPED_PIXEL_BYTES;
    let dy = ldmatrix::load_x4_transposed(target_row + to_part * 32 + lane / GROUPED_ROWS * CHUNK_BYTES);
    let window = window_address(p, base, stage, row, from_part * 16);
    let taps = tap_offsets(p);
    let mut held = [0u32; 4];
    unroll!(TAP in [0 1 2 3 4 5 6 7 8] {
        let x = ldmatrix::load_x4_transposed(window + taps[TAP]);
        if WIDTH == 8 {
            if TAP % 2 == 1 {
                let sums = &mut sums[TAP / 2 % PARTS];
                T::multiply(&mut sums[0], [held[0], x[0], held[1], x[1]], [dy[0], dy[1]]);
                T::multiply(&mut sums[1], [held[2], x[2], held[3], x[3]], [dy[2], dy[3]]);
            } else if TAP == 8 {
                let sums = &mut sums[TAP / 2 % PARTS];
                T::multiply(&mut sums[0], [x[0], 0, x[1], 0], [dy[0], dy[1]]);
                T::multiply(&mut sums[1], [x[2], 0, x[3], 0], [dy[2], dy[3]]);
            }
            held = x;
        } else {
            let sums = &mut sums[TAP % PARTS];
            let x = [x[0], x[2], x[1], x[3]];
            T::multiply(&mut sums[0], x, [dy[0], dy[1]]);
            T::multiply(&mut sums[1], x, [dy[2], dy[3]]);
        }
    });
}

/// Writes a warp's sums: those whose channels are of one group.
///
/// # Safety
/// As [`wgrad`]; `first` are the warp's first channels of x and of dy.
#[inline(always)]
unsafe fn write_partials<const WIDTH: u32, const PARTS: usize>(
    p: &GroupedMmaParams,
    sums: &Sums<PARTS>,
    slab: u32,
    first: [u32; 2],
) {
    let lane = thread_idx_x() % 32;
    // Widths are powers of two; those that fill a product are known when this is compiled.
    let width = if WIDTH == 8 { p.width } else { WIDTH };
    let rank = width - 1;
    let slab_elems = u64::from(p.channels) * u64::from(TAPS as u32 * width);
    let slab = (p.partials as *mut f32).add((u64::from(slab) * slab_elems) as usize);
    unroll!(PART in [0 1 2 3 4 5 6 7 8] {
        if PART < PARTS {
            unroll!(HALF in [0 1] {
                unroll!(I in [0 1 2 3] {
                    // A product's lower rows are the second tap's, or the next 8 channels.
                    let lower = (I / 2) as u32;
                    let (tap, from) = if WIDTH == 8 {
                        (2 * PART as u32 + lower, first[0] + 8 * HALF as u32 + lane / 4)
                    } else {
                        (PART as u32, first[0] + 8 * lower + lane / 4)
                    };
                    let to = first[1] + 8 * HALF as u32 + lane % 4 * 2 + (I % 2) as u32;
                    // Widths above 8 fill their products, so only narrow ones have parts between groups.
                    let of_group = WIDTH != 8 || from & !rank == to & !rank;
                    if (tap as usize) < TAPS && to < p.channels && of_group {
                        let tap = if p.flip != 0 { TAPS as u32 - 1 - tap } else { tap };
                        *slab.add(((to * TAPS as u32 + tap) * width + (from & rank)) as usize) =
                            sums[PART % PARTS][HALF][I];
                    }
                });
            });
        }
    });
}
