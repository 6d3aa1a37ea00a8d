//! `wgrad`: rows are channels of dy, columns filter elements, and a block adds up a slab of pixels.

use super::gather::{elems, load_runs, load_target, run_at};
use super::{Sums, TileElement, fill_taps, pipeline, split, store_pixel, warp_place};
use crate::math::index::div_rem_u32 as div_rem;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::{shared, warp};
use kernel_abi::ops::conv::ConvPass;
use kernel_abi::ops::conv::cp_async_mma::{CP_ASYNC_ENTRY_BYTES, CP_ASYNC_K, CpAsyncMmaParams};

/// partials\[slab\] = the gradient by w of a slab of pixels. `ROWS` is `SIZE / 32`.
///
/// # Safety
/// The host passes live tensors of the extents in `p`, partial sums for all slabs, and shared memory for the tile.
#[inline(always)]
pub(crate) unsafe fn wgrad<T: TileElement, const V: u32, const SIZE: u32, const ROWS: usize>(p: &CpAsyncMmaParams) {
    let (slab, tile) = div_rem(block_idx_x(), p.n_tiles * p.m_tiles * p.groups);
    let place = GradientTile::new::<SIZE>(p, tile);
    let sums = slab_sums::<T, V, SIZE, ROWS>(p, place, slab);
    let warp = warp_place::<SIZE>(warp::uniform(thread_idx_x() / 32));
    T::write_slab::<SIZE, ROWS>(p, &sums, slab, place, warp);
}

/// A tile of the gradient.
#[derive(Clone, Copy)]
pub(in super::super) struct GradientTile {
    pub(in super::super) group: u32,
    pub(in super::super) first_channel: u32,
    pub(in super::super) first_element: u32,
}

impl GradientTile {
    /// The tile of this number: neighbours have the same channels of dy.
    #[inline(always)]
    pub(in super::super) fn new<const SIZE: u32>(p: &CpAsyncMmaParams, tile: u32) -> Self {
        let (rest, n_tile) = div_rem(tile, p.n_tiles);
        let (group, m_tile) = div_rem(rest, p.m_tiles);
        GradientTile { group, first_channel: m_tile * SIZE, first_element: n_tile * SIZE }
    }
}

/// A warp's sums over the pixels of a slab, of which there may be none.
///
/// # Safety
/// As [`wgrad`]; all threads call it.
#[inline(always)]
pub(in super::super) unsafe fn slab_sums<T: TileElement, const V: u32, const SIZE: u32, const ROWS: usize>(
    p: &CpAsyncMmaParams,
    place: GradientTile,
    slab: u32,
) -> Sums<ROWS> {
    let tile = T::tile(SIZE);
    let [d, h, w] = p.target_extents;
    let n_pixels = p.n * d * h * w;
    let first_pixel = if slab * p.slab_pixels < n_pixels { slab * p.slab_pixels } else { n_pixels };
    let end_pixel = if n_pixels - first_pixel < p.slab_pixels { n_pixels } else { first_pixel + p.slab_pixels };
    let taps_at = shared::dynamic_address();
    let pixels_at = taps_at + tile.pixels_at(p.taps());
    let stages = taps_at + tile.stages_at(p.taps(), ConvPass::Wgrad);
    // The table of pixels is a ring too, one step ahead of the copies that read it.
    let fill_pixels = |step: u32| {
        if thread_idx_x() < CP_ASYNC_K {
            let pixel = first_pixel + step * CP_ASYNC_K + thread_idx_x();
            let [n, d, h, w] = split(pixel, p.target_extents);
            let at = pixels_at + (step % tile.stages() * CP_ASYNC_K + thread_idx_x()) * CP_ASYNC_ENTRY_BYTES;
            store_pixel(p, at, pixel < end_pixel, n, [d * p.stride[0], h * p.stride[1], w * p.stride[2]]);
        }
    };
    let n_taps = fill_taps(p, taps_at, false, [0; 3]);
    let steps = (end_pixel - first_pixel).div_ceil(CP_ASYNC_K);
    let v = elems::<V>(p.source_elems);
    let run = run_at(p, taps_at, n_taps, place.group, place.first_element + thread_idx_x() % (SIZE / v) * v);
    let warp = warp_place::<SIZE>(warp::uniform(thread_idx_x() / 32));
    let b_at = tile.operand_bytes(false);
    let mut attempt = warp::uniform(0);
    loop {
        let mut step = 0;
        while step < tile.stages() {
            fill_pixels(step);
            step += 1;
        }
        sync_threads();
        let mut sums: Sums<ROWS> = [[[0.0; 4]; 4]; ROWS];
        pipeline::<T>(
            tile,
            steps,
            stages,
            tile.stage_bytes(ConvPass::Wgrad),
            |step, stage| {
                if step < steps {
                    let first = first_pixel + step * CP_ASYNC_K;
                    load_target::<T, V, SIZE>(p, stage, place.group, place.first_channel, first, end_pixel);
                    let table = pixels_at + step % tile.stages() * CP_ASYNC_K * CP_ASYNC_ENTRY_BYTES;
                    load_runs::<T, V, SIZE>(p, stage + b_at, table, &run);
                }
                // In its place the next copies find their pixels; those that were there have been copied long ago.
                if step >= tile.stages() - 1 {
                    fill_pixels(step + 1);
                }
            },
            |stage| T::multiply::<SIZE, ROWS, true, true>(&mut sums, stage, stage + b_at, warp, attempt),
        );
        if !T::again(&sums, attempt) {
            return sums;
        }
        attempt += 1;
    }
}
