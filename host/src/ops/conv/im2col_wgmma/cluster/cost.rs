//! How long a variant takes: what its blocks pull through their multiprocessors' ports, and the latencies around.

use super::super::CYCLES_PER_US;
use kernel_abi::ops::conv::im2col_wgmma::ConvTile;

/// From the end of the kernel before, beside which this one has started, to its own end, without what is counted here:
/// the first load's way, the last store's.
const ENDS_US: f64 = 1.9;
/// Cycles from the last product to the last store of a block that has a tile to itself.
const EPILOGUE: f64 = 300.0;
/// Elements that a block writes in a cycle.
const WRITTEN: f64 = 24.0;
/// Cycles that the way through other blocks' shared memory takes.
const EXCHANGE: f64 = 400.0;
/// Bytes of sums that a multiprocessor sends in a cycle.
const SENT: f64 = 20.0;
/// Bytes that the second-level cache delivers to a multiprocessor in a cycle, and to all of them.
const CACHE: f64 = 56.0;
const CACHE_OF_ALL: f64 = 5800.0;
/// Cycles of a panel's products, for each 64 rows and columns; narrow ones wait for their rows.
const PRODUCTS: f64 = 140.0;
/// The share of the memory's rate that blocks reach which do not load ahead of their tile.
const MEMORY_SHARE: f64 = 0.7;

/// What the estimate depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    tile: ConvTile,
    splits: u64,
    /// Blocks of all tiles.
    pub(super) blocks: u64,
    /// Panels of the longest sum, of the blocks that have most of it, and of all blocks.
    of_tile: u64,
    longest: u64,
    panels: u64,
    /// Whether all tiles have as many panels.
    alike: bool,
}

impl Work {
    /// For classes of tiles: how many, and how many panels each has.
    pub(super) fn new(tile: ConvTile, splits: u32, tiles: &[(u64, u64)]) -> Self {
        let splits = u64::from(splits);
        let share = |panels: u64| panels.div_ceil(splits);
        Work {
            tile,
            splits,
            blocks: tiles.iter().map(|(n, _)| n * splits).sum(),
            of_tile: tiles.iter().map(|(_, panels)| *panels).max().unwrap_or(0),
            longest: tiles.iter().map(|(_, panels)| share(*panels)).max().unwrap_or(0),
            panels: tiles.iter().map(|(n, panels)| n * splits * share(*panels)).sum(),
            alike: tiles.len() == 1,
        }
    }

    /// The most tiles for which these kernels are offered.
    pub(super) fn most_tiles(n_units: u64) -> u64 {
        16 * n_units
    }

    /// Whether there are few tiles, and few enough to split their sums where they are split.
    pub(super) fn is_sensible(&self, n_units: u64) -> bool {
        if self.splits == 1 {
            self.blocks <= Work::most_tiles(n_units)
        } else {
            self.blocks <= 4 * n_units && self.splits <= self.of_tile
        }
    }

    /// The estimate, with the time that memory takes to deliver the operands.
    pub(super) fn time_us(&self, n_units: u64, memory_us: f64) -> f64 {
        let active = self.blocks.min(n_units) as f64;
        // Blocks of one multiprocessor share its port and its tensor cores.
        let in_turn = self.blocks.div_ceil(n_units) as f64;
        let panels = if self.alike {
            in_turn * self.longest as f64
        } else {
            (self.panels as f64 / n_units as f64).max(self.longest as f64)
        };
        let elements = f64::from(self.tile.gemm_m * self.tile.gemm_n);
        let products = PRODUCTS * elements / 4096.0;
        let loads = f64::from(self.tile.stage_bytes()) / CACHE.min(CACHE_OF_ALL / active);
        let splits = self.splits as f64;
        let exchange =
            if self.splits > 1 { EXCHANGE + in_turn * 4.0 * elements * (splits - 1.0) / splits / SENT } else { 0.0 };
        let written = in_turn * elements / splits / WRITTEN;
        let cycles = panels * products.max(loads) + exchange + EPILOGUE + written;
        ENDS_US + (cycles / CYCLES_PER_US).max(memory_us / MEMORY_SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel_abi::ops::conv::im2col_cluster::{CLUSTER_64X32, CLUSTER_64X64, CLUSTER_128X64};

    const UNITS: u64 = 132;

    /// The variant of the least time for `fprop` with so many positions, written channels and panels.
    fn best(positions: u64, channels: u64, panels: u64) -> (f64, ConvTile, u32) {
        let mut all = Vec::new();
        for tile in [CLUSTER_64X64, CLUSTER_64X32, CLUSTER_128X64] {
            let n = positions.div_ceil(tile.gemm_m.into()) * channels.div_ceil(tile.gemm_n.into());
            for splits in [1, 2, 4, 8] {
                let work = Work::new(tile, splits, &[(n, panels)]);
                if work.is_sensible(UNITS) {
                    all.push((work.time_us(UNITS, 0.1), tile, splits));
                }
            }
        }
        all.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
    }

    #[test]
    fn long_sums_of_few_tiles_are_split() {
        assert!(best(196, 256, 16).2 >= 4);
        assert_eq!(best(49, 512, 72).2, 8);
        assert!(best(784, 128, 18).2 >= 2);
    }

    #[test]
    fn short_sums_are_not_split() {
        assert_eq!(best(3136, 64, 1).2, 1);
        assert_eq!(best(3136, 256, 1).2, 1);
    }

    #[test]
    fn none_is_offered_for_many_tiles() {
        let work = Work::new(CLUSTER_64X64, 1, &[(100 * UNITS, 9)]);
        assert!(!work.is_sensible(UNITS));
        assert!(!Work::new(CLUSTER_64X64, 8, &[(100, 9)]).is_sensible(UNITS));
        assert!(!Work::new(CLUSTER_64X64, 4, &[(10, 3)]).is_sensible(UNITS));
    }
}
