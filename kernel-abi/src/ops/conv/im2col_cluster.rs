//! What launcher and kernels of `im2col_wgmma` agree on where tiles are few: the blocks of a cluster share the sum of
//! one tile.
//!
//! Each block sums a share of the tile's panels. Then the tile is cut into slices of rows, as many as there are blocks:
//! every block sends its sums of a slice to the block that the slice belongs to, which adds them up in the order of the
//! blocks and writes them.

use super::im2col_wgmma::{ConvTile, GEMM_K};

/// Threads of a block: a warpgroup that computes, and two warps that load.
pub const THREADS: u32 = WARPGROUP + 64;
/// Threads that compute.
pub const WARPGROUP: u32 = 128;
/// The most blocks of a cluster, a power of two as all counts are: what every device of the architecture can run.
pub const MAX_SPLITS: u32 = 8;
/// Rows that are sent to one block: a slice is one or several of these.
pub const UNIT_ROWS: u32 = 8;

/// Room for the barriers, which stand first: a full and an empty one a stage, and that of the exchange.
const BARRIER_BYTES: u32 = 1024;
/// Room for the addresses of rows, behind them.
const ROWS_BYTES: u32 = 1024;
/// What the stages are aligned to: the period of the 128-byte swizzle.
const ALIGN: u32 = 1024;

macro_rules! tiles {
    ($($(#[$meta:meta])* $name:ident = [$m:literal x $n:literal, stages $s:literal, blocks $b:literal];)*) => { $(
        $(#[$meta])*
        pub const $name: ConvTile = ConvTile {
            gemm_m: $m,
            gemm_n: $n,
            panel_k: GEMM_K,
            stages: $s,
            cluster: 1,
            out_panels: 0,
            in_turns: false,
            parts: 1,
            converted: 0,
        };
        // So many blocks fit a multiprocessor. Of two the second, of this kernel or the next, starts beside the first.
        const _: () = assert!($name.cluster_smem_bytes($name.stages) <= MULTIPROCESSOR_BYTES / $b - 1024);
        const _: () = assert!($name.exchange_barrier_at() + 8 <= BARRIER_BYTES);
        const _: () = assert!($name.gemm_m * 8 <= ROWS_BYTES);
    )* };
}

tiles! {
    /// `fprop` and `dgrad`.
    CLUSTER_64X64 = [64 x 64, stages 5, blocks 2];
    /// For long sums and few tiles.
    CLUSTER_64X32 = [64 x 32, stages 7, blocks 2];
    /// For more positions: fewer bytes a product.
    CLUSTER_128X64 = [128 x 64, stages 3, blocks 2];
    /// For long sums and as many blocks as multiprocessors, or fewer: all of the shared memory for what is on its way.
    CLUSTER_64X64_S12 = [64 x 64, stages 12, blocks 1];
    /// The same with fewer bytes a product.
    CLUSTER_128X64_S8 = [128 x 64, stages 8, blocks 1];
    /// Fewer still, at the price of an exchange of twice as much: for long sums, split over clusters of 4 or 8.
    CLUSTER_128X128_S5 = [128 x 128, stages 5, blocks 1];
    /// `wgrad`.
    CLUSTER_WGRAD_64X64 = [64 x 64, stages 5, blocks 2];
    /// For more columns: fewer bytes a product.
    CLUSTER_WGRAD_64X128 = [64 x 128, stages 3, blocks 2];
}

/// Shared memory of a multiprocessor, of which each block costs 1024 bytes more than it asks for.
pub const MULTIPROCESSOR_BYTES: u32 = 228 * 1024;

impl ConvTile {
    /// Whether a block has a multiprocessor's shared memory for itself, if it has as many stages as it may have.
    pub const fn is_alone(self) -> bool {
        self.cluster_smem_bytes(self.stages) > MULTIPROCESSOR_BYTES / 2 - 1024
    }

    /// Bytes of a tile's sums.
    pub const fn sums_bytes(self) -> u32 {
        self.gemm_m * self.gemm_n * 4
    }

    /// Where a block's barrier of the exchange lies.
    pub const fn exchange_barrier_at(self) -> u32 {
        2 * 8 * self.stages
    }

    /// Where the addresses of the rows lie that a block writes.
    pub const fn rows_at(self) -> u32 {
        BARRIER_BYTES
    }

    /// Where the sums of others arrive: those of a slice from each block, as much as a tile.
    pub const fn exchange_at(self) -> u32 {
        BARRIER_BYTES + ROWS_BYTES
    }

    /// Where the stages begin. They are last, so that a block asks for no more of them than it has panels.
    pub const fn cluster_stages_at(self) -> u32 {
        self.exchange_at() + self.sums_bytes()
    }

    /// Dynamic shared memory of a block with the given number of stages, with room for aligning its start.
    pub const fn cluster_smem_bytes(self, stages: u32) -> u32 {
        self.cluster_stages_at() + stages * self.stage_bytes() + ALIGN
    }

    /// Units of rows of a tile.
    pub const fn units(self) -> u32 {
        self.gemm_m / UNIT_ROWS
    }
}

/// Panels `begin..end` of `n` that are one block's of `1 << shift`: the first blocks have one more where some are left.
#[inline(always)]
pub const fn share(n: u32, rank: u32, shift: u32) -> (u32, u32) {
    let (each, rest) = (n >> shift, n & ((1 << shift) - 1));
    let begin = rank * each + if rank < rest { rank } else { rest };
    (begin, begin + each + (rank < rest) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_every_panel_once() {
        for n in 0..70 {
            for shift in 0..=MAX_SPLITS.trailing_zeros() {
                let mut next = 0;
                for rank in 0..1 << shift {
                    let (begin, end) = share(n, rank, shift);
                    assert_eq!(begin, next);
                    assert!(end - begin <= n.div_ceil(1 << shift));
                    next = end;
                }
                assert_eq!(next, n);
            }
        }
    }
}
