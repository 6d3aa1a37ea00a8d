//! `fprop` and `dgrad` where tiles are few, or their number leaves the last round short: workers share the stages of all
//! tiles evenly, and the worker with the first part of a tile's sum adds the others (stream-K: Osama et al., "Stream-K",
//! PPoPP 2023).
//!
//! The other workers leave their sums in the workspace as their threads hold them; so each warp needs only what the same
//! warp of the others has left, and waits for its flag alone. A worker comes to its first part of a tile last, and the
//! others of that tile are the first that their workers compute: mostly they have long been there.

use super::gather::{Address, Form, Panels};
use super::{Product, WARPGROUP};
use crate::math::vector;
use cuda_std::thread::{block_idx_x, grid_dim_x, thread_idx_x};
use cuda_std::{atomics, memory, schedule, warp};
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvClass, ConvGatherParams, ConvStreamKParams, ConvTile, Evenly, FIXUP_FLAGS, GatherPlace, PANEL,
};

/// Quads that a thread loads at once, those of a panel.
const QUADS: usize = 8;

/// The stages that a worker has left.
pub(super) struct Stages {
    at: u32,
    end: u32,
}

impl Form for ConvStreamKParams {
    type Left = Stages;

    #[inline(always)]
    fn params(&self) -> &ConvGatherParams {
        &self.gather
    }

    #[inline(always)]
    fn work(&self, _: ConvTile) -> Stages {
        let (at, end) = self.evenly.of(worker());
        Stages { at: warp::uniform(at), end: warp::uniform(end) }
    }

    #[inline(always)]
    fn is_left(&self, left: &Stages) -> bool {
        left.at < left.end
    }

    #[inline(always)]
    unsafe fn next<'a>(&self, left: &mut Stages, at: Address, tile: ConvTile) -> (GatherPlace, &'a ConvClass, Panels) {
        let part = self.part(left.at, left.end);
        let (begin, end) = (warp::uniform(part.begin), warp::uniform(part.end));
        left.at += end - begin;
        let place = GatherPlace::new(&self.gather, tile, 0, part.tile);
        (place, at.class(0), Panels { tile: part.tile, begin, end })
    }

    /// Only of tiles that are never brought ahead.
    #[inline(always)]
    unsafe fn following_row(&self, _: &Stages, _: Address, _: ConvTile) -> u32 {
        0
    }

    #[inline(always)]
    unsafe fn settle<P: Product<R, S>, const R: usize, const S: usize>(
        &self,
        d: &mut [[f32; R]; S],
        place: GatherPlace,
        panels: Panels,
        consumer: u32,
    ) -> bool {
        let first_thread = if P::TILE.in_turns { 0 } else { consumer * WARPGROUP };
        // Opaque, so that no address is computed ahead of the products, which have all registers.
        let thread = schedule::opaque(first_thread + thread_idx_x() % WARPGROUP);
        let shared = Shared { p: self, tile: P::TILE, columns: self.gather.gemm_n - place.n, thread };
        if panels.begin > 0 {
            let slot = schedule::opaque(slot_of(worker()));
            shared.leave_rows::<R, 0>(slot, d.get_unchecked(0));
            if S > 1 {
                shared.leave_rows::<R, 1>(slot, d.get_unchecked(S - 1));
            }
            shared.announce(slot);
            return false;
        }
        if panels.end < self.tile_stages.divisor {
            let (first, end) = self.parts_of(panels.tile);
            let (mut other, end) = (warp::uniform(first) + 1, warp::uniform(end));
            while other < end {
                let slot = slot_of(other);
                shared.wait(slot);
                shared.add_rows::<R, 0>(slot, d.get_unchecked_mut(0));
                if S > 1 {
                    shared.add_rows::<R, 1>(slot, d.get_unchecked_mut(S - 1));
                }
                other += 1;
            }
        }
        true
    }
}

/// The worker that this block is.
#[inline(always)]
fn worker() -> u32 {
    Evenly::worker(block_idx_x(), grid_dim_x())
}

/// Where a worker leaves sums: of one tile at most, that in which it begins, which the first worker does not.
#[inline(always)]
fn slot_of(worker: u32) -> u32 {
    worker - 1
}

/// A thread's share of sums that go from worker to worker.
struct Shared<'a> {
    p: &'a ConvStreamKParams,
    tile: ConvTile,
    /// Columns of the tile that there are.
    columns: u32,
    /// Of those that hold the tile's sums.
    thread: u32,
}

impl Shared<'_> {
    /// The flag of this warp's sums in a slot.
    #[inline(always)]
    fn flag(&self, slot: u32) -> *mut u64 {
        (self.p.flags + u64::from(slot * FIXUP_FLAGS + self.thread / 32) * 8) as *mut u64
    }

    /// This thread's quad `number` in a slot; the next one is [`ConvTile::holders`] further.
    #[inline(always)]
    fn quad(&self, slot: u32, number: usize) -> *mut [u32; 4] {
        let of_slot = u64::from(slot) * u64::from(self.tile.gemm_m * self.tile.gemm_n / 4);
        let index = of_slot + u64::from(number as u32 * self.tile.holders() + self.thread);
        (self.p.partials + index * 16) as *mut [u32; 4]
    }

    /// Leaves the sums of the rows of instruction `I`.
    ///
    /// # Safety
    /// As [`Form::settle`].
    #[inline(always)]
    unsafe fn leave_rows<const R: usize, const I: usize>(&self, slot: u32, d: &[f32; R]) {
        self.leave::<R, I, 0>(slot, d);
        self.leave::<R, I, 1>(slot, d);
        if R > 64 {
            self.leave::<R, I, 2>(slot, d);
            self.leave::<R, I, 3>(slot, d);
        }
    }

    /// Leaves those of panel `N`.
    ///
    /// # Safety
    /// As [`Form::settle`].
    #[inline(always)]
    unsafe fn leave<const R: usize, const I: usize, const N: usize>(&self, slot: u32, d: &[f32; R]) {
        if N as u32 * PANEL >= self.columns {
            return;
        }
        let to = self.quad(slot, I * (R / 4) + N * QUADS);
        vector::for_each!(Q < QUADS, {
            let sum = |i: usize| d.get_unchecked(4 * (N * QUADS + Q) + i).to_bits();
            let at = to.add(Q * self.tile.holders() as usize);
            memory::store_x4(at as *mut u32, [sum(0), sum(1), sum(2), sum(3)]);
        });
    }

    /// Tells that the warp's sums are there.
    ///
    /// # Safety
    /// As [`Form::settle`]; a warp, after it has left all of them.
    #[inline(always)]
    unsafe fn announce(&self, slot: u32) {
        warp::sync_warp();
        if thread_idx_x() % 32 == 0 {
            atomics::store_release_u64(self.flag(slot), self.p.tag);
        }
    }

    /// Waits until the sums in a slot are there, and takes the flag back for the next run.
    ///
    /// # Safety
    /// As [`Form::settle`]; a warp.
    #[inline(always)]
    unsafe fn wait(&self, slot: u32) {
        let flag = self.flag(slot);
        while atomics::load_acquire_u64(flag) != self.p.tag {}
        warp::sync_warp();
        if thread_idx_x() % 32 == 0 {
            *flag = 0;
        }
    }

    /// Adds the sums of the rows of instruction `I`.
    ///
    /// # Safety
    /// As [`Form::settle`]; they are there.
    #[inline(always)]
    unsafe fn add_rows<const R: usize, const I: usize>(&self, slot: u32, d: &mut [f32; R]) {
        self.add::<R, I, 0>(slot, d);
        self.add::<R, I, 1>(slot, d);
        if R > 64 {
            self.add::<R, I, 2>(slot, d);
            self.add::<R, I, 3>(slot, d);
        }
    }

    /// Adds those of panel `N`.
    ///
    /// # Safety
    /// As [`Shared::add_rows`].
    #[inline(always)]
    unsafe fn add<const R: usize, const I: usize, const N: usize>(&self, slot: u32, d: &mut [f32; R]) {
        if N as u32 * PANEL >= self.columns {
            return;
        }
        let from = self.quad(slot, I * (R / 4) + N * QUADS);
        let load = |q: usize| memory::load_x4(from.add(q * self.tile.holders() as usize) as *const u32);
        let some = [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)];
        vector::for_each!(Q < QUADS, {
            let mut i = 0;
            while i < 4 {
                *d.get_unchecked_mut(4 * (N * QUADS + Q) + i) += f32::from_bits(some[Q][i]);
                i += 1;
            }
        });
    }
}
