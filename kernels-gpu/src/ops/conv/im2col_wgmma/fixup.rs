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
use super::{Half, Product, Ring, WARPGROUP};
use crate::math::kmajor::transposed;
use crate::math::vector;
use cuda_std::barrier::sync_named;
use cuda_std::thread::thread_idx_x;
use cuda_std::{atomics, cp_async, memory, shared, warp};
use kernel_abi::ops::conv::im2col_wgmma::{
    CONSUMERS, ConvTile, ConvWgradFixupParams, ConvWgradParams, Evenly, FIXUP_FLAGS, WgradPart, WgradPlace, WgradWork,
};

/// Quads that a thread loads at once, those of a panel.
const QUADS: usize = 8;

/// Quads whose columns four lanes write together.
const RUN: usize = 4;

/// Bytes of a quad, and of the quads that the consumers' threads load at once.
const QUAD_BYTES: u32 = 16;
const GROUP_BYTES: u32 = QUADS as u32 * CONSUMERS * WARPGROUP * QUAD_BYTES;

/// How many of these are on their way, for which the stages of every tile have room.
const AHEAD: u32 = 5;

/// The barrier of the consumers.
const CONSUMERS_MEET: u32 = 1;

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
        const { assert!(AHEAD * GROUP_BYTES <= P::TILE.stages * P::TILE.stage_bytes()) };
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
            let (first, end) = self.wgrad.parts_of(part.tile);
            let others = (warp::uniform(first) + 1, warp::uniform(end));
            let mut parts = Parts::begin::<R>(&out, others);
            parts.add::<E, R, 0>(d);
            if R > 32 {
                parts.add::<E, R, 8>(d);
            }
            if R > 64 {
                parts.add::<E, R, 16>(d);
            }
            if R > 96 {
                parts.add::<E, R, 24>(d);
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
        let mut number = first;
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
}

/// The other parts of a tile on their way to who adds them.
///
/// What takes time is the way, not what goes: so every thread has many of its quads under way, to where the stages were,
/// which nobody needs any more. Each copies what it reads itself.
struct Parts<'a> {
    out: &'a Out<'a>,
    /// The others: the first, and one behind the last.
    others: (u32, u32),
    /// The group of quads that begins its way next, of part `number`, and how many groups there are.
    group: usize,
    number: u32,
    groups: usize,
    /// Where a thread's quads of the first group lie, and which groups' places are next to write and to read.
    room: u32,
    next: u32,
    first: u32,
}

impl<'a> Parts<'a> {
    /// Waits for them, and begins with the first.
    ///
    /// # Safety
    /// As [`Form::finish`]; it is the last part of all that its block computes, unless there are no others.
    #[inline(always)]
    unsafe fn begin<const R: usize>(out: &'a Out<'a>, others: (u32, u32)) -> Self {
        let mut groups = 0;
        while 4 * QUADS * groups < R && out.place(QUADS * groups).is_some() {
            groups += 1;
        }
        let room = Ring::new(out.tile).base + out.thread * QUAD_BYTES;
        let mut parts = Parts { out, others, group: 0, number: others.0, groups, room, next: 0, first: 0 };
        if others.0 < others.1 {
            out.wait(others);
            // Neither consumer reads stages any more.
            sync_named(CONSUMERS_MEET, CONSUMERS * WARPGROUP);
            let mut i = 0;
            while i < AHEAD {
                parts.send();
                i += 1;
            }
        }
        parts
    }

    /// Sends the next group of quads on its way, if there is one.
    ///
    /// # Safety
    /// As [`Parts::begin`].
    #[inline(always)]
    unsafe fn send(&mut self) {
        if self.group < self.groups {
            let from = self.out.quad(self.number, QUADS * self.group);
            let to = self.room + self.next * GROUP_BYTES;
            vector::for_each!(Q < QUADS, {
                let at = from.add(Q * (CONSUMERS * WARPGROUP) as usize);
                cp_async::copy_x4(to + Q as u32 * CONSUMERS * WARPGROUP * QUAD_BYTES, at as *const u8, QUAD_BYTES);
            });
            self.number += 1;
            if self.number == self.others.1 {
                (self.group, self.number) = (self.group + 1, self.others.0);
            }
        }
        self.next = (self.next + 1) % AHEAD;
        cp_async::commit_group();
    }

    /// Takes the group that was sent first, and sends another one.
    ///
    /// # Safety
    /// As [`Parts::begin`].
    #[inline(always)]
    unsafe fn take(&mut self) -> [[f32; 4]; QUADS] {
        cp_async::wait_group::<{ AHEAD - 1 }>();
        let from = self.room + self.first * GROUP_BYTES;
        let mut quads = [[0.0; 4]; QUADS];
        vector::for_each!(Q < QUADS, {
            let at = from + Q as u32 * CONSUMERS * WARPGROUP * QUAD_BYTES;
            quads[Q] = shared::load_x4(at).map(f32::from_bits);
        });
        self.first = (self.first + 1) % AHEAD;
        self.send();
        quads
    }

    /// Adds the other parts to quads `FROM` to `FROM + 7`, in their order, and writes the sums to dw.
    ///
    /// # Safety
    /// As [`Parts::begin`]; in the order of the quads.
    #[inline(always)]
    unsafe fn add<E: Half, const R: usize, const FROM: usize>(&mut self, d: &[f32; R]) {
        let out = self.out;
        let Some(place) = out.place(FROM) else { return };
        let mut sums = [[0.0f32; 4]; QUADS];
        vector::for_each!(Q < QUADS, { sums[Q] = quad_of(d, FROM + Q) });
        let mut number = self.others.0;
        while number < self.others.1 {
            let some = self.take();
            vector::for_each!(Q < QUADS, {
                let [a, b, c, d] = some[Q];
                sums[Q] = [sums[Q][0] + a, sums[Q][1] + b, sums[Q][2] + c, sums[Q][3] + d];
            });
            number += 1;
        }
        let [a, b, c, d, e, f, g, h] = sums;
        store_run::<E>(&out.p.wgrad, out.part.place, place, &[a, b, c, d]);
        store_run::<E>(&out.p.wgrad, out.part.place, place.to_the_right(RUN as u32), &[e, f, g, h]);
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
