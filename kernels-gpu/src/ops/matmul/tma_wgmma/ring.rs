//! The ring of stages in shared memory, and who shares what is loaded into it.

use crate::math::tickets::Queue;
use cuda_std::cluster;
use cuda_std::wgmma::behind;
use kernel_abi::ops::matmul::{MatmulTile, MatmulTmaParams};

/// The blocks of a cluster that share b's tile, or a's where b stays.
#[derive(Clone, Copy)]
pub(in crate::ops::matmul) struct Sharers {
    /// The logarithm of how many.
    pub(super) log2: u32,
    /// The number of this block among them.
    pub(super) own: u32,
    /// The rank of the first.
    pub(super) first: u32,
    /// Whether the launch may have made clusters of the kernel's blocks, as the compiler knows.
    pub(super) in_cluster: bool,
}

impl Sharers {
    /// A block that loads for itself.
    pub(in crate::ops::matmul) const ALONE: Self = Sharers { log2: 0, own: 0, first: 0, in_cluster: false };

    #[inline(always)]
    pub(super) fn of(tile: MatmulTile, p: &MatmulTmaParams) -> Self {
        let log2 = tile.sharers_log2(p.sharers_log2);
        if tile.cluster > 1 {
            Sharers { log2, own: cluster::rank(), first: 0, in_cluster: true }
        } else if tile.forms_clusters() || tile.has_resident_b() {
            let rank = cluster::rank();
            let own = rank & ((1 << log2) - 1);
            Sharers { log2, own, first: rank - own, in_cluster: true }
        } else {
            Self::ALONE
        }
    }

    /// How many.
    #[inline(always)]
    pub(super) fn count(self) -> u32 {
        1 << self.log2
    }

    /// The rank of the block that is to slice `slice` what this one is to its own.
    #[inline(always)]
    pub(super) fn rank_of(self, slice: u32) -> u32 {
        slice << self.log2 | self.own
    }
}

/// A ring of stages in shared memory, and where one role stands in it.
#[derive(Clone, Copy)]
pub(in crate::ops::matmul) struct Ring {
    pub(in crate::ops::matmul) base: u32,
    barriers: u32,
    tile: MatmulTile,
    stage: u32,
    pub(in crate::ops::matmul) parity: u32,
}

impl Ring {
    #[inline(always)]
    pub(super) fn new(base: u32, tile: MatmulTile) -> Self {
        Ring { base, barriers: base + tile.barriers_at(), tile, stage: 0, parity: 0 }
    }

    /// Address of a's tile; b's lies behind it.
    #[inline(always)]
    pub(in crate::ops::matmul) fn a(&self) -> u32 {
        self.base + self.stage * self.tile.stage_bytes()
    }

    /// The descriptor in this stage of what has the given one in the first.
    #[inline(always)]
    pub(super) fn of_stage(&self, first: u64) -> u64 {
        behind(first, self.stage * self.tile.stage_bytes())
    }

    /// The barrier that counts what is loaded.
    #[inline(always)]
    pub(in crate::ops::matmul) fn full(&self) -> u32 {
        self.barriers + 8 * self.stage
    }

    /// The barrier that counts who has read.
    #[inline(always)]
    pub(in crate::ops::matmul) fn empty(&self) -> u32 {
        self.barriers + 8 * (self.tile.stages + self.stage)
    }

    /// The barrier that counts what is loaded of a block of k of b that stays.
    #[inline(always)]
    pub(super) fn resident(&self, block: u32) -> u32 {
        self.barriers + 8 * (2 * self.tile.stages + block)
    }

    /// Where such a block lies.
    #[inline(always)]
    pub(super) fn resident_b(&self, block: u32) -> u32 {
        self.base + self.tile.resident_at() + block * self.resident_block_bytes()
    }

    /// Bytes of it.
    #[inline(always)]
    pub(super) fn resident_block_bytes(&self) -> u32 {
        self.tile.b_bytes()
    }

    /// The queue of drawn units, at its begin.
    #[inline(always)]
    pub(super) fn queue(&self) -> Queue {
        Queue::new(self.base + self.tile.queue_at())
    }

    /// Leaves `n` stages to another role.
    #[inline(always)]
    pub(super) fn skip(&mut self, n: u32) {
        let stage = self.stage + n;
        let rounds = stage / self.tile.stages;
        self.stage = stage - rounds * self.tile.stages;
        self.parity ^= rounds & 1;
    }

    #[inline(always)]
    pub(in crate::ops::matmul) fn advance(&mut self) {
        self.stage += 1;
        if self.stage == self.tile.stages {
            self.stage = 0;
            self.parity ^= 1;
        }
    }
}
