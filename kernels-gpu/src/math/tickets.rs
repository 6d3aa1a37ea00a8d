//! Work that resident blocks take by numbers they draw, for kernels that the memory limits.
//!
//! Multiprocessors are not equally far from memory. Where each has every so many tiles, the far ones fall behind: what is
//! under way at a time spreads over more of the memory than needs be, and the near ones idle in the end.
//!
//! A warp that loads draws, one number ahead of what it needs, and hands numbers on through a queue in shared memory to
//! those who compute, and to others that load. The first [`GIVEN`] pieces of a block are every so many; meanwhile the first
//! block sets the counters and says so by a flag, which holds a number of the plan, so that nobody clears the workspace
//! before. The block that has drawn its last number after all others clears the flag for the next run.

use cuda_std::thread::{block_idx_x, grid_dim_x, lane_id};
use cuda_std::{atomics, mbarrier, shared, warp};
use kernel_abi::tickets::{GIVEN, QUEUE_SLOTS, TicketsParam};

/// The numbers on their way from the warp that draws to those that need them, as one of them sees it.
#[derive(Clone, Copy)]
pub struct Queue {
    /// Shared-window address.
    at: u32,
    /// How many numbers have passed.
    round: u32,
}

impl Queue {
    /// The queue at a shared-window address that is a multiple of 8.
    #[inline(always)]
    pub fn new(at: u32) -> Self {
        Queue { at, round: 0 }
    }

    /// Prepares the barriers for so many warps that take numbers; one thread, before [`mbarrier::fence_init`].
    ///
    /// # Safety
    /// `QUEUE_BYTES` bytes of shared memory lie at the address.
    #[inline(always)]
    pub unsafe fn init(self, warps: u32) {
        let mut each = self;
        while each.round < QUEUE_SLOTS {
            mbarrier::init(each.full(), 1);
            mbarrier::init(each.empty(), warps);
            each.round += 1;
        }
    }

    #[inline(always)]
    fn slot(&self) -> u32 {
        self.round % QUEUE_SLOTS
    }

    #[inline(always)]
    fn parity(&self) -> u32 {
        self.round / QUEUE_SLOTS & 1
    }

    #[inline(always)]
    fn full(&self) -> u32 {
        self.at + 8 * self.slot()
    }

    #[inline(always)]
    fn empty(&self) -> u32 {
        self.at + 8 * (QUEUE_SLOTS + self.slot())
    }

    #[inline(always)]
    fn number(&self) -> u32 {
        self.at + 16 * QUEUE_SLOTS + 4 * self.slot()
    }

    /// Hands a number on.
    ///
    /// # Safety
    /// All threads of one warp call it, the barriers being ready.
    #[inline(always)]
    unsafe fn put(&mut self, number: u32) {
        mbarrier::wait(self.empty(), self.parity() ^ 1);
        if lane_id() == 0 {
            shared::store_u32(self.number(), number);
            mbarrier::arrive(self.full());
        }
        self.round += 1;
    }

    /// The next number.
    ///
    /// # Safety
    /// All threads of a warp that needs them call it, each such warp as often as the others.
    #[inline(always)]
    pub unsafe fn take(&mut self) -> u32 {
        mbarrier::wait(self.full(), self.parity());
        let mut number = 0;
        if lane_id() == 0 {
            number = shared::load_u32(self.number());
            mbarrier::arrive(self.empty());
        }
        self.round += 1;
        warp::uniform(number)
    }
}

/// The warp that draws.
pub struct Drawing {
    queue: Queue,
    /// What lane 0 has drawn, for the piece after the next.
    drawn: u32,
}

impl Drawing {
    #[inline(always)]
    pub fn new(queue: Queue) -> Self {
        Drawing { queue, drawn: 0 }
    }

    /// The piece after the one that begins, which `given` would be in turn: handed on, too. No kernel before this one is
    /// at work any more once the second piece begins.
    ///
    /// # Safety
    /// All threads of one warp call it, once a piece; the host gives every block at least [`GIVEN`] pieces.
    #[inline(always)]
    pub unsafe fn next(&mut self, p: &TicketsParam, given: u32) -> u32 {
        let round = self.queue.round;
        let next = if round + 1 < GIVEN { given } else { warp::uniform(self.drawn) };
        self.queue.put(next);
        if round > 0 && lane_id() == 0 {
            if round == 1 {
                open(p);
            }
            self.drawn = GIVEN * grid_dim_x() + atomics::add_u32(p.counters as *mut u32, 1);
        }
        next
    }

    /// Says that this block draws no more.
    ///
    /// # Safety
    /// All threads of the warp call it, after [`Drawing::next`] gave a piece that there is not.
    #[inline(always)]
    pub unsafe fn end(self, p: &TicketsParam) {
        if lane_id() == 0 && atomics::add_acquire_release_u32((p.counters + 4) as *mut u32, 1) == grid_dim_x() - 1 {
            atomics::store_release_u64((p.counters + 8) as *mut u64, 0);
        }
    }
}

/// Sets the counters, or waits until the first block has.
#[inline(always)]
unsafe fn open(p: &TicketsParam) {
    let flag = (p.counters + 8) as *mut u64;
    if block_idx_x() == 0 {
        *(p.counters as *mut u32) = 0;
        *((p.counters + 4) as *mut u32) = 0;
        atomics::store_release_u64(flag, p.tag);
    }
    while atomics::load_acquire_u64(flag) != p.tag {}
}
