//! A block's ring: which chunks come to it, and the thread that brings them.

use super::Shared;
use crate::math::vector::for_each;
use core::intrinsics::unchecked_rem;
use cuda_std::thread::{block_idx_x, block_idx_y};
use cuda_std::tma::{self, EVICT_FIRST, EVICT_LAST, MapAddress};
use cuda_std::{atomics, mbarrier, shared};
use kernel_abi::ops::norm::resident_channels::{COUNTERS, MAPS, MAX_STAGES, ResidentChannelsParams, STAGE_ALIGN};

/// The number of a chunk that says that there are no more.
pub(super) const NO_CHUNK: u32 = u32::MAX;

/// What all threads of a block know.
pub(super) struct Block<'a> {
    pub(super) p: &'a ResidentChannelsParams,
    pub(super) slice: u32,
    pub(super) block: u32,
    /// Chunks of the block, and how many of them its ring has when all are read.
    pub(super) n: u32,
    pub(super) kept: u32,
    /// Chunks brought again that are the block's own, and those of the slice.
    own: u32,
    shared_chunks: u32,
    /// Stages that are used when results are written.
    pub(super) ahead: u32,
    pub(super) rows: u32,
    ring: u32,
    /// Bytes of a tensor's chunk, between the tensors of a stage, and between stages.
    chunk_bytes: u32,
    pub(super) pitch: u32,
    stage_pitch: u32,
    pub(super) full: u32,
    pub(super) empty: u32,
    pub(super) chunks: *mut u32,
}

impl<'a> Block<'a> {
    /// That of a kernel whose chunks have so many positions, of so many tensors each.
    #[inline(always)]
    pub(super) fn new(
        p: &'a ResidentChannelsParams,
        rows: u32,
        tensors: u32,
        element_bytes: u32,
        shared: &Shared,
    ) -> Self {
        let (slice, block) = (block_idx_x(), block_idx_y());
        let n = p.even + u32::from(block < p.more);
        let kept = if n < p.n_stages { n } else { p.n_stages };
        let chunk_bytes = p.slice_channels * element_bytes * rows;
        let pitch = (chunk_bytes + STAGE_ALIGN - 1) & !(STAGE_ALIGN - 1);
        let full = shared::address(shared.barriers);
        Block {
            p,
            slice,
            block,
            n,
            kept,
            own: if p.window < n - kept { p.window } else { n - kept },
            shared_chunks: p.shared_chunks(),
            ahead: if p.ahead < kept { p.ahead } else { kept },
            rows,
            ring: (shared::dynamic_address() + STAGE_ALIGN - 1) & !(STAGE_ALIGN - 1),
            chunk_bytes,
            pitch,
            stage_pitch: tensors * pitch,
            full,
            empty: full + 8 * MAX_STAGES,
            chunks: shared.chunks,
        }
    }

    /// The slice's number of the block's chunk `k`.
    #[inline(always)]
    pub(super) fn chunk(&self, k: u32) -> u32 {
        self.block + k * self.p.blocks
    }

    /// The slice's number of the block's own chunk `i` that is brought again.
    #[inline(always)]
    fn own_chunk(&self, i: u32) -> u32 {
        self.chunk(self.n - self.kept - 1 - i)
    }

    /// The one of the slice's different channels that a channel stands for.
    #[inline(always)]
    pub(super) fn own_channel(&self, mut channel: u32) -> u32 {
        while channel >= self.p.own_channels {
            channel -= self.p.own_channels;
        }
        channel
    }

    #[inline(always)]
    pub(super) fn stage(&self, stage: u32) -> u32 {
        self.ring + stage * self.stage_pitch
    }

    /// Whether chunks are brought again.
    #[inline(always)]
    pub(super) fn brings_again(&self) -> bool {
        self.own + self.shared_chunks > 0
    }

    /// The stage of the block's last chunk.
    #[inline(always)]
    pub(super) unsafe fn last_stage(&self) -> u32 {
        // SAFETY: there is at least one stage.
        unchecked_rem(self.n - 1, self.p.n_stages)
    }

    #[inline(always)]
    pub(super) fn before(&self, stage: u32) -> u32 {
        if stage == 0 { self.p.n_stages - 1 } else { stage - 1 }
    }
}

/// Which phase of each stage's barrier is waited for next.
pub(super) struct Parities(pub(super) u32);

impl Parities {
    /// Waits for a stage's barrier, of those that begin here.
    #[inline(always)]
    pub(super) unsafe fn wait(&mut self, barriers: u32, stage: u32) {
        mbarrier::wait(barriers + 8 * stage, self.0 >> stage & 1);
        self.0 ^= 1 << stage;
    }
}

/// Brings chunks of `N` tensors to the ring. One thread.
#[inline(always)]
pub(super) unsafe fn bring<const N: usize>(b: &Block<'_>, maps: &[MapAddress; MAPS]) {
    let p = b.p;
    let channel = (b.slice * p.slice_channels) as i32;
    let load = #[inline(always)]
    |stage: u32, chunk: u32, policy: u64| {
        let barrier = b.full + 8 * stage;
        mbarrier::arrive_expect_bytes(barrier, N as u32 * b.chunk_bytes);
        for_each!(M < N, {
            let to = b.stage(stage) + M as u32 * b.pitch;
            tma::load_2d_cached(to, *maps.get_unchecked(M), barrier, policy, [channel, (chunk * b.rows) as i32]);
        });
    };
    let mut empty = Parities(0);
    let (mut k, mut stage) = (0, 0);
    let window = b.n - b.kept - b.own;
    while k < b.n {
        if k >= p.n_stages {
            empty.wait(b.empty, stage);
        }
        load(stage, b.chunk(k), if k >= window && k < window + b.own { EVICT_LAST } else { EVICT_FIRST });
        (k, stage) = (k + 1, if stage + 1 == p.n_stages { 0 } else { stage + 1 });
    }
    if !b.brings_again() {
        return;
    }
    // Memory would have nothing to do while blocks meet: what will be brought first goes to the second-level cache, of the
    // slice's chunks the block's share.
    let mut i = 0;
    while i < p.fetched {
        let place = if i < b.own { 0 } else { b.block + (i - b.own) * p.blocks };
        if i < b.own || place < b.shared_chunks {
            let chunk = if i < b.own { b.own_chunk(i) } else { b.shared_chunks - 1 - place };
            for_each!(M < N, {
                tma::prefetch_2d(*maps.get_unchecked(M), [channel, (chunk * b.rows) as i32]);
            });
        }
        i += 1;
    }
    let first = b.last_stage();
    let next = (p.counters as *mut u32).add((b.slice * COUNTERS) as usize);
    stage = first;
    let (mut i, mut turn, mut given) = (0, 0, 0);
    loop {
        // Warps give stages back when results are written, behind what all blocks have left: counters are 0 by then.
        empty.wait(b.empty, stage);
        let chunk = if i < b.own {
            b.own_chunk(i)
        } else {
            if i == b.own && b.shared_chunks > 0 {
                given = atomics::add_u32(next, 1);
            }
            if given >= b.shared_chunks { NO_CHUNK } else { b.shared_chunks - 1 - given }
        };
        *b.chunks.add(stage as usize) = chunk;
        if chunk == NO_CHUNK {
            mbarrier::arrive(b.full + 8 * stage);
            return;
        }
        load(stage, chunk, EVICT_FIRST);
        if i >= b.own {
            // Known when the next stage is empty.
            given = atomics::add_u32(next, 1);
        }
        (i, turn) = (i + 1, turn + 1);
        stage = b.before(stage);
        if turn == b.ahead {
            (turn, stage) = (0, first);
        }
    }
}
