//! `wgrad`: rows are channels of dy, columns filter elements, and a block adds up a slab of pixels.

use super::super::grouped_mma::unroll;
use super::gather::{load_runs, load_target, run_at};
use super::product::{Sums, multiply, warp_place};
use super::{div_rem, fill_taps, pipeline, split, store_pixel};
use crate::math::tensor_core::TensorCore;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{shared, warp};
use kernel_abi::ops::conv::ConvPass;
use kernel_abi::ops::conv::cp_async_mma::{
    CP_ASYNC_ENTRY_BYTES, CP_ASYNC_K, CP_ASYNC_STAGES, CpAsyncMmaParams, CpAsyncTile,
};

/// partials\[slab\] = the gradient by w of a slab of pixels. `ROWS` is `SIZE / 32`.
///
/// # Safety
/// The host passes live tensors of the extents in `p`, partial sums for all slabs, and shared memory for the tile.
#[inline(always)]
pub(crate) unsafe fn wgrad<T: TensorCore, const V: u32, const SIZE: u32, const ROWS: usize>(p: &CpAsyncMmaParams) {
    let tile = CpAsyncTile(SIZE);
    let (rest, n_tile) = div_rem(block_idx_x(), p.n_tiles);
    let (rest, m_tile) = div_rem(rest, p.m_tiles);
    let (slab, group) = div_rem(rest, p.groups);
    let [d, h, w] = p.target_extents;
    let n_pixels = p.n * d * h * w;
    let first_pixel = slab * p.slab_pixels;
    let end_pixel = if n_pixels - first_pixel < p.slab_pixels { n_pixels } else { first_pixel + p.slab_pixels };
    let taps_at = shared::dynamic_address();
    let pixels_at = taps_at + tile.pixels_at(p.taps());
    let stages = taps_at + tile.stages_at(p.taps(), ConvPass::Wgrad);
    // The table of pixels is a ring too, one step ahead of the copies that read it.
    let fill_pixels = |step: u32| {
        if thread_idx_x() < CP_ASYNC_K {
            let pixel = first_pixel + step * CP_ASYNC_K + thread_idx_x();
            let [n, d, h, w] = split(pixel, p.target_extents);
            let at = pixels_at + (step % CP_ASYNC_STAGES * CP_ASYNC_K + thread_idx_x()) * CP_ASYNC_ENTRY_BYTES;
            store_pixel(p, at, pixel < end_pixel, n, [d * p.stride[0], h * p.stride[1], w * p.stride[2]]);
        }
    };
    let mut step = 0;
    while step < CP_ASYNC_STAGES {
        fill_pixels(step);
        step += 1;
    }
    let n_taps = fill_taps(p, taps_at, false, [0; 3]);
    let steps = (end_pixel - first_pixel).div_ceil(CP_ASYNC_K);
    let (first_channel, first_element) = (m_tile * SIZE, n_tile * SIZE);
    let run = run_at(p, taps_at, n_taps, group, first_element + thread_idx_x() % (SIZE / V) * V);
    let warp = warp_place::<SIZE>(warp::uniform(thread_idx_x() / 32));
    let mut sums: Sums<ROWS> = [[[0.0; 4]; 4]; ROWS];
    let b_at = tile.operand_bytes(false);
    pipeline(
        steps,
        stages,
        tile.stage_bytes(ConvPass::Wgrad),
        |step, stage| {
            if step < steps {
                let first = first_pixel + step * CP_ASYNC_K;
                load_target::<V, SIZE>(p, stage, group, first_channel, first, end_pixel);
                let table = pixels_at + step % CP_ASYNC_STAGES * CP_ASYNC_K * CP_ASYNC_ENTRY_BYTES;
                load_runs::<V, SIZE>(p, stage + b_at, table, &run);
            }
            // In its place the next copies find their pixels; those that were there have been copied long ago.
            if step >= CP_ASYNC_STAGES - 1 {
                fill_pixels(step + 1);
            }
        },
        |stage| multiply::<T, SIZE, ROWS, true, true>(&mut sums, stage, stage + b_at, warp),
    );
    write_partials::<ROWS>(p, &sums, slab, group, [first_channel + warp[0], first_element + warp[1]]);
}

/// Writes a warp's sums.
///
/// # Safety
/// As [`wgrad`].
#[inline(always)]
unsafe fn write_partials<const ROWS: usize>(
    p: &CpAsyncMmaParams,
    sums: &Sums<ROWS>,
    slab: u32,
    group: u32,
    [row, column]: [u32; 2],
) {
    let lane = thread_idx_x() % 32;
    let length = p.taps() * p.source_group;
    let slab_elems = u64::from(p.groups * p.target_group) * u64::from(length);
    let slab = (p.partials as *mut f32).add((u64::from(slab) * slab_elems) as usize);
    unroll!(I in [0 1 2 3] {
        if I < ROWS {
            unroll!(J in [0 1 2 3] {
                unroll!(E in [0 1 2 3] {
                    let channel = row + 16 * I as u32 + 8 * (E / 2) as u32 + lane / 4;
                    let element = column + 8 * J as u32 + lane % 4 * 2 + (E % 2) as u32;
                    if channel < p.target_group && element < length {
                        let at = u64::from(group * p.target_group + channel) * u64::from(length) + u64::from(element);
                        *slab.add(at as usize) = sums[I % ROWS][J][E];
                    }
                });
            });
        }
    });
}
