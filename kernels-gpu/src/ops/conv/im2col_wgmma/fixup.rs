//! `wgrad` without a second kernel: the worker with the first part of a tile's sum adds the others, in their order, and
//! writes dw (see [`left_sums`](super::left_sums)); or, where all sums are split into as many parts, every worker of a tile
//! adds up a share of it (see [`exchange`](super::exchange)).
//!
//! dw is written in rows by 16 bytes (see [`filter_rows`](super::filter_rows)).

use super::exchange::{Exchange, RUN, RunSlots};
use super::filter_rows::FilterRows;
use super::left_sums::{Arriving, GroupSlots, QUADS, group_of, leave};
use super::parts::Parts;
use super::wgrad::{Form, rank};
use super::{Half, Product, WARPGROUP};
use cuda_std::thread::thread_idx_x;
use cuda_std::warp;
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvTile, ConvWgradFixupParams, ConvWgradParams, Evenly, PANEL, SUM_RUN, WgradPart, WgradWork,
};

impl Form for ConvWgradFixupParams {
    #[inline(always)]
    fn params(&self) -> &ConvWgradParams {
        &self.wgrad
    }

    #[inline(always)]
    fn work(&self, index: u32, n: u32) -> WgradWork {
        self.wgrad.work(Evenly::worker(index, n), n)
    }

    #[inline(always)]
    unsafe fn finish<P: Product<R, 1>, E: Half, const R: usize>(
        &self,
        d: &[[f32; R]; 1],
        part: WgradPart,
        consumer: u32,
    ) {
        const { assert!(GroupSlots::fit(P::TILE) && RunSlots::fit(P::TILE)) };
        if self.all_add != 0 {
            share::<P, E, R>(self, &d[0], part, consumer);
            return;
        }
        let place = Place::of(P::TILE, part, consumer);
        let (groups, held) = (place.panels(&self.wgrad), R as u32 / (4 * QUADS as u32));
        let groups = warp::uniform(if groups < held { groups } else { held }) as usize;
        let parts = parts_of(self, P::TILE, part, 1, (place.warp, place.lane));
        let [d] = d;
        if part.begin > 0 {
            leave(&parts, part.number, d, groups);
            return;
        }
        let (first, end) = self.wgrad.parts_of(part.tile);
        let others = (warp::uniform(first) + 1, warp::uniform(end));
        let mut arriving = Arriving::begin(parts, others, groups);
        let out = Out { p: &self.wgrad, rows: place.rows(&self.wgrad, P::TILE, part), first: place.panel, groups };
        out.add::<E, R, 0>(d, &mut arriving);
        if R > 32 {
            out.add::<E, R, 1>(d, &mut arriving);
        }
        if R > 64 {
            out.add::<E, R, 2>(d, &mut arriving);
        }
        if R > 96 {
            out.add::<E, R, 3>(d, &mut arriving);
        }
    }
}

/// Leaves what other workers of the tile add up of this part, and adds up and writes this worker's share.
///
/// # Safety
/// As [`Form::finish`], with all workers of the tile at work.
#[inline(always)]
unsafe fn share<P: Product<R, 1>, E: Half, const R: usize>(
    p: &ConvWgradFixupParams,
    held: &[f32; R],
    part: WgradPart,
    consumer: u32,
) {
    /// Runs whose columns lie in one panel.
    const RUNS_OF_PANEL: u32 = PANEL / (8 * SUM_RUN);
    let tile = P::TILE;
    let place = Place::of(tile, part, consumer);
    let runs = place.panels(&p.wgrad) * RUNS_OF_PANEL;
    let runs = (1 << if runs < tile.sum_runs() { runs } else { tile.sum_runs() }) - 1;
    let exchange = Exchange {
        parts: parts_of(p, tile, part, tile.sum_runs(), (place.warp, place.lane)),
        n_parts: p.wgrad.splits,
        number: part.number,
        runs: warp::uniform_register(runs),
        own: warp::uniform_register(p.own_runs(tile, place.warp, part.number) & runs),
    };
    exchange.leave(held);
    let mut arriving = exchange.begin();
    let rows = place.rows(&p.wgrad, tile, part);
    let mut own = exchange.own;
    while own != 0 {
        let run = own.trailing_zeros();
        let (tap, first_c) = p.wgrad.linear_tap_and_channel(place.panel + run / RUNS_OF_PANEL, PANEL);
        let [a, b, c, d] = arriving.sums(held, run);
        rows.write::<E, { RUN / 2 }>(tap, first_c + run % RUNS_OF_PANEL * (PANEL / RUNS_OF_PANEL), [[a, b], [c, d]]);
        own &= own - 1;
    }
}

/// What a warp of the consumers has of a tile.
struct Place {
    warp: u32,
    lane: u32,
    /// The first panel of columns.
    panel: u32,
}

impl Place {
    #[inline(always)]
    fn of(tile: ConvTile, part: WgradPart, consumer: u32) -> Self {
        let thread = thread_idx_x() % WARPGROUP;
        let warp = warp::uniform(consumer * (WARPGROUP / 32) + thread / 32);
        let columns = if tile.shares_columns() { consumer * tile.consumer_columns() } else { 0 };
        Place { warp, lane: thread % 32, panel: part.place.panel + columns / PANEL }
    }

    /// The panels from there on.
    #[inline(always)]
    fn panels(&self, p: &ConvWgradParams) -> u32 {
        p.n_panels.saturating_sub(self.panel)
    }

    #[inline(always)]
    fn rows<'a>(&self, p: &'a ConvWgradParams, tile: ConvTile, part: WgradPart) -> FilterRows<'a> {
        FilterRows::new(p, tile, part.place, (self.warp, self.lane))
    }
}

/// The parts of a tile's sum, this block's rows of it.
#[inline(always)]
fn parts_of(
    p: &ConvWgradFixupParams,
    tile: ConvTile,
    part: WgradPart,
    warp_flags: u32,
    (warp, lane): (u32, u32),
) -> Parts {
    let (first, step) = p.places(part.tile);
    let (partials, flags, tag) = (p.wgrad.partials, p.flags, p.tag);
    Parts { partials, flags, tag, tile, warp_flags, first, step, warp, lane }.of_block(rank(tile))
}

/// Where a warp's sums of a tile go.
struct Out<'a> {
    p: &'a ConvWgradParams,
    rows: FilterRows<'a>,
    /// The first panel, and how many there are.
    first: u32,
    groups: usize,
}

impl Out<'_> {
    /// Adds the other parts to the quads of group `GROUP`, and writes the sums to dw.
    ///
    /// # Safety
    /// As [`Form::finish`]; in the order of the groups.
    #[inline(always)]
    unsafe fn add<E: Half, const R: usize, const GROUP: usize>(&self, d: &[f32; R], arriving: &mut Arriving) {
        if GROUP >= self.groups {
            return;
        }
        let mut sums = group_of::<R, GROUP>(d);
        arriving.add(&mut sums);
        let (tap, first_c) = self.p.linear_tap_and_channel(self.first + GROUP as u32, PANEL);
        let [a, b, c, d, e, f, g, h] = sums;
        self.rows.write::<E, { QUADS / 2 }>(tap, first_c, [[a, b], [c, d], [e, f], [g, h]]);
    }
}
