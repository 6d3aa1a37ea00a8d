//! Adds the partial sums of a split `wgrad`, in the order of the splits.
//!
//! Grid: one-dimensional. Block: 256; `sharers` threads share four sums, each takes every so manieth part. The partial
//! sums lie as the threads of the first kernel held them, so that both kernels access them in runs of 16 bytes a thread.

use super::wgrad::store_quad;
use super::{Half, WARPGROUP};
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::{memory, schedule, shared_array};
use kernel_abi::ops::conv::im2col_wgmma::{
    CONSUMERS, ConvTile, ConvWgradParams, ConvWgradSumParams, SUM_THREADS, WGRAD_128X128, WgradPlace,
};

/// How the threads of a kind of kernels hold sums.
pub(in crate::ops::conv) trait Quads {
    /// One of its tiles.
    const TILE: ConvTile;

    /// Writes four sums of a thread to dw.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn store(p: &ConvWgradParams, tile: ConvTile, place: WgradPlace, thread: u32, quad: u32, v: [f32; 4]);
}

impl<E: Half> Quads for E {
    const TILE: ConvTile = WGRAD_128X128;

    #[inline(always)]
    unsafe fn store(p: &ConvWgradParams, tile: ConvTile, place: WgradPlace, thread: u32, quad: u32, v: [f32; 4]) {
        store_quad::<E>(p, tile, place, thread, quad, v);
    }
}

/// The kernel.
///
/// # Safety
/// The host passes what it gave to the first kernel.
#[inline(always)]
pub(in crate::ops::conv) unsafe fn run<E: Quads>(p: &ConvWgradSumParams) {
    schedule::launch_dependents();
    schedule::wait_for_predecessors();
    let tile = ConvTile { gemm_m: p.tile_m, gemm_n: p.tile_n, cluster: p.cluster, ..E::TILE };
    let threads = CONSUMERS * WARPGROUP;
    let quads = tile.partials() / 4;
    let n_quads = u64::from(p.wgrad.tiles() * tile.cluster) * u64::from(quads);
    // A power of two.
    let shift = (SUM_THREADS / (p.sharers | u32::from(p.sharers == 0))).trailing_zeros();
    let (share, own) = (thread_idx_x() >> shift, thread_idx_x() & ((1 << shift) - 1));
    // What the threads that share sums have of them.
    let parts = shared_array![[f32; 4]; SUM_THREADS as usize] as *mut [f32; 4];
    let mut first = u64::from(block_idx_x()) << shift;
    while first < n_quads {
        let i = first + u64::from(own);
        let place = Place::of(p, i, tile, quads).filter(|_| i < n_quads);
        let mut sum = [0.0f32; 4];
        if let Some(place) = &place {
            sum = place.sum(p, quads, share);
        }
        if p.sharers > 1 {
            let each = parts.add(thread_idx_x() as usize);
            *each = sum;
            sync_threads();
            let mut other = 1;
            while other < p.sharers && share == 0 {
                add(&mut sum, *each.add((other << shift) as usize));
                other += 1;
            }
            sync_threads();
        }
        if let (Some(place), 0) = (place, share) {
            let (quad, thread) = (place.quad / threads, place.quad % threads);
            let mut at = p.wgrad.place(tile, place.tile);
            at.m += place.rank * tile.gemm_m;
            E::store(&p.wgrad, tile, at, thread, quad, sum);
        }
        first += u64::from(grid_dim_x()) << shift;
    }
}

/// Four sums of a tile that has several parts.
struct Place {
    tile: u32,
    rank: u32,
    /// Which of the tile's.
    quad: u32,
    /// Who has the first part, and one behind who has the last.
    parts: (u32, u32),
}

impl Place {
    /// The sums with number `i` among those of all tiles; none where they are in dw already.
    #[inline(always)]
    fn of(p: &ConvWgradSumParams, i: u64, tile: ConvTile, quads: u32) -> Option<Self> {
        let block = i.checked_div(quads.into())? as u32;
        let quad = (i - u64::from(block) * u64::from(quads)) as u32;
        let index = block.checked_div(tile.cluster)?;
        let parts = p.wgrad.parts_of(index);
        (parts.1 > parts.0 + 1).then_some(Place { tile: index, rank: block - index * tile.cluster, quad, parts })
    }

    /// The sum of every `sharers`th part, from the one with number `share` on.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn sum(&self, p: &ConvWgradSumParams, quads: u32, share: u32) -> [f32; 4] {
        let (first, end) = self.parts;
        let load = |part: u32| {
            let slot = p.wgrad.slot_of(self.tile, part, first) * p.cluster + self.rank;
            let at = u64::from(slot) * u64::from(quads) + u64::from(self.quad);
            memory::load_x4((p.wgrad.partials + at * 16) as *const u32).map(f32::from_bits)
        };
        let mut sum = [0.0f32; 4];
        let mut part = first + share;
        // Four loads under way at a time: what this takes is their latency.
        while part + 3 * p.sharers < end {
            let four = [0, 1, 2, 3].map(|i| load(part + i * p.sharers));
            let [a, b, c, d] = four;
            add(&mut sum, a);
            add(&mut sum, b);
            add(&mut sum, c);
            add(&mut sum, d);
            part += 4 * p.sharers;
        }
        while part < end {
            add(&mut sum, load(part));
            part += p.sharers;
        }
        sum
    }
}

#[inline(always)]
fn add(sum: &mut [f32; 4], part: [f32; 4]) {
    let [a, b, c, d] = part;
    *sum = [sum[0] + a, sum[1] + b, sum[2] + c, sum[3] + d];
}
