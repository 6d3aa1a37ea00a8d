//! Convolution of few input channels for Hopper, without packing x in global memory: see
//! [`kernel_abi::ops::conv::overlap_wgmma`] for how windows lie in shared memory.
//!
//! Grid: along x any number of blocks, which share the tiles round-robin; along y parts of the output channels, or of
//! the filter. Block: 768 threads for `fprop`, 512 for `fprop` of strips and for `wgrad`. The first two warpgroups bring
//! input rows to shared memory: in some kernels by the copy engine, where rows lie one element behind the other
//! (`staged.rs`), else element by element, so that x may lie anyhow. The others compute. Shared memory: dynamic,
//! `OverlapTile::fprop_smem_bytes`, `rows_smem_bytes` or `wgrad_smem_bytes`: a ring of buffers, what a pass keeps beside
//! them, a full and an empty barrier a buffer, and staged rows.

mod entry;
mod fill;
mod forward;
mod rows;
mod staged;
mod wgrad;

use cuda_std::barrier::fence_proxy_async_shared;
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::{mbarrier, schedule, shared, warp};
use fill::{BATCH, Entries};
use kernel_abi::ops::conv::overlap_wgmma::{OverlapParams, OverlapPlace, PRODUCERS};

/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;
/// Threads that bring x.
const PRODUCER_THREADS: u32 = PRODUCERS * WARPGROUP;
/// Registers of a thread that brings x, and of one that computes: together those of a multiprocessor, in blocks of 512.
const PRODUCER_REGISTERS: u32 = 72;
const CONSUMER_REGISTERS: u32 = 184;
/// The barrier of the consumers; behind it are those of each one's own.
const CONSUMERS_MEET: u32 = 1;
/// What buffers are aligned to.
const ALIGN: u32 = 1024;

/// The ring of buffers, and where one role stands in it.
#[derive(Clone, Copy)]
struct Ring {
    base: u32,
    buffer_bytes: u32,
    barriers: u32,
    buffers: u32,
    index: u32,
    parity: u32,
}

impl Ring {
    /// Makes the barriers ready, and waits for the kernels before.
    ///
    /// # Safety
    /// All threads of the block call it, first of all.
    #[inline(always)]
    unsafe fn start(consumers: u32, buffers: u32, buffer_bytes: u32, barriers_at: u32) -> Self {
        let base = shared::dynamic_address().next_multiple_of(ALIGN);
        let ring = Ring { base, buffer_bytes, barriers: base + barriers_at, buffers, index: 0, parity: 0 };
        if thread_idx_x() == 0 {
            let mut each = ring;
            while each.parity == 0 {
                mbarrier::init(each.full(), PRODUCER_THREADS);
                mbarrier::init(each.empty(), consumers * WARPGROUP / 32);
                each.advance();
            }
            mbarrier::fence_init();
        }
        sync_threads();
        schedule::wait_for_predecessors();
        schedule::launch_dependents();
        ring
    }

    /// Address of the buffer.
    #[inline(always)]
    fn buffer(&self) -> u32 {
        self.base + self.index * self.buffer_bytes
    }

    /// The barrier that counts who has written.
    #[inline(always)]
    fn full(&self) -> u32 {
        self.barriers + 8 * self.index
    }

    /// The barrier that counts who has read.
    #[inline(always)]
    fn empty(&self) -> u32 {
        self.barriers + 8 * (self.buffers + self.index)
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.index += 1;
        if self.index == self.buffers {
            self.index = 0;
            self.parity ^= 1;
        }
    }

    /// Signals that this warp has read the buffer.
    ///
    /// # Safety
    /// As [`Ring::start`], once a warp of the consumers for each buffer.
    #[inline(always)]
    unsafe fn release(&self) {
        if thread_idx_x() % 32 == 0 {
            mbarrier::arrive(self.empty());
        }
    }
}

/// Fills buffer after buffer; `begin` is called for each tile's place once its buffer is empty. `STAGED` kernels have the
/// copy engine bring rows where the host says so, and else take them for long ones.
///
/// # Safety
/// All producer threads call it.
#[inline(always)]
unsafe fn produce<const STAGED: bool>(p: &OverlapParams, mut ring: Ring, begin: impl Fn(OverlapPlace, &Ring)) {
    if STAGED && p.tile.staged.bytes > 0 {
        let staged_at = p.tile.staged_at(ring.barriers);
        return staged::produce(p, ring, staged_at, begin);
    }
    let entries = Entries::new(p);
    let mut index = block_idx_x();
    while index < p.n_tiles {
        let place = p.place(index);
        mbarrier::wait(ring.empty(), ring.parity ^ 1);
        begin(place, &ring);
        if STAGED {
            entries.fill_rows::<BATCH>(p, place, ring.buffer(), thread_idx_x());
        } else {
            entries.fill(p, place, ring.buffer(), thread_idx_x());
        }
        fence_proxy_async_shared();
        mbarrier::arrive(ring.full());
        ring.advance();
        index += grid_dim_x();
    }
}

/// The number of this thread's warpgroup, uniform, so that addresses made of it are computed once a warp.
#[inline(always)]
fn warpgroup() -> u32 {
    warp::uniform(thread_idx_x() / WARPGROUP)
}
