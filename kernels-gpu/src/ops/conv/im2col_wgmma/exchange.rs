//! Workers that each add up a share of a tile: a tile's sum is split into parts, and every worker leaves in the workspace
//! what others add up of its part, waits for what they leave of theirs, and adds up its own share.
//!
//! A share is some runs of quads of every warp, as its threads hold them, so that a warp needs only what the same warp of
//! the other workers has left, and waits for its flags alone: one for each run, since who waits for a flag takes it back.
//! All workers of a tile must be at work at once.

use super::left_sums::{HOLDERS, QUAD_BYTES, quad_of};
use crate::math::vector;
use cuda_std::{atomics, memory, warp};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, FIXUP_FLAGS, SUM_RUN};

/// A run as a length.
pub(super) const RUN: usize = SUM_RUN as usize;

/// A run of a thread's quads.
pub(super) type Run = [[f32; 4]; RUN];

/// Parts whose quads a thread has under way at once.
const AHEAD: usize = 4;

/// What goes from worker to worker of one tile, as a warp sees it.
pub(super) struct Exchange {
    pub(super) partials: u64,
    pub(super) flags: u64,
    /// What a flag is when the sums are there.
    pub(super) tag: u64,
    pub(super) tile: ConvTile,
    /// Where the tile's first part is, counted in tiles of blocks, and how far it is to the next part's.
    pub(super) slot: u32,
    pub(super) step: u32,
    /// How many parts there are, and which of them is this worker's.
    pub(super) parts: u32,
    pub(super) number: u32,
    /// Of the warps that hold the tile's sums.
    pub(super) warp: u32,
    pub(super) lane: u32,
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
            self.leave_run::<R, 5>(d);
        }
        if R > 96 {
            self.leave_run::<R, 6>(d);
            self.leave_run::<R, 7>(d);
        }
        warp::sync_warp();
        if (self.runs & !self.own) >> self.lane & 1 != 0 {
            atomics::store_release_u64(self.flag(self.number, self.lane), self.tag);
        }
    }

    /// # Safety
    /// As [`Exchange::leave`].
    #[inline(always)]
    unsafe fn leave_run<const R: usize, const I: usize>(&self, d: &[f32; R]) {
        if (self.runs & !self.own) >> I & 1 == 0 {
            return;
        }
        let to = self.quad(self.number, I as u32);
        let own = run_of::<R, I>(d);
        vector::for_each!(Q < RUN, {
            memory::store_x4(to.add(Q * HOLDERS as usize) as *mut u32, own[Q].map(f32::to_bits));
        });
    }

    /// The sums of run `run` of all parts, in their order.
    ///
    /// One copy of the code for all runs: what is fetched of it for the first time takes as long as a part.
    ///
    /// # Safety
    /// As [`Exchange::leave`], behind it, and with all workers of the tile at work; of a run that is this worker's, once.
    #[inline(always)]
    pub(super) unsafe fn sums<const R: usize>(&self, d: &[f32; R], run: u32) -> Run {
        let own = one_of::<R>(d, run);
        self.wait(run);
        let mut sums = [[0.0f32; 4]; RUN];
        let mut number = 0;
        while number < self.parts {
            let mut some = [[[0u32; 4]; RUN]; AHEAD];
            vector::for_each!(N < AHEAD, {
                let n = number + N as u32;
                if n < self.parts && n != self.number {
                    let from = self.quad(n, run);
                    vector::for_each!(Q < RUN, {
                        some[N][Q] = memory::load_x4(from.add(Q * HOLDERS as usize) as *const u32);
                    });
                }
            });
            vector::for_each!(N < AHEAD, {
                let is_own = number + N as u32 == self.number;
                vector::for_each!(Q < RUN, {
                    // Behind the last part there are zeros.
                    let [a, b, c, d] = if is_own { own[Q] } else { some[N][Q].map(f32::from_bits) };
                    sums[Q] = [sums[Q][0] + a, sums[Q][1] + b, sums[Q][2] + c, sums[Q][3] + d];
                });
            });
            number += AHEAD as u32;
        }
        sums
    }

    /// Waits until run `run` of all other parts is there, and takes the flags back for the next launch.
    ///
    /// # Safety
    /// As [`Exchange::sums`].
    #[inline(always)]
    unsafe fn wait(&self, run: u32) {
        let mut first = 0;
        while first < self.parts {
            let number = first + self.lane;
            let is_other = number < self.parts && number != self.number;
            let flag = self.flag(if is_other { number } else { self.number }, run);
            while !warp::all(!is_other || atomics::load_acquire_u64(flag) == self.tag) {}
            if is_other {
                *flag = 0;
            }
            first += 32;
        }
        // What one lane has seen is there for all.
        warp::sync_warp();
    }

    /// The flag of a run of this warp's of a part.
    #[inline(always)]
    fn flag(&self, number: u32, run: u32) -> *mut u64 {
        let slot = self.slot + number * self.step;
        let index = (slot * FIXUP_FLAGS + self.warp) * self.tile.sum_runs() + run;
        (self.flags + u64::from(index) * 8) as *mut u64
    }

    /// The first quad of this thread's in a run, of a part; the next one is [`HOLDERS`] further.
    #[inline(always)]
    fn quad(&self, number: u32, run: u32) -> *mut [u32; 4] {
        let slot = u64::from(self.slot + number * self.step);
        let index = slot * u64::from(self.tile.partials() / 4) + u64::from(run * SUM_RUN * HOLDERS);
        (self.partials + (index + u64::from(self.warp * 32 + self.lane)) * u64::from(QUAD_BYTES)) as *mut [u32; 4]
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
