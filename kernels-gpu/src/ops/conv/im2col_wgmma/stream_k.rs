//! `fprop` and `dgrad` where tiles are few, or their number leaves the last round short: workers share the stages of all
//! tiles, or of those of the last round, and the worker with the first part of a tile's sum adds the others (stream-K:
//! Osama et al., "Stream-K", PPoPP 2023; see [`left_sums`](super::left_sums)); or, where every tile has as many parts, each
//! worker of a tile adds up and writes some panels of it (see [`exchange`](super::exchange)).

use super::exchange::{Exchange, RunSlots, put};
use super::gather::{Address, Form, Panels, rank};
use super::left_sums::{Arriving, GroupSlots, QUADS, group_of, leave};
use super::parts::Parts;
use super::{Product, WARPGROUP};
use crate::math::vector;
use cuda_std::thread::{block_idx_x, grid_dim_x, thread_idx_x};
use cuda_std::{schedule, warp};
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvClass, ConvGatherParams, ConvStreamKParams, ConvTile, Evenly, GatherPlace, PANEL, SUM_RUN, StreamKWork,
};

impl Form for ConvStreamKParams {
    type Left = StreamKWork;

    #[inline(always)]
    fn params(&self) -> &ConvGatherParams {
        &self.gather
    }

    #[inline(always)]
    fn work(&self, tile: ConvTile) -> StreamKWork {
        let StreamKWork { tile, step, at, end } = ConvStreamKParams::work(self, worker(tile), workers(tile));
        let [tile, at, end] = [tile, at, end].map(warp::uniform_register);
        StreamKWork { tile, step, at, end }
    }

    #[inline(always)]
    fn is_left(&self, left: &StreamKWork) -> bool {
        ConvStreamKParams::is_left(self, left)
    }

    #[inline(always)]
    unsafe fn next<'a>(
        &self,
        left: &mut StreamKWork,
        at: Address,
        tile: ConvTile,
    ) -> (GatherPlace, &'a ConvClass, Panels) {
        let part = ConvStreamKParams::next(self, left);
        let [begin, end] = [part.begin, part.end].map(warp::uniform_register);
        [left.tile, left.at] = [left.tile, left.at].map(warp::uniform_register);
        let mut place = GatherPlace::new(&self.gather, tile, 0, part.tile);
        place.m += rank(tile) * tile.gemm_m;
        (place, at.class(0), Panels { tile: part.tile, begin, end })
    }

    /// Consumers share each tile.
    #[inline(always)]
    fn pass_over(&self, _: &mut StreamKWork, _: ConvTile, _: u32) {}

    /// Only of tiles that are never brought ahead.
    #[inline(always)]
    unsafe fn following_row(&self, _: &StreamKWork, _: Address, _: ConvTile) -> u32 {
        0
    }

    #[inline(always)]
    unsafe fn settle<P: Product<R, S>, const R: usize, const S: usize>(
        &self,
        d: &mut [[f32; R]; S],
        place: GatherPlace,
        panels: Panels,
        consumer: u32,
    ) -> u32 {
        const { assert!(S == 1 && !P::TILE.in_turns && GroupSlots::fit(P::TILE) && RunSlots::fit(P::TILE)) };
        if const { P::TILE.narrow_columns().is_some() } || self.parts > 0 {
            return share::<P, R, S>(self, d.get_unchecked_mut(0), place, panels, consumer);
        }
        // Opaque, so that no address is computed ahead of the products, which have all registers.
        let thread = schedule::opaque(consumer * WARPGROUP + thread_idx_x() % WARPGROUP);
        // A worker leaves sums of one tile at most, that in which it begins, which the first worker does not.
        let parts = parts_of(self, P::TILE, (0u32.wrapping_sub(1), 1), 1, (thread / 32, thread % 32));
        let groups = (self.gather.gemm_n - place.n).div_ceil(PANEL) as usize;
        let d = d.get_unchecked_mut(0);
        if panels.begin > 0 {
            leave(&parts, schedule::opaque(worker(P::TILE)), d, groups);
            return 0;
        }
        if panels.end < self.tile_stages.divisor {
            let (first, end) = self.parts_of(panels.tile);
            let others = (warp::uniform(first) + 1, warp::uniform(end));
            let groups = if groups < R / 32 { groups } else { R / 32 };
            let mut arriving = Arriving::begin(parts, others, groups);
            add::<R, 0>(d, &mut arriving, groups);
            if R > 32 {
                add::<R, 1>(d, &mut arriving, groups);
            }
            if R > 64 {
                add::<R, 2>(d, &mut arriving, groups);
            }
            if R > 96 {
                add::<R, 3>(d, &mut arriving, groups);
            }
        }
        !0
    }
}

/// Leaves what other workers of the tile add up of this part, and adds their sums to the panels of this worker, which it
/// returns, a bit each.
///
/// # Safety
/// As [`Form::settle`], with all workers of the tile at work.
#[inline(always)]
unsafe fn share<P: Product<R, S>, const R: usize, const S: usize>(
    p: &ConvStreamKParams,
    d: &mut [f32; R],
    place: GatherPlace,
    panels: Panels,
    consumer: u32,
) -> u32 {
    let tile = P::TILE;
    // Opaque, so that no address is computed ahead of the products, which have all registers.
    let thread = schedule::opaque(thread_idx_x() % WARPGROUP);
    let warp = warp::uniform(consumer * (WARPGROUP / 32) + thread / 32);
    let number = p.part_of(schedule::opaque(worker(tile)));
    let left = (p.gather.gemm_n - place.n).div_ceil(PANEL);
    let there = (1 << if left < tile.n_panels() { left } else { tile.n_panels() }) - 1;
    let own = warp::uniform_register(p.own_panels(tile, consumer, number) & there);
    let exchange = Exchange {
        parts: parts_of(p, tile, (panels.tile, p.gather.n_tiles), tile.sum_runs(), (warp, thread % 32)),
        n_parts: p.parts,
        number,
        runs: runs_of(tile, warp::uniform_register(there)),
        own: runs_of(tile, own),
    };
    exchange.leave(d);
    let mut arriving = exchange.begin();
    let mut left = exchange.own;
    while left != 0 {
        let run = left.trailing_zeros();
        let sums = arriving.sums(d, run);
        put(d, run, &sums);
        left &= left - 1;
    }
    own
}

/// The parts of a tile's sum, this block's rows of it: where part 0 is, and how far it is to the next, in tiles of clusters.
#[inline(always)]
fn parts_of(
    p: &ConvStreamKParams,
    tile: ConvTile,
    (first, step): (u32, u32),
    warp_flags: u32,
    (warp, lane): (u32, u32),
) -> Parts {
    let (partials, flags, tag) = (p.partials, p.flags, p.tag);
    Parts { partials, flags, tag, tile, warp_flags, first, step, warp, lane }.of_block(rank(tile))
}

/// The runs of some panels, two of each but of a narrow one.
#[inline(always)]
const fn runs_of(tile: ConvTile, panels: u32) -> u32 {
    const { assert!(PANEL == 2 * 8 * SUM_RUN) };
    // Four bits, the most there are, to every other place.
    let spread = (panels & 1) | (panels & 2) << 1 | (panels & 4) << 2 | (panels & 8) << 3;
    spread * 3 & ((1 << tile.sum_runs()) - 1)
}

/// The worker that this block's cluster is.
#[inline(always)]
fn worker(tile: ConvTile) -> u32 {
    Evenly::worker(block_idx_x() / tile.cluster, workers(tile))
}

/// How many there are.
#[inline(always)]
fn workers(tile: ConvTile) -> u32 {
    grid_dim_x() / tile.cluster
}

/// Adds the other parts to a thread's sums of group `GROUP`, unless nobody has columns there.
///
/// # Safety
/// As [`Arriving::add`].
#[inline(always)]
unsafe fn add<const R: usize, const GROUP: usize>(d: &mut [f32; R], arriving: &mut Arriving, groups: usize) {
    if GROUP >= groups {
        return;
    }
    let mut sums = group_of::<R, GROUP>(d);
    arriving.add(&mut sums);
    vector::for_each!(Q < QUADS, {
        let mut i = 0;
        while i < 4 {
            *d.get_unchecked_mut(4 * (GROUP * QUADS + Q) + i) = sums[Q][i];
            i += 1;
        }
    });
}
