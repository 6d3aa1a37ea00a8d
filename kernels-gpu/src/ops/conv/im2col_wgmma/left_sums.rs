//! Sums of some of a tile's stages that workers leave in the workspace to the one that has the tile's first part, which
//! adds them (the fix-up of stream-K: Osama et al., "Stream-K", PPoPP 2023).
//!
//! They lie there as threads hold them; so each warp needs only what the same warp of the others has left, and waits for
//! its flags alone. A worker comes to its first part of a tile last, and the others of that tile are the first that their
//! workers compute: mostly they have long been there.
//!
//! What takes time is the way, not what goes. So a warp asks for all flags at once, a lane each; and every thread has many
//! quads under way, to where the stages were, which nobody needs any more. Each thread copies what it reads itself.

use super::{Ring, WARPGROUP};
use crate::math::vector;
use cuda_std::barrier::sync_named;
use cuda_std::thread::thread_idx_x;
use cuda_std::{atomics, cp_async, memory, shared, warp};
use kernel_abi::ops::conv::im2col_wgmma::{CONSUMERS, ConvTile, FIXUP_FLAGS};

/// Quads that a thread leaves, and loads, at once: a group, those of a panel of columns.
pub(super) const QUADS: usize = 8;

/// Threads that hold a tile's sums.
pub(super) const HOLDERS: u32 = CONSUMERS * WARPGROUP;

/// Bytes of a quad, and of a group of all threads.
pub(super) const QUAD_BYTES: u32 = 16;
const GROUP_BYTES: u32 = QUADS as u32 * HOLDERS * QUAD_BYTES;

/// How many of these are on their way.
const AHEAD: u32 = 5;

/// The barrier of the consumers. Those before it are of the way out of `fprop` and `dgrad`.
const CONSUMERS_MEET: u32 = 5;

/// Whether a tile's stages have room for what is on its way.
pub(super) const fn has_room(tile: ConvTile) -> bool {
    AHEAD * GROUP_BYTES <= tile.stages * tile.stage_bytes()
}

/// A thread's share of the sums that workers leave of one tile. Their parts are numbered; the first needs no slot.
#[derive(Clone, Copy)]
pub(super) struct LeftSums {
    pub(super) partials: u64,
    pub(super) flags: u64,
    /// What a flag is when the sums are there.
    pub(super) tag: u64,
    /// Quads of a slot.
    pub(super) slot_quads: u32,
    /// The slot of part 1, and how far it is to the next part's.
    pub(super) first: u32,
    pub(super) step: u32,
    /// Of those that hold the tile's sums.
    pub(super) thread: u32,
}

impl LeftSums {
    #[inline(always)]
    fn slot(&self, number: u32) -> u32 {
        self.first + (number - 1) * self.step
    }

    /// The flag of this warp's sums of part `number`.
    #[inline(always)]
    fn flag(&self, number: u32) -> *mut u64 {
        let index = self.slot(number) * FIXUP_FLAGS + self.thread / 32;
        (self.flags + u64::from(index) * 8) as *mut u64
    }

    /// A thread's quad `first` of part `number`; the next one is [`HOLDERS`] further.
    #[inline(always)]
    fn quad(&self, number: u32, first: usize) -> *mut [u32; 4] {
        let of_slot = u64::from(self.slot(number)) * u64::from(self.slot_quads);
        let index = of_slot + u64::from(first as u32 * HOLDERS + self.thread);
        (self.partials + index * u64::from(QUAD_BYTES)) as *mut [u32; 4]
    }

    /// Leaves the first groups of part `number`'s sums, and tells that they are there.
    ///
    /// # Safety
    /// All threads of a warp, with a workspace that has this slot.
    #[inline(always)]
    pub(super) unsafe fn leave<const R: usize>(&self, number: u32, d: &[f32; R], groups: usize) {
        self.leave_group::<R, 0>(number, d, groups);
        if R > 32 {
            self.leave_group::<R, 1>(number, d, groups);
        }
        if R > 64 {
            self.leave_group::<R, 2>(number, d, groups);
        }
        if R > 96 {
            self.leave_group::<R, 3>(number, d, groups);
        }
        warp::sync_warp();
        if thread_idx_x() % 32 == 0 {
            atomics::store_release_u64(self.flag(number), self.tag);
        }
    }

    /// # Safety
    /// As [`LeftSums::leave`].
    #[inline(always)]
    unsafe fn leave_group<const R: usize, const GROUP: usize>(&self, number: u32, d: &[f32; R], groups: usize) {
        if GROUP >= groups {
            return;
        }
        let to = self.quad(number, GROUP * QUADS);
        vector::for_each!(Q < QUADS, {
            let at = to.add(Q * HOLDERS as usize);
            memory::store_x4(at as *mut u32, quad_of(d, GROUP * QUADS + Q).map(f32::to_bits));
        });
    }

    /// Waits until the sums of parts `first` to `end - 1` are there, and takes the flags back for the next run.
    ///
    /// # Safety
    /// As [`LeftSums::leave`].
    #[inline(always)]
    unsafe fn wait(&self, (first, end): (u32, u32)) {
        let mut number = first + thread_idx_x() % 32;
        let mut begin = first;
        while begin < end {
            let flag = self.flag(if number < end { number } else { end - 1 });
            while !warp::all(atomics::load_acquire_u64(flag) == self.tag) {}
            if number < end {
                *flag = 0;
            }
            number += 32;
            begin += 32;
        }
        // What one lane has seen is there for all.
        warp::sync_warp();
    }
}

/// The other parts of a tile on their way to who adds them, group by group, of each group all parts.
pub(super) struct Arriving {
    from: LeftSums,
    /// The others: the first, and one behind the last.
    others: (u32, u32),
    /// The group that begins its way next, of part `number`, and how many groups there are.
    group: usize,
    number: u32,
    groups: usize,
    /// Where a thread's quads of the first group lie, and which groups' places are next to write and to read.
    room: u32,
    next: u32,
    first: u32,
}

impl Arriving {
    /// Waits for the others, and begins with the first.
    ///
    /// # Safety
    /// As [`LeftSums::leave`], all threads of both consumers, with a tile that [`has_room`]; it is the last part of all
    /// that its block computes, unless there are no others.
    #[inline(always)]
    pub(super) unsafe fn begin(from: LeftSums, tile: ConvTile, others: (u32, u32), groups: usize) -> Self {
        let room = Ring::new(tile).base + from.thread * QUAD_BYTES;
        let mut arriving = Arriving { from, others, group: 0, number: others.0, groups, room, next: 0, first: 0 };
        if others.0 < others.1 {
            from.wait(others);
            // Neither consumer reads stages any more.
            sync_named(CONSUMERS_MEET, HOLDERS);
            let mut i = 0;
            while i < AHEAD {
                arriving.send();
                i += 1;
            }
        }
        arriving
    }

    /// Adds the other parts of the next group to this thread's quads, in their order.
    ///
    /// # Safety
    /// As [`Arriving::begin`]; for as many groups as there are, at most.
    #[inline(always)]
    pub(super) unsafe fn add(&mut self, sums: &mut [[f32; 4]; QUADS]) {
        let mut number = self.others.0;
        while number < self.others.1 {
            let some = self.take();
            vector::for_each!(Q < QUADS, {
                let ([a, b, c, d], sum) = (some[Q], sums[Q]);
                sums[Q] = [sum[0] + a, sum[1] + b, sum[2] + c, sum[3] + d];
            });
            number += 1;
        }
    }

    /// Sends the next group of quads on its way, if there is one.
    ///
    /// # Safety
    /// As [`Arriving::begin`].
    #[inline(always)]
    unsafe fn send(&mut self) {
        if self.group < self.groups {
            let from = self.from.quad(self.number, QUADS * self.group);
            let to = self.room + self.next * GROUP_BYTES;
            vector::for_each!(Q < QUADS, {
                let at = from.add(Q * HOLDERS as usize);
                cp_async::copy_x4(to + Q as u32 * HOLDERS * QUAD_BYTES, at as *const u8, QUAD_BYTES);
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
    /// As [`Arriving::begin`].
    #[inline(always)]
    unsafe fn take(&mut self) -> [[f32; 4]; QUADS] {
        cp_async::wait_group::<{ AHEAD - 1 }>();
        let from = self.room + self.first * GROUP_BYTES;
        let mut quads = [[0.0; 4]; QUADS];
        vector::for_each!(Q < QUADS, {
            let at = from + Q as u32 * HOLDERS * QUAD_BYTES;
            quads[Q] = shared::load_x4(at).map(f32::from_bits);
        });
        self.first = (self.first + 1) % AHEAD;
        self.send();
        quads
    }
}

/// A thread's quad `quad`.
///
/// # Safety
/// It has that many.
#[inline(always)]
pub(super) unsafe fn quad_of<const R: usize>(d: &[f32; R], quad: usize) -> [f32; 4] {
    let sum = |i: usize| *d.get_unchecked(4 * quad + i);
    [sum(0), sum(1), sum(2), sum(3)]
}

/// A thread's quads of group `GROUP`.
///
/// # Safety
/// As [`quad_of`].
#[inline(always)]
pub(super) unsafe fn group_of<const R: usize, const GROUP: usize>(d: &[f32; R]) -> [[f32; 4]; QUADS] {
    let mut quads = [[0.0; 4]; QUADS];
    vector::for_each!(Q < QUADS, { quads[Q] = quad_of(d, GROUP * QUADS + Q) });
    quads
}
