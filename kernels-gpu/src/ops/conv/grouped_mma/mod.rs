//! Convolutions of 3 × 3 taps whose groups are 1 to 32 channels wide, on the portable tensor cores.
//!
//! Grid: `slabs · slices` blocks. A block keeps to one slice of 64 channels and walks over its share of the tiles of
//! positions. Block: 256 threads. Shared memory: dynamic, `GroupedMmaParams::smem_bytes`: tables of what lies where in
//! a tile, and two tiles, of which one is loaded while the other is computed with.
//!
//! Groups this narrow multiply each element too seldom to be bound by anything but memory, so all is made for reading
//! every element once: a tile holds the source's pixels with the border that its windows reach into, and all nine
//! taps read it from there. A product takes 16 positions, whose pixels may lie anywhere in the tile since each lane of
//! `ldmatrix` names its own row, and 16 channels; a warp keeps the filters of its channels in registers. Groups
//! narrower than 8 channels are padded to 8 with zeros between the groups.

mod dgrad_stride2;
mod filter;
mod forward;
mod output;
mod partials;
mod wgrad;

pub(super) use dgrad_stride2::dgrad_stride2;
pub(super) use filter::Filter;
pub(super) use forward::forward;
pub(super) use partials::add_partials;
pub(super) use wgrad::wgrad;

use crate::math::index::div_rem_u32 as div_rem;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{cp_async, shared};
use kernel_abi::ops::conv::grouped_mma::{
    GROUPED_SLICE, GROUPED_THREADS, GroupedMmaParams, NO_PLACE, pack_place, unpack_place,
};

/// Repeats a block with a constant: register arrays must not be indexed by variables.
macro_rules! unroll {
    ($name:ident in [$($i:literal)*] $body:block) => { $({ const $name: usize = $i; $body })* };
}
pub(crate) use unroll;

/// Taps of a filter.
const TAPS: usize = 9;
/// Copies that bring a pixel's channels.
const CHUNKS: u32 = GROUPED_SLICE * 2 / CHUNK_BYTES;
const CHUNK_BYTES: u32 = 16;
/// Channels of a chunk.
const CHUNK: u32 = 8;
/// Pixels that a block's threads copy at a time.
const PIXELS_AT_ONCE: u32 = GROUPED_THREADS / CHUNKS;

/// What a block works on: a slice of channels, and every `slabs`-th tile from its own on.
#[derive(Clone, Copy)]
struct Share {
    first_channel: u32,
    slab: u32,
}

impl Share {
    #[inline(always)]
    fn of_block(p: &GroupedMmaParams) -> Self {
        // Neighbouring blocks take neighbouring channels of the same pixels.
        let (slab, slice) = div_rem(block_idx_x(), p.slices);
        Share { first_channel: slice * GROUPED_SLICE, slab }
    }
}

/// Where the pixels of the taps of a window lie in shared memory, from its first.
#[inline(always)]
fn tap_offsets(p: &GroupedMmaParams) -> [u32; TAPS] {
    let (row, [middle, last]) = (p.dilation[0] * p.row_bytes, [1, 2].map(|tap| p.column_bytes(tap * p.dilation[1])));
    [0, middle, last, row, row + middle, row + last, 2 * row, 2 * row + middle, 2 * row + last]
}

/// The first image, row and column of a tile.
#[inline(always)]
fn tile_origin(p: &GroupedMmaParams, tile: u32) -> [u32; 3] {
    let (rest, col) = div_rem(tile, p.n_tiles[2]);
    let (n, row) = div_rem(rest, p.n_tiles[1]);
    [n * p.tile[0], row * p.tile[1], col * p.tile[2]]
}

/// Fills the tables: where a source pixel of a tile lies from its corner and in shared memory, and for a
/// position, where its window begins
/// in shared memory, where it lies itself, and how many elements of the target's pixels it is from the tile's first.
///
/// # Safety
/// `base` is shared memory of `smem_bytes`; all threads call it, and synchronize before they read the tables.
#[inline(always)]
unsafe fn fill_tables(p: &GroupedMmaParams, base: u32) {
    let mut pixel = thread_idx_x();
    while pixel < p.halo_pixels() {
        let (rest, col) = div_rem(pixel, p.halo[1]);
        let (n, row) = div_rem(rest, p.halo[0]);
        let at = n * p.image_bytes + row * p.row_bytes + p.column_bytes(col);
        shared::store_x2(base + 8 * pixel, [pack_place(n, row, col), at]);
        pixel += GROUPED_THREADS;
    }
    let mut position = thread_idx_x();
    while position < p.padded_positions() {
        let (mut offset, mut place, mut index) = (0, NO_PLACE, NO_PLACE);
        if position < p.positions() {
            let (rest, col) = div_rem(position, p.tile[2]);
            let (n, row) = div_rem(rest, p.tile[1]);
            offset = n * p.image_bytes + row * p.stride[0] * p.row_bytes + p.column_bytes(col * p.stride[1]);
            place = pack_place(n, row, col);
            index = (n * p.target_extents[0] + row * p.cell[0]) * p.target_extents[1] + col * p.cell[1];
        }
        shared::store_u32(base + p.offsets_at() + 4 * position, offset);
        shared::store_u32(base + p.places_at() + 4 * position, place);
        shared::store_u32(base + p.indices_at() + 4 * position, index);
        position += GROUPED_THREADS;
    }
}

/// Queues the copies of a tile's source pixels to `to`, zeros where there are none.
///
/// # Safety
/// The tables are filled; `to` has `halo_bytes`.
#[inline(always)]
unsafe fn load_source(p: &GroupedMmaParams, share: Share, tile: u32, base: u32, to: u32) {
    let [n0, row0, col0] = tile_origin(p, tile);
    let row0 = (row0 * p.stride[0]) as i32 - p.padding[0];
    let col0 = (col0 * p.stride[1]) as i32 - p.padding[1];
    let chunk = thread_idx_x() % CHUNKS;
    let channel = share.first_channel + chunk * CHUNK;
    let mut pixel = thread_idx_x() / CHUNKS;
    while pixel < p.halo_pixels() {
        let [place, at] = shared::load_x2(base + 8 * pixel);
        let [n, row, col] = unpack_place(place);
        let (n, row, col) = (n0 + n, (row0 + row as i32) as u32, (col0 + col as i32) as u32);
        let there = n < p.n && row < p.source_extents[0] && col < p.source_extents[1] && channel < p.channels;
        let index = (n * p.source_extents[0] + row) * p.source_extents[1] + col;
        let offset = if there { u64::from(index) * u64::from(p.channels) + u64::from(channel) } else { 0 };
        let bytes = if there { CHUNK_BYTES } else { 0 };
        cp_async::copy_x4(to + at + chunk * CHUNK_BYTES, (p.source + 2 * offset) as *const u8, bytes);
        pixel += PIXELS_AT_ONCE;
    }
}
