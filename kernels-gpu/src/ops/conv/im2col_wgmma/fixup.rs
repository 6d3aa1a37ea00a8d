//! `wgrad` without a second kernel: the worker with the first part of a tile's sum adds the others, in their order, and
//! writes dw (see [`left_sums`](super::left_sums)); or, where all sums are split into as many parts, every worker of a tile
//! adds up a share of it (see [`exchange`](super::exchange)).
//!
//! Threads of four lanes exchange what they have of four neighbouring quads, so that dw is written by 16 bytes.

use super::exchange::{Exchange, RUN, Run};
use super::left_sums::{Arriving, QUADS, group_of, has_room, leave};
use super::parts::Parts;
use super::quads::QuadPlace;
use super::wgrad::{Form, rank};
use super::{Half, Product, WARPGROUP};
use crate::math::kmajor::transposed;
use crate::math::vector;
use cuda_std::memory;
use cuda_std::thread::thread_idx_x;
use cuda_std::warp;
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvTile, ConvWgradFixupParams, ConvWgradParams, Evenly, PANEL, SUM_RUN, WgradPart, WgradPlace, WgradWork,
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
        const { assert!(has_room(P::TILE)) };
        if self.all_add != 0 {
            share::<P, E, R>(self, &d[0], part, consumer);
            return;
        }
        let thread = consumer * WARPGROUP + thread_idx_x() % WARPGROUP;
        let out = Out { p: &self.wgrad, tile: P::TILE, part, thread };
        let mut groups = 0;
        while 4 * QUADS * groups < R && out.place(groups).is_some() {
            groups += 1;
        }
        let parts = parts_of(self, P::TILE, part, 1, (warp::uniform(thread / 32), thread % 32));
        let [d] = d;
        if part.begin > 0 {
            leave(&parts, part.number, d, groups);
            return;
        }
        let (first, end) = self.wgrad.parts_of(part.tile);
        let others = (warp::uniform(first) + 1, warp::uniform(end));
        let mut arriving = Arriving::begin(parts, others, groups);
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
    d: &[f32; R],
    part: WgradPart,
    consumer: u32,
) {
    /// Runs whose columns lie in one panel.
    const RUNS_OF_PANEL: u32 = PANEL / (8 * SUM_RUN);
    let (tile, thread) = (P::TILE, thread_idx_x() % WARPGROUP);
    let warp = warp::uniform(consumer * (WARPGROUP / 32) + thread / 32);
    let columns = if tile.shares_columns() { consumer * tile.consumer_columns() } else { 0 };
    let runs = p.wgrad.n_panels.saturating_sub(part.place.panel + columns / PANEL) * RUNS_OF_PANEL;
    let runs = (1 << if runs < tile.sum_runs() { runs } else { tile.sum_runs() }) - 1;
    let exchange = Exchange {
        parts: parts_of(p, tile, part, tile.sum_runs(), (warp, thread % 32)),
        n_parts: p.wgrad.splits,
        number: part.number,
        runs: warp::uniform_register(runs),
        own: warp::uniform_register(p.own_runs(tile, warp, part.number) & runs),
    };
    exchange.leave(d);
    let mut own = exchange.own;
    while own != 0 {
        let run = own.trailing_zeros();
        if let Some(place) = QuadPlace::of(&p.wgrad, tile, part.place, consumer * WARPGROUP + thread, run * SUM_RUN) {
            let sums = exchange.sums(d, run);
            store_run::<E>(&p.wgrad, part.place, place, &sums);
        }
        own &= own - 1;
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

/// Where a thread's sums of a tile go.
struct Out<'a> {
    p: &'a ConvWgradParams,
    tile: ConvTile,
    part: WgradPart,
    thread: u32,
}

impl Out<'_> {
    /// Where the quads of a group belong, unless nobody has columns there.
    #[inline(always)]
    fn place(&self, group: usize) -> Option<QuadPlace> {
        QuadPlace::of(self.p, self.tile, self.part.place, self.thread, (group * QUADS) as u32)
    }

    /// Adds the other parts to the quads of group `GROUP`, and writes the sums to dw.
    ///
    /// # Safety
    /// As [`Form::finish`]; in the order of the groups.
    #[inline(always)]
    unsafe fn add<E: Half, const R: usize, const GROUP: usize>(&self, d: &[f32; R], arriving: &mut Arriving) {
        let Some(place) = self.place(GROUP) else { return };
        let mut sums = group_of::<R, GROUP>(d);
        arriving.add(&mut sums);
        let [a, b, c, d, e, f, g, h] = sums;
        store_run::<E>(self.p, self.part.place, place, &[a, b, c, d]);
        store_run::<E>(self.p, self.part.place, place.to_the_right(RUN as u32), &[e, f, g, h]);
    }
}

/// Writes a run of a thread's quads to dw, the first at `at`: of two rows eight apart.
///
/// # Safety
/// As [`Form::finish`]; a warp.
#[inline(always)]
unsafe fn store_run<E: Half>(p: &ConvWgradParams, place: WgradPlace, at: QuadPlace, v: &Run) {
    store_row::<E>(p, place, at, v.map(|[low, high, _, _]| [low, high]));
    store_row::<E>(p, place, QuadPlace { row: at.row + 8, ..at }, v.map(|[_, _, low, high]| [low, high]));
}

/// Writes a row of them: every lane of four the columns of one quad. Channels and distances of dw are multiples of 8.
///
/// # Safety
/// As [`store_run`].
#[inline(always)]
unsafe fn store_row<E: Half>(p: &ConvWgradParams, place: WgradPlace, at: QuadPlace, v: [[f32; 2]; RUN]) {
    let lane = thread_idx_x() % 4;
    // From this lane's two columns of the first quad to the quad that it writes.
    let c = at.c - 2 * lane + 8 * lane;
    let is_there = at.row < p.group_k && c < p.group_c;
    let k = i64::from(place.group * p.group_k + at.row);
    let offset = k * p.k_stride + i64::from(at.tap) * p.tap_stride + i64::from(c);
    let to = (p.dw as *mut u16).offset(offset as isize) as *mut u32;
    let mut pairs = v.map(|[low, high]| [p.alpha * low, p.alpha * high]);
    if p.beta != 0.0 {
        let prior = transposed(lane, if is_there { memory::load_x4(to) } else { [0; 4] });
        vector::for_each!(Q < RUN, {
            pairs[Q][0] += p.beta * E::unpack(prior[Q] as u16);
            pairs[Q][1] += p.beta * E::unpack((prior[Q] >> 16) as u16);
        });
    }
    let words = transposed(lane, pairs.map(|[low, high]| E::pack(low, high)));
    if is_there {
        memory::store_x4(to, words);
    }
}
