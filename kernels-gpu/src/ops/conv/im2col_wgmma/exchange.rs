//! Workers that each add up a share of a tile: a tile's sum is split into parts, and every worker leaves in the workspace
//! what others add up of its part, waits for what they leave of theirs, and adds up its own share.
//!
//! A share is some runs of quads of every warp. There is a flag for each run, since who waits for a flag takes it back.
//! All workers of a tile must be at work at once.

use super::parts::{HOLDERS, Parts, quad_of};
use crate::math::vector;
use cuda_std::{memory, warp};
use kernel_abi::ops::conv::im2col_wgmma::SUM_RUN;

/// A run as a length.
pub(super) const RUN: usize = SUM_RUN as usize;

/// A run of a thread's quads.
pub(super) type Run = [[f32; 4]; RUN];

/// Parts whose quads a thread has under way at once.
const AHEAD: usize = 4;

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

    /// The sums of run `run` of all parts, in their order.
    ///
    /// One copy of the code for all runs: what is fetched of it for the first time takes as long as a part.
    ///
    /// # Safety
    /// As [`Exchange::leave`], behind it, and with all workers of the tile at work; of a run that is this worker's, once.
    #[inline(always)]
    pub(super) unsafe fn sums<const R: usize>(&self, d: &[f32; R], run: u32) -> Run {
        let own = one_of::<R>(d, run);
        self.parts.wait((0, self.n_parts), self.number, run);
        let mut sums = [[0.0f32; 4]; RUN];
        let mut number = 0;
        while number < self.n_parts {
            let mut some = [[[0u32; 4]; RUN]; AHEAD];
            vector::for_each!(N < AHEAD, {
                let n = number + N as u32;
                if n < self.n_parts && n != self.number {
                    let from = self.parts.quad(n, run * SUM_RUN);
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
