//! How long a variant takes: waves of resident blocks, what a block's panels cost it beside the others, and the exchange.
//!
//! The figures were fitted to 3,900 times of variants on an H200 (deepbench_conv and _server, resnet50 at a batch of 1,
//! unet3d and others, by `compare --verbose`); half of the estimates are within 6 % of the times.

use kernel_abi::ops::conv::im2col_cluster::MULTIPROCESSOR_BYTES;
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, ROW_BYTES};

/// Of a call in a chain of calls: from the end of the kernel before, beside which this one has started, to the first
/// load's arrival, and the last store's way.
const ENDS_US: f64 = 0.50;
/// The same of each further wave of blocks.
const WAVE_US: f64 = 0.49;
/// Launching a block. It shows in grids that are over soon.
const BLOCK_US: f64 = 0.0018;
/// A panel, whatever the tile: barriers, and the latency of the products.
const PANEL_US: f64 = 0.037;
/// The operands that the products of a panel read, for each 64 rows and 64 columns: at 55 cycles an instruction, 85
/// bytes of shared memory a cycle.
const PRODUCTS_US: f64 = 0.168;
/// The same where both operands are transposed by the instruction.
const WGRAD_SHARE: f64 = 0.81;
/// Bytes that the second-level cache delivers to all blocks in a microsecond.
const CACHE: f64 = 29.3e6;
/// How much more of it rows take that begin inside of a cache line.
const ACROSS_LINES: f64 = 2.5;
/// How much more loads take where half of the columns are nothing.
const EMPTY_COLUMNS: f64 = 0.9;
/// A cluster's start, and its meeting.
const CLUSTER_US: f64 = 0.48;
/// Sending the sums of 64 rows and columns to other blocks, and how much more with each block of every multiprocessor.
const SENT_US: f64 = 0.47;
const SENT_BESIDE: f64 = 1.9;
/// Writing 64 rows and columns, and how much more of it `wgrad` does, whose columns lie apart.
const WRITTEN_US: f64 = 0.41;
const WGRAD_WRITTEN: f64 = 1.6;
/// Bytes a microsecond of what all of it waits for the memory.
const MEMORY: f64 = 9.8e6;
/// Blocks that clusters of more than two leave room for at once: they lie within a group of multiprocessors.
const CLUSTER_BLOCKS: u64 = 117;

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
    shape: Shape,
}

/// What the operands are like.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    pub(super) wgrad: bool,
    /// Bytes of all operands.
    pub(super) bytes: f64,
    /// Share of the loads whose rows begin inside of a cache line.
    pub(super) across_lines: f64,
    /// Whether half of a tile's columns are nothing.
    pub(super) empty_columns: bool,
}

impl Work {
    /// For classes of tiles: how many, and how many panels each has.
    pub(super) fn new(tile: ConvTile, splits: u32, tiles: &[(u64, u64)], shape: Shape) -> Self {
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
            shape,
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

    /// Blocks at work at once: what shared memory has room for, which short sums leave more of.
    fn resident(&self, n_units: u64) -> u64 {
        /// What a block takes beside what it asks for.
        const RESERVED: u32 = 1024;
        let stages = self.longest.clamp(1, self.tile.stages.into()) as u32;
        let each = u64::from(MULTIPROCESSOR_BYTES / (self.tile.cluster_smem_bytes(stages) + RESERVED)).max(1);
        let units = if self.splits > 2 { n_units.min(CLUSTER_BLOCKS) } else { n_units };
        (each * units / self.splits * self.splits).max(1)
    }

    /// Time of a wave of so many blocks with so many panels each.
    fn wave_us(&self, blocks: f64, panels: f64, n_units: f64) -> f64 {
        let (m, n) = (f64::from(self.tile.gemm_m), f64::from(self.tile.gemm_n));
        let tiles = m * n / 4096.0;
        let shape = self.shape;
        let pass = if shape.wgrad { WGRAD_SHARE } else { 1.0 };
        // An instruction reads 64 rows and all columns.
        let products = (PANEL_US + PRODUCTS_US * m / 64.0 * (64.0 + n) / 128.0) * pass;
        let slower = ACROSS_LINES * shape.across_lines + if shape.empty_columns { EMPTY_COLUMNS } else { 0.0 };
        let loads = blocks * (m + n) * f64::from(ROW_BYTES) / CACHE * (1.0 + slower);
        let splits = self.splits as f64;
        let sent = tiles * (splits - 1.0) / splits * SENT_US * (1.0 + SENT_BESIDE * blocks / n_units);
        let written = tiles / splits * WRITTEN_US * if shape.wgrad { WGRAD_WRITTEN } else { 1.0 };
        WAVE_US + panels * (products + loads) + sent + written
    }

    /// The estimate.
    pub(super) fn time_us(&self, n_units: u64) -> f64 {
        /// Of unlike tiles, the longest ones begin first.
        const LONGEST: f64 = 0.9;
        let (resident, units) = (self.resident(n_units), n_units as f64);
        let longest = self.longest as f64;
        let panels = if self.alike { longest } else { self.panels as f64 / self.blocks.max(1) as f64 };
        let (full, rest) = (self.blocks / resident, self.blocks % resident);
        let mut us = ENDS_US + full as f64 * self.wave_us(resident as f64, panels, units);
        if rest > 0 {
            let panels = if full == 0 { panels.max(LONGEST * longest) } else { panels };
            us += self.wave_us(rest as f64, panels, units);
        }
        let cluster = if self.splits > 1 { CLUSTER_US } else { 0.0 };
        us + cluster + self.blocks as f64 * BLOCK_US + self.shape.bytes / MEMORY
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
                let work = Work::new(tile, splits, &[(n, panels)], Shape::default());
                if work.is_sensible(UNITS) {
                    all.push((work.time_us(UNITS), tile, splits));
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
        let work = Work::new(CLUSTER_64X64, 1, &[(100 * UNITS, 9)], Shape::default());
        assert!(!work.is_sensible(UNITS));
        assert!(!Work::new(CLUSTER_64X64, 8, &[(100, 9)], Shape::default()).is_sensible(UNITS));
        assert!(!Work::new(CLUSTER_64X64, 4, &[(10, 3)], Shape::default()).is_sensible(UNITS));
    }
}
