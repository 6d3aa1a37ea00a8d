//! `wgrad` without a second kernel: the worker with the first part of a tile's sum adds the others, in their order, and
//! writes dw (the fix-up of stream-K).
//!
//! The other workers leave their sums in the workspace as their threads hold them; so each warp needs only what the same
//! warp of the others has left, and waits for its flag alone. A worker comes to its first part of a tile last, and the
//! others of that tile are the first that their workers compute: mostly they have long been there.
//!
//! Threads of four lanes exchange what they have of four neighbouring quads, so that dw is written by 16 bytes.

use super::quads::QuadPlace;
use super::wgrad::{Form, rank};
use super::{Half, Product, WARPGROUP};
use crate::math::kmajor::transposed;
use crate::math::vector;
use cuda_std::thread::thread_idx_x;
use cuda_std::{atomics, memory, warp};
use kernel_abi::ops::conv::im2col_wgmma::{
    CONSUMERS, ConvTile, ConvWgradFixupParams, ConvWgradParams, Evenly, FIXUP_FLAGS, WgradPart, WgradPlace, WgradWork,
};

/// Quads that a thread loads at once, those of a panel.
const QUADS: usize = 8;

/// Quads whose columns four lanes write together.
const RUN: usize = 4;

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
        let thread = consumer * WARPGROUP + thread_idx_x() % WARPGROUP;
        let out = Out { p: self, tile: P::TILE, part, thread };
        let [d] = d;
        if part.begin > 0 {
            out.leave::<R, 0>(d);
            if R > 32 {
                out.leave::<R, 8>(d);
            }
            if R > 64 {
                out.leave::<R, 16>(d);
            }
            if R > 96 {
                out.leave::<R, 24>(d);
            }
            out.announce();
        } else {
            let parts = self.wgrad.parts_of(part.tile);
            let parts = (warp::uniform(parts.0), warp::uniform(parts.1));
            out.wait(parts);
            out.add::<E, R, 0>(d, parts);
            if R > 32 {
                out.add::<E, R, 8>(d, parts);
            }
            if R > 64 {
                out.add::<E, R, 16>(d, parts);
            }
            if R > 96 {
                out.add::<E, R, 24>(d, parts);
            }
        }
    }
}

/// Where a thread's sums of a part go.
struct Out<'a> {
    p: &'a ConvWgradFixupParams,
    tile: ConvTile,
    part: WgradPart,
    thread: u32,
}

impl Out<'_> {
    /// Where the sums of part `number` are, of a block's tiles.
    #[inline(always)]
    fn slot(&self, number: u32) -> u32 {
        self.p.slot_of(self.part.tile, number) * self.tile.cluster + rank(self.tile)
    }

    /// The flag of this warp's sums of part `number`.
    #[inline(always)]
    fn flag(&self, number: u32) -> *mut u64 {
        let index = self.slot(number) * FIXUP_FLAGS + self.thread / 32;
        (self.p.flags + u64::from(index) * 8) as *mut u64
    }

    /// A thread's quad `first` of part `number`.
    #[inline(always)]
    fn quad(&self, number: u32, first: usize) -> *mut [u32; 4] {
        let of_slot = u64::from(self.slot(number)) * u64::from(self.tile.partials() / 4);
        let index = of_slot + u64::from(first as u32 * CONSUMERS * WARPGROUP + self.thread);
        (self.p.wgrad.partials + index * 16) as *mut [u32; 4]
    }

    /// Where the quads from `first` on belong, unless nobody has columns there.
    #[inline(always)]
    fn place(&self, first: usize) -> Option<QuadPlace> {
        QuadPlace::of(&self.p.wgrad, self.tile, self.part.place, self.thread, first as u32)
    }

    /// Leaves quads `FROM` to `FROM + 7` to who adds them.
    ///
    /// # Safety
    /// As [`Form::finish`].
    #[inline(always)]
    unsafe fn leave<const R: usize, const FROM: usize>(&self, d: &[f32; R]) {
        if self.place(FROM).is_none() {
            return;
        }
        let to = self.quad(self.part.number, FROM);
        vector::for_each!(Q < QUADS, {
            let at = to.add(Q * (CONSUMERS * WARPGROUP) as usize);
            memory::store_x4(at as *mut u32, quad_of(d, FROM + Q).map(f32::to_bits));
        });
    }

    /// Tells that the warp's sums are there.
    ///
    /// # Safety
    /// As [`Form::finish`]; a warp, after it has left all of them.
    #[inline(always)]
    unsafe fn announce(&self) {
        warp::sync_warp();
        if thread_idx_x() % 32 == 0 {
            atomics::store_release_u64(self.flag(self.part.number), self.p.tag);
        }
    }

    /// Waits until the sums of all other parts are there, and takes the flags back for the next run.
    ///
    /// # Safety
    /// As [`Form::finish`]; a warp.
    #[inline(always)]
    unsafe fn wait(&self, (first, end): (u32, u32)) {
        let mut number = first + 1;
        while number < end {
            let flag = self.flag(number);
            while atomics::load_acquire_u64(flag) != self.p.tag {}
            warp::sync_warp();
            if thread_idx_x() % 32 == 0 {
                *flag = 0;
            }
            number += 1;
        }
    }

    /// Adds the other parts to quads `FROM` to `FROM + 7`, and writes the sums to dw.
    ///
    /// # Safety
    /// As [`Form::finish`]; a warp, whose sums of all parts are there.
    #[inline(always)]
    unsafe fn add<E: Half, const R: usize, const FROM: usize>(&self, d: &[f32; R], (first, end): (u32, u32)) {
        let Some(place) = self.place(FROM) else { return };
        let mut sums = [[0.0f32; 4]; QUADS];
        vector::for_each!(Q < QUADS, { sums[Q] = quad_of(d, FROM + Q) });
        let mut number = first + 1;
        while number < end {
            let from = self.quad(number, FROM);
            let load = |q: usize| {
                let at = from.add(q * (CONSUMERS * WARPGROUP) as usize);
                memory::load_x4(at as *const u32).map(f32::from_bits)
            };
            let some = [load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)];
            vector::for_each!(Q < QUADS, {
                let [a, b, c, d] = some[Q];
                sums[Q] = [sums[Q][0] + a, sums[Q][1] + b, sums[Q][2] + c, sums[Q][3] + d];
            });
            number += 1;
        }
        let [a, b, c, d, e, f, g, h] = sums;
        store_run::<E>(&self.p.wgrad, self.part.place, place, &[a, b, c, d]);
        store_run::<E>(&self.p.wgrad, self.part.place, place.to_the_right(RUN as u32), &[e, f, g, h]);
    }
}

/// A thread's quad `quad`.
///
/// # Safety
/// It has that many.
#[inline(always)]
unsafe fn quad_of<const R: usize>(d: &[f32; R], quad: usize) -> [f32; 4] {
    let sum = |i: usize| *d.get_unchecked(4 * quad + i);
    [sum(0), sum(1), sum(2), sum(3)]
}

/// Writes four neighbouring quads of a thread to dw, the first at `at`: of two rows eight apart.
///
/// # Safety
/// As [`Form::finish`]; a warp.
#[inline(always)]
unsafe fn store_run<E: Half>(p: &ConvWgradParams, place: WgradPlace, at: QuadPlace, v: &[[f32; 4]; RUN]) {
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
