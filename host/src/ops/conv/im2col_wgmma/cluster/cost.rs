//! How long a variant takes: waves of resident blocks, what a block's panels cost it beside the others, and the exchange.
//!
//! The figures were fitted to 3,900 times of variants on an H200 (deepbench_conv and _server, resnet50 at a batch of 1,
//! unet3d and others, by `compare --verbose`); three of four estimates are within 11 % of the times.

use super::super::tensors::Positions;
use kernel_abi::ops::conv::im2col_cluster::MULTIPROCESSOR_BYTES;
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, ROW_BYTES};

/// Of a call in a chain of calls: from the end of the kernel before, beside which this one has started, to the first
/// load's arrival, and the last store's way.
const ENDS_US: f64 = 0.45;
/// A wave of blocks beside its sums.
const WAVE_US: f64 = 0.55;
/// Launching a block. It shows in grids that are over soon.
const BLOCK_US: f64 = 0.0018;
/// A panel, whatever the tile, then for each 64 rows, and for each 64 rows and 64 columns: most of it is the latency of
/// products that wait for each other.
const PANEL_US: f64 = 0.032;
const ROWS_US: f64 = 0.14;
const COLUMNS_US: f64 = 0.037;
/// The same of `wgrad`, where the instruction transposes both operands.
const WGRAD_PANEL_US: f64 = 0.025;
const WGRAD_COLUMNS_US: f64 = 0.138;
/// The same for a row of either operand where many stages hide these latencies: some two cycles of the copy engine.
const COPIED_US: f64 = 0.00114;
/// Bytes that the second-level cache delivers to all blocks in a microsecond.
const CACHE: f64 = 20.1e6;
/// How much more of it rows take that begin inside of a cache line, those that begin inside of a sector too, and how
/// much more loads take where half of the columns are nothing.
const ACROSS_LINES: f64 = 1.3;
const ACROSS_SECTORS: f64 = 1.3;
const EMPTY_COLUMNS: f64 = 1.0;
/// How products and loads add up: as powers with this exponent.
const BESIDE: f64 = 1.4;
/// A cluster's start, and its meeting.
const CLUSTER_US: f64 = 0.42;
/// Sending the sums of 64 rows and columns to other blocks, if all went, and how much more with each block of every
/// multiprocessor.
const SENT_US: f64 = 0.41;
const SENT_BESIDE: f64 = 2.2;
/// Writing 64 rows and columns, and how much more of it `wgrad` does, whose columns lie apart.
const WRITTEN_US: f64 = 0.45;
const WGRAD_WRITTEN: f64 = 1.3;
/// Bytes a microsecond of what all of it waits for the memory.
const MEMORY: f64 = 10.4e6;
/// What a device has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Multiprocessors.
    pub(super) n_units: u64,
    /// Clusters of a variant that are at work at once with a block on each.
    pub(super) clusters: u64,
}

/// What the estimate depends on.
#[derive(Clone, Debug)]
pub(super) struct Work {
    tile: ConvTile,
    splits: u64,
    /// Blocks of all tiles.
    pub(super) blocks: u64,
    /// Panels of the longest sum, and of the blocks that have most of it.
    of_tile: u64,
    longest: u64,
    /// Blocks of each class of tiles, and panels of the one that has most.
    classes: Vec<(u64, u64)>,
    shape: Shape,
}

/// What the operands are like.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    pub(super) wgrad: bool,
    /// Bytes of all operands.
    pub(super) bytes: f64,
    /// How much more than others the rows of the first and second operand take of the cache.
    pub(super) misaligned: [f64; 2],
    /// Whether half of a tile's columns are nothing.
    pub(super) empty_columns: bool,
}

/// What positions' rows take more than others of the cache.
pub(super) fn misaligned(positions: &Positions) -> f64 {
    positions.misalignment(ACROSS_LINES, ACROSS_SECTORS)
}

impl Work {
    /// For classes of tiles: how many, and how many panels each has.
    pub(super) fn new(tile: ConvTile, splits: u32, tiles: &[(u64, u64)], shape: Shape) -> Self {
        let splits = u64::from(splits);
        let classes: Vec<_> = tiles.iter().map(|(n, panels)| (n * splits, panels.div_ceil(splits))).collect();
        Work {
            tile,
            splits,
            blocks: classes.iter().map(|(n, _)| n).sum(),
            of_tile: tiles.iter().map(|(_, panels)| *panels).max().unwrap_or(0),
            longest: classes.iter().map(|(_, panels)| *panels).max().unwrap_or(0),
            classes,
            shape,
        }
    }

    /// The most tiles for which these kernels are offered.
    pub(super) fn most_tiles(n_units: u64) -> u64 {
        16 * n_units
    }

    /// Whether there are few tiles, and few enough to split their sums where they are split. Blocks that take a
    /// multiprocessor each are for sums that need the room, and all at work at once.
    pub(super) fn is_sensible(&self, n_units: u64) -> bool {
        if self.tile.is_alone() && (self.longest < u64::from(self.tile.stages) / 2 || self.blocks > n_units) {
            return false;
        }
        if self.splits == 1 {
            self.blocks <= Work::most_tiles(n_units)
        } else {
            self.blocks <= 4 * n_units && self.splits <= self.of_tile
        }
    }

    /// Blocks at work at once: what shared memory has room for, which short sums leave more of.
    fn resident(&self, room: Room) -> u64 {
        /// What a block takes beside what it asks for.
        const RESERVED: u32 = 1024;
        let stages = self.longest.clamp(1, self.tile.stages.into()) as u32;
        let each = u64::from(MULTIPROCESSOR_BYTES / (self.tile.cluster_smem_bytes(stages) + RESERVED)).max(1);
        (each * room.clusters * self.splits).max(1)
    }

    /// Time of a wave of so many blocks with so many panels each.
    fn wave_us(&self, blocks: f64, panels: u64, n_units: u64) -> f64 {
        let (m, n) = (f64::from(self.tile.gemm_m), f64::from(self.tile.gemm_n));
        let tiles = m * n / 4096.0;
        let shape = self.shape;
        let products = if shape.wgrad {
            WGRAD_PANEL_US + WGRAD_COLUMNS_US * tiles
        } else if self.tile.is_alone() {
            COPIED_US * (m + n)
        } else {
            PANEL_US + ROWS_US * m / 64.0 + COLUMNS_US * tiles
        };
        let empty = if shape.empty_columns { EMPTY_COLUMNS } else { 0.0 };
        let rows = m * (1.0 + shape.misaligned[0] + empty) + n * (1.0 + shape.misaligned[1] + empty);
        let loads = blocks * rows * f64::from(ROW_BYTES) / CACHE;
        let panel = (products.powf(BESIDE) + loads.powf(BESIDE)).powf(1.0 / BESIDE);
        let splits = self.splits as f64;
        let beside = 1.0 + SENT_BESIDE * blocks / n_units as f64;
        let sent = tiles * (splits - 1.0) / splits * SENT_US * beside;
        let written = tiles / splits * WRITTEN_US * if shape.wgrad { WGRAD_WRITTEN } else { 1.0 };
        WAVE_US + panels as f64 * panel + sent + written
    }

    /// The estimate.
    pub(super) fn time_us(&self, room: Room) -> f64 {
        let (resident, n_units) = (self.resident(room), room.n_units);
        let waves = if self.classes.len() == 1 {
            let (full, rest) = (self.blocks / resident, self.blocks % resident);
            let last = if rest > 0 { self.wave_us(rest as f64, self.longest, n_units) } else { 0.0 };
            full as f64 * self.wave_us(resident as f64, self.longest, n_units) + last
        } else {
            // Long sums begin first, and short ones follow wherever one ends.
            let active = self.blocks.min(resident) as f64;
            let of = |(blocks, panels): &(u64, u64)| *blocks as f64 * self.wave_us(active, *panels, n_units);
            let panels: u64 = self.classes.iter().map(|(blocks, panels)| blocks * panels).sum();
            let alone = (panels as f64 / self.longest.max(1) as f64).clamp(1.0, active.max(1.0));
            let all = self.classes.iter().map(of).sum::<f64>() / resident as f64;
            all.max(self.wave_us(alone, self.longest, n_units))
        };
        let cluster = if self.splits > 1 { CLUSTER_US } else { 0.0 };
        ENDS_US + waves + cluster + self.blocks as f64 * BLOCK_US + self.shape.bytes / MEMORY
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
                    let units = if splits > 2 { 117 } else { UNITS };
                    let room = Room { n_units: UNITS, clusters: units / u64::from(splits) };
                    all.push((work.time_us(room), tile, splits));
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
