//! Workers that each add up a share of a tile: a tile's sum is split into parts, and every worker leaves in the workspace
//! what others add up of its part, waits for what they leave of theirs, and adds up its own share.
//!
//! A share is some runs of quads of every warp. There is a flag for each run, since who waits for a flag takes it back.
//! All workers of a tile must be at work at once.

use super::parts::{HOLDERS, Parts, quad_of};
use super::slots::{Slots, consumers_meet};
use crate::math::vector;
use cuda_std::{memory, warp};
use kernel_abi::ops::conv::im2col_wgmma::SUM_RUN;

/// A run as a length.
pub(super) const RUN: usize = SUM_RUN as usize;

/// A run of a thread's quads.
pub(super) type Run = [[f32; 4]; RUN];

/// What is on its way of other parts: eight runs at once.
pub(super) type RunSlots = Slots<RUN, 7>;

/// What goes from worker to worker of one tile, as a warp sees it: parts with a flag for each run.
pub(super) struct Exchange {
    pub(super) parts: Parts,
    /// How many parts there are, and which of them is this worker's.
    pub(super) n_parts: u32,
    pub(super) number: u32,
    /// Runs of this warp's quads that have columns, and those of them that this worker adds up, a bit each.
    pub(super) runs: u32,
    pub(super) own: u32,
}

impl Exchange {
    /// Leaves what others add up of this worker's part.
    ///
    /// # Safety
    /// All threads of a warp, with a workspace of so many parts.
    #[inline(always)]
    pub(super) unsafe fn leave<const R: usize>(&self, d: &[f32; R]) {
        self.leave_run::<R, 0>(d);
        self.leave_run::<R, 1>(d);
        if R > 32 {
            self.leave_run::<R, 2>(d);
            self.leave_run::<R, 3>(d);
        }
        if R > 64 {
            self.leave_run::<R, 4>(d);
        }
        if R > 80 {
            self.leave_run::<R, 5>(d);
        }
        if R > 96 {
            self.leave_run::<R, 6>(d);
            self.leave_run::<R, 7>(d);
        }
        warp::sync_warp();
        if (self.runs & !self.own) >> self.parts.lane & 1 != 0 {
            self.parts.tell(self.number, self.parts.lane);
        }
    }

    /// # Safety
    /// As [`Exchange::leave`].
    #[inline(always)]
    unsafe fn leave_run<const R: usize, const I: usize>(&self, d: &[f32; R]) {
        if (self.runs & !self.own) >> I & 1 == 0 {
            return;
        }
        let to = self.parts.quad(self.number, I as u32 * SUM_RUN);
        let own = run_of::<R, I>(d);
        vector::for_each!(Q < RUN, {
            memory::store_x4(to.add(Q * HOLDERS as usize) as *mut u32, own[Q].map(f32::to_bits));
        });
    }

    /// Waits for what the others have left of this worker's runs, and sends the first of it on its way.
    ///
    /// # Safety
    /// As [`Exchange::leave`], behind it, and as [`consumers_meet`], with all workers of the tile at work and a tile that
    /// [`RunSlots`] fit.
    #[inline(always)]
    pub(super) unsafe fn begin(&self) -> Arriving<'_> {
        let mut runs = self.own;
        while runs != 0 {
            self.parts.wait((0, self.n_parts), self.number, runs.trailing_zeros());
            runs &= runs - 1;
        }
        consumers_meet();
        let number = u32::from(self.number == 0);
        let mut arriving = Arriving { of: self, runs: self.own, number, slots: Slots::new(&self.parts) };
        let mut i = 0;
        while i < RunSlots::AHEAD {
            arriving.send();
            i += 1;
        }
        arriving
    }
}

/// What the others have left of a worker's runs on its way to it: run by run, of each all other parts in their order.
pub(super) struct Arriving<'a> {
    of: &'a Exchange,
    /// The runs of which some is not on its way yet, and the next part of the first of them.
    runs: u32,
    number: u32,
    slots: RunSlots,
}

impl Arriving<'_> {
    /// The sums of the next run, which is `run`, of all parts in their order.
    ///
    /// One copy of the code for all runs: what is fetched of it for the first time takes as long as a part.
    ///
    /// # Safety
    /// As [`Exchange::begin`]; of each run that is this worker's, once.
    #[inline(always)]
    pub(super) unsafe fn sums<const R: usize>(&mut self, d: &[f32; R], run: u32) -> Run {
        let own = one_of::<R>(d, run);
        let mut sums = [[0.0f32; 4]; RUN];
        let mut number = 0;
        while number < self.of.n_parts {
            let part = if number == self.of.number { own } else { self.take() };
            vector::for_each!(Q < RUN, {
                let ([a, b, c, d], sum) = (part[Q], sums[Q]);
                sums[Q] = [sum[0] + a, sum[1] + b, sum[2] + c, sum[3] + d];
            });
            number += 1;
        }
        sums
    }

    /// Sends the next run of a part on its way, if there is one.
    ///
    /// # Safety
    /// As [`Exchange::begin`].
    #[inline(always)]
    unsafe fn send(&mut self) {
        let there = self.runs != 0;
        self.slots.send(there.then(|| self.of.parts.quad(self.number, self.runs.trailing_zeros() * SUM_RUN)));
        let other = |number: u32| number + u32::from(number == self.of.number);
        self.number = other(self.number + 1);
        if self.number >= self.of.n_parts {
            (self.runs, self.number) = (self.runs & self.runs.wrapping_sub(1), other(0));
        }
    }

    /// Takes what was sent first, and sends more.
    ///
    /// # Safety
    /// As [`Exchange::begin`].
    #[inline(always)]
    unsafe fn take(&mut self) -> Run {
        let run = self.slots.take();
        self.send();
        run
    }
}

/// Run `I` of a thread's quads.
///
/// # Safety
/// It has that many.
#[inline(always)]
unsafe fn run_of<const R: usize, const I: usize>(d: &[f32; R]) -> Run {
    let mut run = [[0.0; 4]; RUN];
    vector::for_each!(Q < RUN, { run[Q] = quad_of(d, I * RUN + Q) });
    run
}

/// Does something for the run whose number is `run`, as a constant, if a thread of `R` sums has it.
macro_rules! with_run {
    ($R:ident, $run:expr, |$I:ident| $then:expr) => {
        with_run!(@each $R, $run, $I, $then, 0 1 2 3 4 5 6 7)
    };
    (@each $R:ident, $run:expr, $I:ident, $then:expr, $($i:literal)*) => { $(
        if 4 * RUN * $i < $R && $run == $i {
            const $I: usize = $i;
            $then
        }
    )* };
}

/// Run `run` of a thread's quads.
///
/// # Safety
/// As [`run_of`].
#[inline(always)]
unsafe fn one_of<const R: usize>(d: &[f32; R], run: u32) -> Run {
    let mut one = [[0.0; 4]; RUN];
    with_run!(R, run, |I| one = run_of::<R, I>(d));
    one
}

/// Writes it.
///
/// # Safety
/// As [`run_of`].
#[inline(always)]
pub(super) unsafe fn put<const R: usize>(d: &mut [f32; R], run: u32, sums: &Run) {
    with_run!(R, run, |I| {
        vector::for_each!(Q < RUN, {
            let mut i = 0;
            while i < 4 {
                *d.get_unchecked_mut(4 * (I * RUN + Q) + i) = sums[Q][i];
                i += 1;
            }
        });
    });
}
