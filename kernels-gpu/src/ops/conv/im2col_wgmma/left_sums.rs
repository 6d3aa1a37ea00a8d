//! Sums of some of a tile's stages that workers leave in the workspace to the one that has the tile's first part, which
//! adds them (the fix-up of stream-K: Osama et al., "Stream-K", PPoPP 2023).
//!
//! A worker comes to its first part of a tile last, and the others of that tile are the first that their
//! workers compute: mostly they have long been there.
//!
//! What takes time is the way, not what goes. So a warp asks for all flags at once, a lane each, and every thread has many
//! quads under way (see [`slots`](super::slots)).

use super::parts::{HOLDERS, Parts, quad_of};
use super::slots::{Slots, consumers_meet};
use crate::math::vector;
use cuda_std::{memory, warp};

/// Quads that a thread leaves, and loads, at once: a group, those of a panel of columns.
pub(super) const QUADS: usize = 8;

/// What is on its way of other parts: five groups at once.
pub(super) type GroupSlots = Slots<QUADS, 4>;

/// Leaves the first groups of part `number`'s sums, and tells that they are there.
///
/// # Safety
/// All threads of a warp, with a workspace that has a place for the part.
#[inline(always)]
pub(super) unsafe fn leave<const R: usize>(parts: &Parts, number: u32, d: &[f32; R], groups: usize) {
    leave_group::<R, 0>(parts, number, d, groups);
    if R > 32 {
        leave_group::<R, 1>(parts, number, d, groups);
    }
    if R > 64 {
        leave_group::<R, 2>(parts, number, d, groups);
    }
    if R > 96 {
        leave_group::<R, 3>(parts, number, d, groups);
    }
    warp::sync_warp();
    if parts.lane == 0 {
        parts.tell(number, 0);
    }
}

/// # Safety
/// As [`leave`].
#[inline(always)]
unsafe fn leave_group<const R: usize, const GROUP: usize>(parts: &Parts, number: u32, d: &[f32; R], groups: usize) {
    if GROUP >= groups {
        return;
    }
    let to = parts.quad(number, (GROUP * QUADS) as u32);
    vector::for_each!(Q < QUADS, {
        let at = to.add(Q * HOLDERS as usize);
        memory::store_x4(at as *mut u32, quad_of(d, GROUP * QUADS + Q).map(f32::to_bits));
    });
}

/// The other parts of a tile on their way to who adds them, group by group, of each group all parts.
pub(super) struct Arriving {
    from: Parts,
    /// The others: the first, and one behind the last.
    others: (u32, u32),
    /// The group that begins its way next, of part `number`, and how many groups there are.
    group: usize,
    number: u32,
    groups: usize,
    slots: GroupSlots,
}

impl Arriving {
    /// Waits for the others, and begins with the first. Where there are none, nobody waits.
    ///
    /// # Safety
    /// As [`leave`], and, unless there are no others, as [`consumers_meet`], of a tile that [`GroupSlots`] fit.
    #[inline(always)]
    pub(super) unsafe fn begin(from: Parts, others: (u32, u32), groups: usize) -> Self {
        let mut arriving = Arriving { from, others, group: 0, number: others.0, groups, slots: Slots::new(&from) };
        if others.0 < others.1 {
            // Part 0 is not among them.
            from.wait(others, 0, 0);
            consumers_meet();
            let mut i = 0;
            while i < GroupSlots::AHEAD {
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
        let there = self.group < self.groups;
        self.slots.send(there.then(|| self.from.quad(self.number, (QUADS * self.group) as u32)));
        self.number += 1;
        if self.number == self.others.1 {
            (self.group, self.number) = (self.group + 1, self.others.0);
        }
    }

    /// Takes the group that was sent first, and sends another one.
    ///
    /// # Safety
    /// As [`Arriving::begin`].
    #[inline(always)]
    unsafe fn take(&mut self) -> [[f32; 4]; QUADS] {
        let quads = self.slots.take();
        self.send();
        quads
    }
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
