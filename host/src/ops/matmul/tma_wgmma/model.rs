//! How long a variant takes: what limits a block's main loop, and how the units of work fill the multiprocessors.
//!
//! The figures were fitted to 2,500 times of variants on an H200 (deepbench_gemm, squares, and 1 × 1 convolutions of resnet50's
//! planes, by `compare --verbose`);
//! three of four estimates are within 13 % of the times. None of those times is of blocks that share loads where the
//! launch decides it, nor of clusters as they add up now.

use super::variants::{Split, Way};
use kernel_abi::ops::matmul::MatmulTile;

/// What the estimate depends on.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops::matmul) struct Work {
    pub(in crate::ops::matmul) tile: MatmulTile,
    pub(in crate::ops::matmul) way: Way,
    pub(in crate::ops::matmul) gemm_m: u64,
    pub(in crate::ops::matmul) gemm_n: u64,
    pub(in crate::ops::matmul) gemm_k: u64,
    pub(in crate::ops::matmul) n_batch: u64,
    /// Bytes that one store of c moves: 128 by tensor map.
    pub(in crate::ops::matmul) store_bytes: u32,
    /// Bytes of inputs that are copied into the workspace first.
    pub(in crate::ops::matmul) packed_bytes: u64,
    /// Bytes of all operands.
    pub(in crate::ops::matmul) operand_bytes: f64,
    /// Units of work at a time: clusters.
    pub(in crate::ops::matmul) slots: u64,
    /// Memory traffic.
    pub(in crate::ops::matmul) bytes_per_us: f64,
}

/// Of a call in a chain of calls: from the end of the kernel before to the first load, and the last store's way.
const ENDS_US: f64 = 2.05;
/// Until the first block of k is there, and from the last product on, for each tile that a block computes.
const TILE_US: f64 = 0.47;
/// The same for 4096 elements of a tile, by map, by stores of threads, and as sums in the workspace.
const MAP_US: f64 = 0.16;
const THREADS_US: f64 = 0.4;
const SUMS_US: f64 = 0.29;
/// How much longer results take by map through one buffer, where they have more than one panel: a guess.
const ONE_BUFFER: f64 = 1.2;
/// A block of k, whatever the tile.
const BLOCK_US: f64 = 0.054;
/// What the products of 64 rows and 64 columns read of shared memory, where that is more than the tensor cores' time.
const READ_US: f64 = 0.0463;
const TENSOR_US: f64 = 0.0695;
/// A block of k where two blocks share a load, and so wait for each other.
const SHARED_LOAD_US: f64 = 0.004;
/// Bytes that the second-level cache delivers to all blocks in a microsecond.
const CACHE: f64 = 17.0e6;
/// How the products and what feeds them add up: as powers with this exponent, so that only equal ones slow each other.
const BESIDE: f64 = 2.24;
/// A cluster's meeting, what each block beyond two adds to it, and the way of 4096 elements of sums: guesses.
const MEETING_US: f64 = 0.6;
const MEMBER_US: f64 = 0.03;
const SENT_US: f64 = 0.6;
/// The kernel that adds up slices, and the bytes a microsecond of what is written for it and read again: fewer when
/// they do not stay in the cache.
const SECOND_US: f64 = 1.77;
const PARTIALS: f64 = 1.53e6;
/// The kernel that copies inputs, and its bytes a microsecond.
const PACK_US: f64 = 8.0;
const PACKED: f64 = 4.0e6;
/// Bytes of the operands in a microsecond, and how they and the products add up.
const MEMORY: f64 = 4.8e6;
const OVERLAP: f64 = 1.82;
/// How much more bytes move where blocks draw their tiles.
const DRAWN: f64 = 1.06;

/// The length of times that pass beside one another.
fn beside<const N: usize>(times: [f64; N], exponent: f64) -> f64 {
    times.iter().map(|time| time.powf(exponent)).sum::<f64>().powf(1.0 / exponent)
}

impl Work {
    /// Units of work: tiles of clusters, or their slices in the workspace.
    fn units(&self) -> u64 {
        let slices = if let Split::Workspace(n) = self.way.split { u64::from(n) } else { 1 };
        self.tile.n_tiles(self.way.sharers_log2, [self.gemm_m, self.gemm_n, self.n_batch]) * slices
    }

    /// Blocks of k of the longest slice.
    fn k_blocks(&self) -> u64 {
        self.gemm_k.div_ceil(self.tile.gemm_k.into()).div_ceil(self.way.split.n_slices().into())
    }

    /// One block of k when `active` multiprocessors are at work.
    fn block_us(&self, active: f64) -> f64 {
        let (m, n) = (f64::from(self.tile.gemm_m), f64::from(self.tile.gemm_n));
        let instructions = m / 64.0;
        let products = (READ_US * instructions * (64.0 + n) / 64.0).max(TENSOR_US * instructions * n / 64.0);
        let sharers = self.way.sharers(self.tile);
        let columns = n.min(self.gemm_n as f64) / f64::from(sharers);
        let rows_and_columns = if self.tile.has_resident_b() { m / f64::from(sharers) } else { m + columns };
        let loads = active * rows_and_columns * 2.0 * f64::from(self.tile.gemm_k) / CACHE;
        let waits = if sharers > 1 { SHARED_LOAD_US } else { 0.0 };
        beside([BLOCK_US + products, loads], BESIDE) + waits
    }

    /// Bytes of the slices in the workspace.
    fn partial_bytes(&self) -> f64 {
        let Split::Workspace(n) = self.way.split else { return 0.0 };
        4.0 * f64::from(n) * (self.n_batch * self.gemm_m * self.gemm_n.next_multiple_of(4)) as f64
    }

    /// The estimate.
    pub(in crate::ops::matmul) fn estimate_us(&self) -> f64 {
        let (slots, units) = (self.slots, self.units());
        let active = units.min(slots) as f64 * f64::from(self.way.cluster(self.tile));
        let elements = f64::from(self.tile.gemm_m * self.tile.gemm_n) / 4096.0;
        let way_out = match self.way.split {
            Split::Cluster(n) => MEETING_US + MEMBER_US * f64::from(n - 2) + SENT_US * elements,
            Split::Workspace(_) => TILE_US + SUMS_US * elements,
            Split::Whole if self.store_bytes == 128 => {
                let waits = self.tile.panel_buffers() == 1 && self.tile.gemm_n > MatmulTile::PANEL;
                TILE_US + MAP_US * elements * if waits { ONE_BUFFER } else { 1.0 }
            }
            Split::Whole => TILE_US + THREADS_US * elements,
        };
        let rounds = units.div_ceil(slots) as f64;
        let unit = self.k_blocks() as f64 * self.block_us(active);
        let products = if self.tile.in_turns {
            // One consumer's results go out beside the other's products.
            rounds * unit.max((unit + way_out) / 2.0) + way_out
        } else {
            rounds * (unit + way_out)
        };
        let drawn = if self.tile.draws { DRAWN } else { 1.0 };
        let rate = drawn * MEMORY.min(1.25 * self.bytes_per_us);
        let mut us = ENDS_US + beside([products, self.operand_bytes / rate], OVERLAP);
        let partials = self.partial_bytes();
        if partials > 0.0 {
            us += SECOND_US + partials / PARTIALS;
        }
        if self.packed_bytes > 0 {
            us += PACK_US + self.packed_bytes as f64 / PACKED;
        }
        us
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel_abi::ops::matmul::{
        TILE_64X64, TILE_128X16, TILE_128X64, TILE_128X128, TILE_128X256, TILE_128X256_C2, TILE_192X192,
        TURNS_128X192_C2,
    };

    fn work(tile: MatmulTile, way: Way, [m, n, k]: [u64; 3]) -> Work {
        let cluster = way.cluster(tile);
        Work {
            tile,
            way,
            gemm_m: m,
            gemm_n: n,
            gemm_k: k,
            n_batch: 1,
            store_bytes: 128,
            packed_bytes: 0,
            operand_bytes: 2.0 * (m * k + k * n + m * n) as f64,
            slots: if cluster > 2 { 117 } else { 132 } / u64::from(cluster),
            bytes_per_us: 3.96e6,
        }
    }

    /// Times on an H200: `benches/results/h200/matmul.csv`.
    #[test]
    fn measured_times_are_met_within_a_quarter() {
        for (tile, size, us) in
            [(TILE_128X256_C2, 4096, 174.3), (TILE_128X256_C2, 2048, 25.7), (TILE_128X128, 1024, 8.8)]
        {
            let estimate = work(tile, Way::PLAIN, [size; 3]).estimate_us();
            assert!((estimate / us - 1.0).abs() < 0.25, "{size}: {estimate} µs, measured {us}");
        }
    }

    /// Tiles of 192 × 192 multiply as fast as those of 128 × 256, and may leave fewer multiprocessors idle at the end.
    #[test]
    fn rounds_decide_between_large_tiles() {
        let us = |tile, size| work(tile, Way::PLAIN, size).estimate_us();
        // One round of 121 tiles where the others are 153; two of 144 where they are one of 132.
        assert!(us(TILE_192X192, [2112, 2112, 4096]) < us(TILE_128X256, [2112, 2112, 4096]));
        assert!(us(TILE_192X192, [2304, 2304, 4096]) > us(TILE_128X256, [1408, 3072, 4096]));
        // Half of the rows are half of a block's products, where all tiles are at work at once.
        assert!(us(TILE_64X64, [512, 512, 1024]) < us(TILE_128X64, [512, 512, 1024]));
    }

    /// 1024 / 192 is 5.3, 48000 / 192 is 250.
    #[test]
    fn the_side_that_tiles_fill_is_better_their_columns() {
        let us = |size| work(TURNS_128X192_C2, Way::PLAIN, size).estimate_us();
        assert!(us([1024, 48000, 1536]) < 0.95 * us([48000, 1024, 1536]));
    }

    #[test]
    fn few_tiles_are_split_and_many_are_not() {
        let best = |size: [u64; 3]| {
            let tiles = [TILE_128X256_C2, TILE_128X256, TILE_128X128, TILE_128X64, TILE_128X16];
            let splits = [Split::Whole, Split::Cluster(2), Split::Cluster(4), Split::Cluster(8), Split::Workspace(32)];
            let all = tiles.into_iter().flat_map(|tile| splits.map(|split| (tile, split)));
            let able = all.filter(|(tile, split)| !matches!(split, Split::Cluster(_)) || tile.forms_clusters());
            let estimate = |(tile, split): &(MatmulTile, Split)| {
                work(*tile, Way { split: *split, ..Way::PLAIN }, size).estimate_us()
            };
            able.min_by(|x, y| estimate(x).total_cmp(&estimate(y))).unwrap()
        };
        assert_eq!((best([8192, 8192, 8192]).0.gemm_n, best([8192, 8192, 8192]).1), (256, Split::Whole));
        assert_eq!(best([2048, 16, 2048]).0, TILE_128X16);
        assert!(matches!(best([2048, 16, 2048]).1, Split::Cluster(_)));
        assert_eq!(best([512, 16, 500_000]), (TILE_128X16, Split::Workspace(32)));
        assert!(matches!(best([1024, 1024, 1024]).1, Split::Cluster(2) | Split::Whole));
    }
}
