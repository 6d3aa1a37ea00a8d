//! Adds the partial sums of a split `wgrad`, in the order of the splits.
//!
//! Grid: one-dimensional. Block: 256. A thread adds up [`SUM_RUN`] quads of one thread of the first kernel: where they
//! belong takes more instructions than to add them, so it is found once for all of them, and for a whole block alike.
//! `sharers` threads share a run, each takes every so manieth part. The partial sums lie as the threads of the first
//! kernel held them, so that both kernels access them in runs of 16 bytes a thread. Shared memory: 16 KB.

use super::Half;
use super::quads::{QuadPlace, store_quad};
use crate::math::vector;
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::{memory, schedule, shared_array};
use kernel_abi::division::div_rem_unless_below;
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvTile, ConvWgradParams, ConvWgradSumParams, SUM_RUN, SUM_THREADS, WGRAD_128X128, WgradPlace,
};

/// A run as a length.
const RUN: usize = SUM_RUN as usize;

/// How the threads of a kind of kernels hold sums.
pub(in crate::ops::conv) trait Quads {
    /// One of its tiles.
    const TILE: ConvTile;

    /// Writes four sums of a thread to dw.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn store(p: &ConvWgradParams, tile: ConvTile, place: WgradPlace, thread: u32, quad: u32, v: [f32; 4]);

    /// Writes a run of them, from quad `first` on.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn store_run(
        p: &ConvWgradParams,
        tile: ConvTile,
        place: WgradPlace,
        thread: u32,
        first: u32,
        v: &[[f32; 4]; RUN],
    ) {
        vector::for_each!(Q < RUN, { Self::store(p, tile, place, thread, first + Q as u32, v[Q]) });
    }
}

impl<E: Half> Quads for E {
    const TILE: ConvTile = WGRAD_128X128;

    #[inline(always)]
    unsafe fn store(p: &ConvWgradParams, tile: ConvTile, place: WgradPlace, thread: u32, quad: u32, v: [f32; 4]) {
        store_quad::<E>(p, tile, place, thread, quad, v);
    }

    #[inline(always)]
    unsafe fn store_run(
        p: &ConvWgradParams,
        tile: ConvTile,
        place: WgradPlace,
        thread: u32,
        first: u32,
        v: &[[f32; 4]; RUN],
    ) {
        if let Some(at) = QuadPlace::of(p, tile, place, thread, first) {
            vector::for_each!(Q < RUN, { at.to_the_right(Q as u32).store::<E>(p, place, v[Q]) });
        }
    }
}

/// The kernel.
///
/// # Safety
/// The host passes what it gave to the first kernel.
#[inline(always)]
pub(in crate::ops::conv) unsafe fn run<E: Quads>(p: &ConvWgradSumParams) {
    schedule::launch_dependents();
    let tile = ConvTile { gemm_m: p.tile_m, gemm_n: p.tile_n, panel_k: p.panel, cluster: p.cluster, ..E::TILE };
    let sharers = p.sharers | u32::from(p.sharers == 0);
    // A power of two.
    let slots = SUM_THREADS >> sharers.trailing_zeros();
    let (share, own) = div_rem_unless_below(thread_idx_x(), slots);
    let pieces = tile.sum_runs() * sharers;
    let n_pieces = p.wgrad.tiles() * tile.cluster * pieces;
    // What the threads that share sums have of them.
    let parts = shared_array![[f32; 4]; (SUM_RUN * SUM_THREADS) as usize] as *mut [f32; 4];
    let mut piece = block_idx_x();
    let mut block = Block::of(p, piece, pieces, tile);
    // All of the above may run beside the kernel before this one.
    schedule::wait_for_predecessors();
    while piece < n_pieces {
        if block.has_several() {
            let first = block.rest / sharers * SUM_RUN;
            let thread = block.rest % sharers * slots + own;
            let sums = block.sums(p, tile, (first, thread), (share, sharers));
            let mut at = p.wgrad.place(tile, block.tile);
            at.m += block.rank * tile.gemm_m;
            if sharers == 1 {
                E::store_run(&p.wgrad, tile, at, thread, first, &sums);
            } else {
                let each = parts.add(thread_idx_x() as usize);
                vector::for_each!(Q < RUN, { *each.add(Q * SUM_THREADS as usize) = sums[Q] });
                sync_threads();
                let mut quad = share;
                while quad < SUM_RUN {
                    let mut sum = [0.0; 4];
                    let mut other = 0;
                    while other < sharers {
                        add(&mut sum, *parts.add((quad * SUM_THREADS + other * slots + own) as usize));
                        other += 1;
                    }
                    E::store(&p.wgrad, tile, at, thread, first + quad, sum);
                    quad += sharers;
                }
                sync_threads();
            }
        }
        piece += grid_dim_x();
        block = Block::of(p, piece, pieces, tile);
    }
}

/// The sums of one block of the first kernel.
struct Block {
    tile: u32,
    rank: u32,
    /// Who has the first part, and one behind who has the last.
    parts: (u32, u32),
    /// Which piece of them.
    rest: u32,
}

impl Block {
    /// That of piece number `piece`, when each has so many pieces.
    #[inline(always)]
    fn of(p: &ConvWgradSumParams, piece: u32, pieces: u32, tile: ConvTile) -> Self {
        let (block, rest) = div_rem_unless_below(piece, pieces);
        let (index, rank) = div_rem_unless_below(block, tile.cluster);
        Block { tile: index, rank, parts: p.wgrad.parts_of(index), rest }
    }

    /// Whether there is something to add up; else the sums are in dw already.
    #[inline(always)]
    fn has_several(&self) -> bool {
        self.parts.1 > self.parts.0 + 1
    }

    /// The sums of a run of a thread: of every `sharers`th part, from the one with number `share` on.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn sums(
        &self,
        p: &ConvWgradSumParams,
        tile: ConvTile,
        (quad, thread): (u32, u32),
        (share, sharers): (u32, u32),
    ) -> [[f32; 4]; RUN] {
        let (first, end) = self.parts;
        let step = SUM_THREADS as usize;
        let own = p.wgrad.partials + u64::from(quad * SUM_THREADS + thread) * 16;
        let load = |part: u32| {
            let slot = p.wgrad.slot_of(self.tile, part, first) * p.cluster + self.rank;
            let at = (own + u64::from(slot) * u64::from(tile.partials() * 4)) as *const [u32; 4];
            let quad = |i: usize| memory::load_x4(at.add(i * step) as *const u32).map(f32::from_bits);
            [quad(0), quad(1), quad(2), quad(3)]
        };
        let mut sums = [[0.0f32; 4]; RUN];
        let mut part = first + share;
        while part < end {
            let some = load(part);
            vector::for_each!(Q < RUN, { add(&mut sums[Q], some[Q]) });
            part += sharers;
        }
        sums
    }
}

#[inline(always)]
fn add(sum: &mut [f32; 4], part: [f32; 4]) {
    let [a, b, c, d] = part;
    *sum = [sum[0] + a, sum[1] + b, sum[2] + c, sum[3] + d];
}
