//! How long a variant takes: what limits a block's main loop, and how the units of work fill the multiprocessors.
//!
//! The rates are those of an H200 (`benches/results/h200`). What is compared are variants of one method, so that common
//! errors cancel.

use super::variants::Split;
use kernel_abi::ops::matmul::MatmulTile;

/// What the estimate depends on.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops::matmul) struct Work {
    pub(in crate::ops::matmul) tile: MatmulTile,
    pub(in crate::ops::matmul) split: Split,
    pub(in crate::ops::matmul) gemm_m: u64,
    pub(in crate::ops::matmul) gemm_n: u64,
    pub(in crate::ops::matmul) gemm_k: u64,
    pub(in crate::ops::matmul) n_batch: u64,
    /// Whether b's columns are contiguous, so that it is loaded in whole panels.
    pub(in crate::ops::matmul) b_is_mn_major: bool,
    /// Bytes that one store of c moves: 128 by tensor map.
    pub(in crate::ops::matmul) store_bytes: u32,
    /// Bytes of inputs that are copied into the workspace first.
    pub(in crate::ops::matmul) packed_bytes: u64,
    /// Bytes of all operands.
    pub(in crate::ops::matmul) operand_bytes: f64,
    /// Multiprocessors.
    pub(in crate::ops::matmul) n_units: u64,
    /// Memory traffic.
    pub(in crate::ops::matmul) bytes_per_us: f64,
}

/// From the launch to the first product, and from the last one to the end.
const ENDS_US: f64 = 3.0;
/// A further kernel behind the first.
const NEXT_LAUNCH_US: f64 = 1.8;
/// A cluster's meeting and its sums' way.
const MEETING_US: f64 = 0.7;
/// Clock under load.
const CYCLES_PER_US: f64 = 1650.0;
/// What a multiprocessor, and all of them, get of the L2 cache in a cycle.
const L2_BYTES: f64 = 64.0;
const L2_BYTES_TOTAL: f64 = 6150.0;
/// Shared memory's bytes a cycle.
const SHARED_BYTES: f64 = 128.0;
/// Multiply-adds of a multiprocessor's tensor cores in a cycle.
const TENSOR_RATE: f64 = 2048.0;
/// Waits between blocks of k that nothing hides.
const BUBBLES: f64 = 1.04;
/// Cycles until the first block of k is there.
const FILL_CYCLES: f64 = 900.0;
/// Cycles of the way out for a column of a tile, when it goes by tensor map.
const OUT_CYCLES: f64 = 6.0;
/// What remains of the shorter of computing and reading memory.
const OVERLAP: f64 = 0.1;
/// Partial sums stay in the L2 cache up to this size.
const CACHED_BYTES: f64 = 30e6;

impl Work {
    /// Clusters that run at a time; of those that split sums, a processing cluster of 16 multiprocessors takes whole ones.
    fn slots(&self) -> u64 {
        const GROUP: u64 = 16;
        let blocks = match self.split {
            Split::Cluster(n) => u64::from(n),
            _ => u64::from(self.tile.cluster),
        };
        let slots = if blocks > 2 { self.n_units / GROUP * (GROUP / blocks) } else { self.n_units / blocks };
        slots.max(1)
    }

    /// Units of work: tiles of clusters, or their slices in the workspace.
    fn units(&self) -> u64 {
        let slices = if let Split::Workspace(n) = self.split { u64::from(n) } else { 1 };
        self.tile.n_tiles(self.gemm_m, self.gemm_n, self.n_batch) * slices
    }

    /// Blocks of k of the longest slice.
    fn k_blocks(&self) -> u64 {
        self.gemm_k.div_ceil(self.tile.gemm_k.into()).div_ceil(self.split.n_slices().into())
    }

    /// Cycles of one block of k when `active` multiprocessors are at work: the slowest of tensor cores, shared memory
    /// (written by copies, read by products) and L2 cache.
    fn block_cycles(&self, active: f64) -> f64 {
        let (m, n, k) = (f64::from(self.tile.gemm_m), f64::from(self.tile.gemm_n), f64::from(self.tile.gemm_k));
        let k_bytes = 2.0 * k;
        let loaded_n = f64::from(self.tile.loaded_bytes(self.b_is_mn_major) - self.tile.a_bytes()) / k_bytes;
        let products = m * n * k / TENSOR_RATE;
        // Each consumer of 64 rows reads its own rows and all columns.
        let shared = (m + loaded_n + m + n * m / 64.0) * k_bytes / SHARED_BYTES;
        let fetched = (m + n.min(self.gemm_n as f64) / f64::from(self.tile.cluster)) * k_bytes;
        let cache = fetched / L2_BYTES.min(L2_BYTES_TOTAL / active);
        products.max(shared).max(cache)
    }

    /// Bytes of the slices in the workspace.
    fn partial_bytes(&self) -> f64 {
        let Split::Workspace(n) = self.split else { return 0.0 };
        4.0 * f64::from(n) * (self.n_batch * self.gemm_m * self.gemm_n.next_multiple_of(4)) as f64
    }

    /// The estimate.
    pub(in crate::ops::matmul) fn estimate_us(&self) -> f64 {
        let (slots, units) = (self.slots(), self.units());
        let blocks = match self.split {
            Split::Cluster(n) => u64::from(n),
            _ => u64::from(self.tile.cluster),
        };
        let active = (units.min(slots) * blocks) as f64;
        let n = f64::from(self.tile.gemm_n.min(self.gemm_n.next_multiple_of(16) as u32));
        // Stores by threads take turns with the products; those by map pass beside the next tile's.
        let out = n * (OUT_CYCLES + 24.0 / f64::from(self.store_bytes));
        let unit = FILL_CYCLES + out + self.k_blocks() as f64 * self.block_cycles(active) * BUBBLES;
        let work = units.div_ceil(slots) as f64 * unit / CYCLES_PER_US;
        let memory = self.operand_bytes / self.bytes_per_us;
        let mut us = ENDS_US + work.max(memory) + OVERLAP * work.min(memory);
        if let Split::Cluster(_) = self.split {
            us += MEETING_US;
        }
        let partials = self.partial_bytes();
        if partials > 0.0 {
            let rate = if partials < CACHED_BYTES { 1.0 } else { 2.0 };
            us += NEXT_LAUNCH_US + rate * partials / self.bytes_per_us;
        }
        if self.packed_bytes > 0 {
            us += NEXT_LAUNCH_US + 2.0 * self.packed_bytes as f64 / self.bytes_per_us;
        }
        us
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel_abi::ops::matmul::{TILE_128X16, TILE_128X64, TILE_128X128, TILE_128X256, TILE_128X256_C2};

    fn work(tile: MatmulTile, split: Split, [m, n, k]: [u64; 3]) -> Work {
        Work {
            tile,
            split,
            gemm_m: m,
            gemm_n: n,
            gemm_k: k,
            n_batch: 1,
            b_is_mn_major: true,
            store_bytes: 128,
            packed_bytes: 0,
            operand_bytes: 2.0 * (m * k + k * n + m * n) as f64,
            n_units: 132,
            bytes_per_us: 3.96e6,
        }
    }

    /// Times on an H200: `benches/results/h200/matmul.csv`.
    #[test]
    fn measured_times_are_met_within_a_quarter() {
        for (tile, size, us) in
            [(TILE_128X256_C2, 4096, 174.3), (TILE_128X256_C2, 2048, 25.7), (TILE_128X128, 1024, 8.8)]
        {
            let estimate = work(tile, Split::Whole, [size; 3]).estimate_us();
            assert!((estimate / us - 1.0).abs() < 0.25, "{size}: {estimate} µs, measured {us}");
        }
    }

    #[test]
    fn few_tiles_are_split_and_many_are_not() {
        let best = |size: [u64; 3]| {
            let tiles = [TILE_128X256_C2, TILE_128X256, TILE_128X128, TILE_128X64, TILE_128X16];
            let splits = [Split::Whole, Split::Cluster(2), Split::Cluster(4), Split::Cluster(8), Split::Workspace(32)];
            let all = tiles.into_iter().flat_map(|tile| splits.map(|split| (tile, split)));
            let able = all.filter(|(tile, split)| !matches!(split, Split::Cluster(_)) || tile.splits_in_clusters());
            let estimate = |(tile, split): &(MatmulTile, Split)| work(*tile, *split, size).estimate_us();
            able.min_by(|x, y| estimate(x).total_cmp(&estimate(y))).unwrap()
        };
        assert_eq!(best([8192, 8192, 8192]), (TILE_128X256_C2, Split::Whole));
        assert_eq!(best([2048, 16, 2048]).0, TILE_128X16);
        assert!(matches!(best([2048, 16, 2048]).1, Split::Cluster(_)));
        assert_eq!(best([512, 16, 500_000]), (TILE_128X16, Split::Workspace(32)));
        assert!(matches!(best([1024, 1024, 1024]).1, Split::Cluster(2) | Split::Whole));
    }
}
