//! `fprop` and `dgrad`: rows are pixels of the tensor that is written.

use super::super::grouped_mma::unroll;
use super::gather::{load_filter_columns, load_filter_rows, load_spread_columns, load_windows};
use super::{NO_PIXEL, Sums, TileElement, fill_distances, fill_taps, pipeline, split, store_pixel, warp_place};
use crate::math::index::div_rem_u32 as div_rem;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{shared, warp};
use kernel_abi::ops::conv::ConvPass;
use kernel_abi::ops::conv::cp_async_mma::{CP_ASYNC_ENTRY_BYTES, CP_ASYNC_K, CpAsyncMmaParams};

/// target = conv(source, filter). `ROWS` is `SIZE / 32`.
///
/// # Safety
/// The host passes live tensors of the extents in `p`, and shared memory for the tile.
#[inline(always)]
pub(crate) unsafe fn fprop<T: TileElement, const V: u32, const SIZE: u32, const ROWS: usize>(p: &CpAsyncMmaParams) {
    forward::<T, V, SIZE, ROWS, false>(p)
}

/// The gradient by x.
///
/// # Safety
/// As [`fprop`].
#[inline(always)]
pub(crate) unsafe fn dgrad<T: TileElement, const V: u32, const SIZE: u32, const ROWS: usize>(p: &CpAsyncMmaParams) {
    forward::<T, V, SIZE, ROWS, true>(p)
}

/// # Safety
/// As [`fprop`].
#[inline(always)]
unsafe fn forward<T: TileElement, const V: u32, const SIZE: u32, const ROWS: usize, const DGRAD: bool>(
    p: &CpAsyncMmaParams,
) {
    let pass = if DGRAD { ConvPass::Dgrad } else { ConvPass::Fprop };
    let tile = T::tile(SIZE);
    // Neighbouring blocks take neighbouring channels of the same pixels.
    let (rest, n_tile) = div_rem(block_idx_x(), p.n_tiles);
    let (rest, group) = div_rem(rest, p.groups);
    let (class, m_tile) = div_rem(rest, p.m_tiles);
    let [_, class_d, class_h, class_w] = split(class, p.classes);
    let class = [class_d, class_h, class_w];
    // Positions of the class along each axis.
    let mut extents = p.target_extents;
    if DGRAD {
        unroll!(AXIS in [0 1 2] {
            extents[AXIS] = div_rem(p.target_extents[AXIS] - class[AXIS] + p.stride[AXIS] - 1, p.stride[AXIS]).0;
        });
    }
    let n_pixels = p.n * extents[0] * extents[1] * extents[2];
    let first_pixel = m_tile * SIZE;
    if first_pixel >= n_pixels {
        return;
    }
    let taps_at = shared::dynamic_address();
    let pixels_at = taps_at + tile.pixels_at(p.taps());
    let outputs_at = pixels_at + tile.pixel_entries(pass) * CP_ASYNC_ENTRY_BYTES;
    let stages = taps_at + tile.stages_at(p.taps(), pass);
    if thread_idx_x() < SIZE {
        let pixel = first_pixel + thread_idx_x();
        let [n, d, h, w] = split(pixel, extents);
        let at = [d, h, w];
        let (mut from, mut to) = ([0; 3], at);
        unroll!(AXIS in [0 1 2] {
            if DGRAD {
                from[AXIS] = at[AXIS];
                to[AXIS] = class[AXIS] + at[AXIS] * p.stride[AXIS];
            } else {
                from[AXIS] = at[AXIS] * p.stride[AXIS];
            }
        });
        let there = pixel < n_pixels;
        store_pixel(p, pixels_at + thread_idx_x() * CP_ASYNC_ENTRY_BYTES, there, n, from);
        let target = p.target_extents;
        let output = ((n * target[0] + to[0]) * target[1] + to[1]) * target[2] + to[2];
        shared::store_u32(outputs_at + 4 * thread_idx_x(), if there { output } else { NO_PIXEL });
    }
    // Only kernels whose copies may be of single elements have columns of several classes.
    let spread = DGRAD && V == 0 && p.spread_classes != 0;
    let n_taps = if spread { fill_distances(p, taps_at) } else { fill_taps(p, taps_at, DGRAD, class) };
    let steps = (n_taps * p.source_group).div_ceil(CP_ASYNC_K);
    let first_channel = n_tile * SIZE;
    let warp = warp_place::<SIZE>(warp::uniform(thread_idx_x() / 32));
    let b_at = tile.operand_bytes(true);
    let mut attempt = warp::uniform(0);
    let sums = loop {
        let mut sums: Sums<ROWS> = [[[0.0; 4]; 4]; ROWS];
        pipeline::<T>(
            tile,
            steps,
            stages,
            tile.stage_bytes(pass),
            |step, stage| {
                if step < steps {
                    let first = step * CP_ASYNC_K;
                    load_windows::<T, V, SIZE>(p, stage, pixels_at, taps_at, n_taps, group, first);
                    let to = stage + b_at;
                    if spread {
                        load_spread_columns::<T, SIZE>(p, to, taps_at, n_taps, group, first_channel, first);
                    } else if DGRAD {
                        load_filter_columns::<T, V, SIZE>(p, to, taps_at, n_taps, group, first_channel, first);
                    } else {
                        load_filter_rows::<T, V, SIZE>(p, to, group, first_channel, first);
                    }
                }
            },
            |stage| {
                if DGRAD {
                    T::multiply::<SIZE, ROWS, false, true>(&mut sums, stage, stage + b_at, warp, attempt);
                } else {
                    T::multiply::<SIZE, ROWS, false, false>(&mut sums, stage, stage + b_at, warp, attempt);
                }
            },
        );
        if !T::again(&sums, attempt) {
            break sums;
        }
        attempt += 1;
    };
    if spread {
        T::write_spread::<SIZE, ROWS>(p, &sums, pixels_at, warp, group, first_channel);
    } else {
        T::write::<SIZE, ROWS>(p, &sums, outputs_at, warp, group, first_channel);
    }
}
