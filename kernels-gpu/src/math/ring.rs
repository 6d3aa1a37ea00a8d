//! Rings in shared memory that one role of a block fills and another one empties.

use cuda_std::thread::lane_id;
use cuda_std::tma::{self, MapAddress};
use cuda_std::{mbarrier, warp};

/// A ring of places with two barriers each, and where one role stands in it.
#[derive(Clone, Copy)]
pub struct Ring {
    base: u32,
    bytes: u32,
    count: u32,
    barriers: u32,
    index: u32,
    pub parity: u32,
}

impl Ring {
    /// So many places of so many bytes from `base` on, whose barriers lie at `barriers`, 16 bytes a place.
    #[inline(always)]
    pub fn new(base: u32, bytes: u32, count: u32, barriers: u32) -> Self {
        Ring { base, bytes, count, barriers, index: 0, parity: 0 }
    }

    /// Which place it is.
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Where the place begins.
    #[inline(always)]
    pub fn at(&self) -> u32 {
        self.base + self.behind_first()
    }

    /// How many bytes it lies behind the first one.
    #[inline(always)]
    pub fn behind_first(&self) -> u32 {
        self.index * self.bytes
    }

    /// The barrier that counts who has written.
    #[inline(always)]
    pub fn full(&self) -> u32 {
        self.barriers + 16 * self.index
    }

    /// The barrier that counts who has read.
    #[inline(always)]
    pub fn empty(&self) -> u32 {
        self.full() + 8
    }

    #[inline(always)]
    pub fn advance(&mut self) {
        self.index += 1;
        if self.index == self.count {
            self.index = 0;
            self.parity ^= 1;
        }
    }

    /// Makes the barriers ready for so many that write, and so many warps that read.
    ///
    /// # Safety
    /// One thread, before any uses a barrier.
    #[inline(always)]
    pub unsafe fn init(mut self, writers: u32, readers: u32) {
        while self.parity == 0 {
            mbarrier::init(self.full(), writers);
            mbarrier::init(self.empty(), readers);
            self.advance();
        }
    }

    /// Waits for the next place to be full, and says that a warp has read the one before, which is told by its barrier `read`
    /// (0 if there is none), once that has met what it is read for: right behind its loads the barrier might be there before
    /// what they read. The place is given back.
    ///
    /// # Safety
    /// All threads of the warp call it.
    #[inline(always)]
    pub unsafe fn take(&mut self, read: &mut u32) -> u32 {
        mbarrier::wait(self.full(), self.parity);
        if *read != 0 {
            warp::sync_warp();
            if lane_id() == 0 {
                mbarrier::arrive(*read);
            }
        }
        *read = self.empty();
        let at = self.at();
        self.advance();
        at
    }

    /// Says that a warp has written its part of the place.
    ///
    /// # Safety
    /// All threads of the warp call it, behind a fence.
    #[inline(always)]
    pub unsafe fn hand_on(&mut self) {
        warp::sync_warp();
        if lane_id() == 0 {
            mbarrier::arrive(self.full());
        }
        self.advance();
    }
}

/// What a warp takes away from a ring of results by the copy engine.
pub struct Outgoing {
    ring: Ring,
    before: Ring,
}

impl Outgoing {
    #[inline(always)]
    pub fn new(ring: Ring) -> Self {
        Outgoing { ring, before: ring }
    }

    /// Sends the next place once it is full, and gives the one before back.
    ///
    /// # Safety
    /// All threads of the warp call it; the map's box is what a place holds.
    #[inline(always)]
    pub unsafe fn send(&mut self, map: MapAddress, at: [i32; 4]) {
        self.send_parts(
            #[inline(always)]
            |from| tma::store_4d(map, from, at),
        );
    }

    /// The same for a place that goes in several copies, which one thread asks for, told where it begins.
    ///
    /// # Safety
    /// All threads of the warp call it.
    #[inline(always)]
    pub unsafe fn send_parts(&mut self, send: impl FnOnce(u32)) {
        mbarrier::wait(self.ring.full(), self.ring.parity);
        if lane_id() == 0 {
            send(self.ring.at());
            tma::commit_group();
            // The place before this one has been read; before the first one, there is none.
            tma::wait_group_read::<1>();
            if self.before.index != self.ring.index {
                mbarrier::arrive(self.before.empty());
            }
        }
        self.before = self.ring;
        self.ring.advance();
    }

    /// Waits until all places have been read: another kernel's blocks take the shared memory over as soon as this block ends.
    ///
    /// # Safety
    /// All threads of the warp call it.
    #[inline(always)]
    pub unsafe fn finish(self) {
        if lane_id() == 0 {
            tma::wait_group_read::<0>();
        }
    }
}
