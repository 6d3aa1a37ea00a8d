//! The way of a block's sums out: through the shared memory of the stages, so that neighbouring threads write neighbouring
//! elements.

use super::super::cp_async_mma::{GradientTile, NO_PIXEL, Sums, split};
use super::super::grouped_mma::unroll;
use super::{PIECE_BYTES, depth_of};
use crate::math::index::div_rem_u32 as div_rem;
use cuda_std::memory::X4;
use cuda_std::shared;
use cuda_std::thread::{sync_threads, thread_idx_x};
use kernel_abi::ops::conv::ConvPass;
use kernel_abi::ops::conv::cp_async_mma::{CP_ASYNC_ENTRY_BYTES, CpAsyncMmaParams, CpAsyncTile};

/// Four neighbouring sums of a row of the tile.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) row: u32,
    pub(super) column: u32,
    /// Where it lies from the tile's begin on.
    pub(super) at: u32,
}

impl Piece {
    /// Pieces of a tile.
    pub(super) const fn count<const SIZE: u32>() -> u32 {
        SIZE * SIZE / 4
    }

    /// The piece of this number, row by row.
    #[inline(always)]
    pub(super) fn new<const SIZE: u32>(number: u32) -> Self {
        Self::at::<SIZE>(number / (SIZE / 4), number % (SIZE / 4))
    }

    /// Pieces of rows that a warp holds side by side, one or four rows apart, lie in different banks.
    #[inline(always)]
    fn at<const SIZE: u32>(row: u32, piece: u32) -> Self {
        let place = row * (SIZE / 4) + (piece ^ ((row ^ (row / 4)) & 1));
        Piece { row, column: 4 * piece, at: place * PIECE_BYTES }
    }
}

/// Keeps a block's sums in a tile in shared memory, one for each group of warps; the rows' operand lay across the sum where
/// `WIDE`.
///
/// # Safety
/// There is shared memory for the tile; all threads call it.
#[inline(always)]
pub(super) unsafe fn keep<const SIZE: u32, const ROWS: usize, const WIDE: bool>(
    tile_at: u32,
    sums: &Sums<ROWS>,
    [row, column]: [u32; 2],
) {
    let lane = thread_idx_x() % 32;
    let tile_at = tile_at + depth_of::<SIZE>() * Piece::count::<SIZE>() * PIECE_BYTES;
    // Nobody reads the stages any more.
    sync_threads();
    unroll!(I in [0 1 2 3] {
        if I < ROWS {
            unroll!(HALF in [0 1] {
                let (i, half) = (I as u32, HALF as u32);
                let row = row + if WIDE {
                    i / 2 * 32 + lane / 4 * 4 + i % 2 * 2 + half
                } else {
                    16 * i + 8 * half + lane / 4
                };
                unroll!(LAST in [0 1] {
                    let piece = Piece::at::<SIZE>(row, column / 4 + lane % 4 * 2 + LAST as u32);
                    let bits = [0, 1, 2, 3].map(|j: usize| sums[I % ROWS][j][2 * HALF + LAST].to_bits());
                    shared::store_x4(tile_at + piece.at, bits);
                });
            });
        }
    });
}

/// Writes four sums, as far as there are columns: `columns` from the first on.
///
/// # Safety
/// `at` is the place of the first.
#[inline(always)]
unsafe fn write_piece(p: &CpAsyncMmaParams, at: u64, columns: i32, sums: [f32; 4]) {
    let scaled = sums.map(|sum| p.alpha * sum);
    if p.wide_stores != 0 {
        if columns > 0 {
            let to = at as *mut X4<f32>;
            let mut v = scaled;
            if p.beta != 0.0 {
                let prior = (*to).0;
                v = [0, 1, 2, 3].map(|i: usize| scaled[i] + p.beta * prior[i]);
            }
            *to = X4(v);
        }
        return;
    }
    unroll!(I in [0 1 2 3] {
        if columns > I as i32 {
            let to = (at as *mut f32).add(I);
            *to = scaled[I] + if p.beta != 0.0 { p.beta * *to } else { 0.0 };
        }
    });
}

/// Writes a block's sums of `fprop` or `dgrad`.
///
/// # Safety
/// The table of outputs is filled, with the stages behind it; tensors are live; all threads call it.
#[inline(always)]
pub(super) unsafe fn pixels<const SIZE: u32, const ROWS: usize>(
    p: &CpAsyncMmaParams,
    sums: &Sums<ROWS>,
    outputs_at: u32,
    warp: [u32; 2],
    group: u32,
    first_channel: u32,
) {
    let tile_at = outputs_at + 4 * SIZE;
    keep::<SIZE, ROWS, false>(tile_at, sums, warp);
    sync_threads();
    let channels = u64::from(p.groups * p.target_group);
    let mut i = thread_idx_x();
    while i < Piece::count::<SIZE>() {
        let piece = Piece::new::<SIZE>(i);
        let pixel = shared::load_u32(outputs_at + 4 * piece.row);
        if pixel != NO_PIXEL {
            let channel = first_channel + piece.column;
            let place = u64::from(pixel) * channels + u64::from(group * p.target_group + channel);
            let sums = shared::load_x4(tile_at + piece.at).map(f32::from_bits);
            write_piece(p, p.target + 4 * place, p.target_group as i32 - channel as i32, sums);
        }
        i += CpAsyncTile::new(SIZE, 4).threads();
    }
}

/// Writes a block's sums of a `dgrad` whose columns are the classes' beside each other, element by element.
///
/// # Safety
/// As [`pixels`]; the table of pixels has the position of each row among those of its class.
#[inline(always)]
pub(super) unsafe fn spread<const SIZE: u32, const ROWS: usize>(
    p: &CpAsyncMmaParams,
    sums: &Sums<ROWS>,
    pixels_at: u32,
    warp: [u32; 2],
    group: u32,
    first_column: u32,
) {
    let outputs_at = pixels_at + CP_ASYNC_ENTRY_BYTES * SIZE;
    let tile_at = outputs_at + 4 * SIZE;
    keep::<SIZE, ROWS, false>(tile_at, sums, warp);
    sync_threads();
    let column = thread_idx_x() % SIZE;
    let (class, channel) = div_rem(first_column + column, p.target_group);
    let [beyond, d, h, w] = split(class, p.stride);
    let class = [d, h, w];
    let behind = (d * p.target_extents[1] + h) * p.target_extents[2] + w;
    let channels = u64::from(p.groups * p.target_group);
    let mut row = thread_idx_x() / SIZE;
    while row < SIZE {
        let pixel = shared::load_u32(outputs_at + 4 * row);
        let position = shared::load_x4(pixels_at + row * CP_ASYNC_ENTRY_BYTES);
        let mut there = pixel != NO_PIXEL && beyond == 0;
        unroll!(AXIS in [0 1 2] {
            there = there && position[AXIS + 1].wrapping_mul(p.stride[AXIS]) + class[AXIS] < p.target_extents[AXIS];
        });
        if there {
            let place = u64::from(pixel + behind) * channels + u64::from(group * p.target_group + channel);
            let piece = Piece::at::<SIZE>(row, column / 4);
            let to = (p.target as *mut f32).add(place as usize);
            let scaled = p.alpha * shared::load_f32(tile_at + piece.at + column % 4 * 4);
            *to = scaled + if p.beta != 0.0 { p.beta * *to } else { 0.0 };
        }
        row += CpAsyncTile::new(SIZE, 4).threads() / SIZE;
    }
}

/// Writes a block's sums of a slab of `wgrad`.
///
/// # Safety
/// There are partial sums for all slabs; all threads call it.
#[inline(always)]
pub(super) unsafe fn slab<const SIZE: u32, const ROWS: usize>(
    p: &CpAsyncMmaParams,
    sums: &Sums<ROWS>,
    slab: u32,
    place: GradientTile,
    warp: [u32; 2],
) {
    let tile = CpAsyncTile::new(SIZE, 4);
    let tile_at = shared::dynamic_address() + tile.stages_at(p.taps(), ConvPass::Wgrad);
    keep::<SIZE, ROWS, true>(tile_at, sums, warp);
    sync_threads();
    let mut i = thread_idx_x();
    while i < Piece::count::<SIZE>() {
        let piece = Piece::new::<SIZE>(i);
        write_gradient(p, slab, place, piece, shared::load_x4(tile_at + piece.at).map(f32::from_bits));
        i += tile.threads();
    }
}

/// Writes four neighbouring elements of a channel's gradient, as far as there are.
///
/// # Safety
/// There are partial sums for the slab.
#[inline(always)]
pub(super) unsafe fn write_gradient(
    p: &CpAsyncMmaParams,
    slab: u32,
    place: GradientTile,
    piece: Piece,
    sums: [f32; 4],
) {
    let length = p.taps() * p.source_group;
    let (channel, element) = (place.first_channel + piece.row, place.first_element + piece.column);
    if channel < p.target_group {
        let channels = u64::from(p.groups * p.target_group);
        let row = u64::from(slab) * channels + u64::from(place.group * p.target_group + channel);
        let at = p.partials + 4 * (row * u64::from(length) + u64::from(element));
        write_piece(p, at, length as i32 - element as i32, sums);
    }
}
