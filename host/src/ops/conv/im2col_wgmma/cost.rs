//! How long `fprop` and `dgrad` take: rounds of tiles, and the panels of each.
//!
//! The figures were fitted to 2,800 times of tiles on an H200 (deepbench_conv and _server, resnet18 and 50, vgg, unet3d
//! and others, by `compare --verbose`); three of four estimates are within 10 % of the times.

use super::cuts::{Cut, MULTIPROCESSORS};
use super::gather::View;
use super::stream_k::Sharing;
use super::tensors::{Planes, Positions};
use super::wgrad::WgradView;
use crate::Context;
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, ROW_BYTES, access};

/// From the end of the kernel before to the first product, and from the last store to the end.
const ENDS_US: f64 = 2.5;
/// A panel of 64 terms of the sum, whatever the tile: barriers, and the latency of the products.
const PANEL_US: f64 = 0.047;
/// What the products of 64 rows and 64 columns read of shared memory: 64 rows and the columns, for each instruction.
const READ_US: f64 = 0.0238;
/// The tensor cores' time for 64 rows and 64 columns.
const TENSOR_US: f64 = 0.0378;
/// A panel where two blocks share a load, and so wait for each other.
const SHARED_LOAD_US: f64 = 0.035;
/// Bytes that the second-level cache delivers to all blocks in a microsecond.
const CACHE: f64 = 12.9e6;
/// How much more of it rows take that begin inside of a cache line, those that begin inside of a sector too, and how
/// much more than a row one that lies outside of the filter: what it is filled with takes the copy engine its time.
const ACROSS_LINES: f64 = 0.48;
const ACROSS_SECTORS: f64 = 1.1;
const OUTSIDE: f64 = 1.5;
/// A tile's way out, and that of 64 rows and columns.
const TILE_US: f64 = 0.1;
const OUT_US: f64 = 0.272;
/// Consumers that compute in turns: what remains of the way out beside the other's products, and how both add up, as
/// powers with this exponent.
const IN_TURNS: f64 = 0.86;
const BESIDE: f64 = 1.32;
/// How much of the longest tile the classes of a strided dgrad, which fill each other's gaps, leave at the end.
const LAST_TILE: f64 = 0.6;
/// Bytes a microsecond of what all of it waits for the memory.
const MEMORY: f64 = 14.5e6;

impl View {
    /// Time of a run with so many bytes of operands.
    pub(super) fn time_us(&self, tile: ConvTile, bytes: f64, context: &Context) -> f64 {
        let memory = bytes / MEMORY.min(3.75 * context.info().bytes_per_us);
        self.products_us(tile, context) + memory
    }

    /// Time of the products alone.
    pub(in crate::ops::conv) fn products_us(&self, tile: ConvTile, context: &Context) -> f64 {
        let slots = (context.info().n_units as u64 / u64::from(tile.cluster)).max(1);
        let classes: Vec<(u64, u64)> = self.classes.iter().map(|class| self.tiles_of(class, tile)).collect();
        let n_tiles: u64 = classes.iter().map(|(n, _)| n).sum();
        let stage = self.stage_us(tile, n_tiles.min(slots));
        let out = self.out_us(tile);
        let of_tile = |panels: u64| {
            let sum = panels.div_ceil(tile.k_panels().into()) as f64 * stage;
            if tile.in_turns {
                (sum.powf(BESIDE) + (IN_TURNS * out).powf(BESIDE)).powf(1.0 / BESIDE)
            } else {
                sum + out
            }
        };
        let longest = classes.iter().map(|(_, panels)| of_tile(*panels)).fold(0.0, f64::max);
        let rounds = if classes.len() == 1 {
            n_tiles.div_ceil(slots) as f64 * longest
        } else {
            let all: f64 = classes.iter().map(|(n, panels)| *n as f64 * of_tile(*panels)).sum();
            (all / slots as f64 + LAST_TILE * longest).max(longest)
        };
        ENDS_US + rounds + if tile.in_turns { out } else { 0.0 }
    }

    /// Time of a run with so many bytes of operands, where workers share the stages of tiles.
    pub(super) fn stream_k_us(&self, tile: ConvTile, sharing: Sharing, bytes: f64) -> f64 {
        let (tiles, panels) = self.tiles_of(&self.classes[0], tile);
        let Sharing { workers, whole_tiles, sharers, parts } = sharing;
        let (rounds, shared) = (whole_tiles / workers, tiles - whole_tiles);
        let stages = (rounds * panels + (shared * panels).div_ceil(sharers)) as f64 * self.stage_us(tile, workers);
        // Every worker ends one shared tile and begins another.
        let out = (rounds as f64 + 1.0 + (shared as f64 / sharers as f64).ceil()) * self.out_us(tile);
        let added = if parts > 0 {
            // A panel of each consumer's rows, of which two runs, unless there are fewer parts.
            let panels = u64::from(tile.n_panels());
            wgrad::LATE_US + added_shares_us(parts, 2 * (2 * panels).div_ceil(parts))
        } else {
            let others = sharers.div_ceil(shared) as f64 * f64::from(tile.gemm_m * tile.gemm_n * 4);
            wgrad::FIXUP_US + others / wgrad::FIXUP_READS
        };
        ENDS_US + stages + out + added + bytes / MEMORY
    }

    /// One stage of a cluster's tile, when so many clusters are at work.
    fn stage_us(&self, tile: ConvTile, clusters: u64) -> f64 {
        let (m, n) = (f64::from(tile.gemm_m), f64::from(tile.gemm_n));
        let across = self.read.misalignment(ACROSS_LINES, ACROSS_SECTORS);
        let rows = m * (1.0 + across) + n + OUTSIDE * self.rows_outside(tile);
        let blocks = clusters as f64 * f64::from(tile.cluster);
        let loads = blocks * rows * f64::from(ROW_BYTES) / CACHE;
        let waits = if tile.cluster > 1 { SHARED_LOAD_US } else { 0.0 };
        let products = m / 64.0 * (READ_US * (64.0 + n) / 64.0 + TENSOR_US * n / 64.0);
        (PANEL_US + products + waits).max(loads)
    }

    /// A tile's way out.
    fn out_us(&self, tile: ConvTile) -> f64 {
        let (m, n) = (f64::from(tile.gemm_m), f64::from(tile.gemm_n));
        let stores = self.planes.map_or(0.0, |planes| stores_us(&planes));
        TILE_US + (OUT_US + stores) * m * n / 4096.0
    }

    /// Rows of the filter's boxes that lie outside of it, of an average panel.
    fn rows_outside(&self, tile: ConvTile) -> f64 {
        let left = |all: i64, size: u32| {
            let boxes = (all as u64).div_ceil(size.into()).max(1);
            (boxes * u64::from(size)) as f64 / boxes as f64 - all as f64 / boxes as f64
        };
        if self.sum_is_contiguous {
            left(self.group_written, tile.gemm_n)
        } else {
            // A box has the panel's terms as rows, and up to 64 columns.
            let boxes = tile.n_panels() * tile.k_panels();
            left(self.group_read, tile.panel_k) * f64::from(boxes)
        }
    }
}

/// What threads take for storing 64 rows and columns, which they have read from shared memory.
///
/// To planes: medians of what 128 measured times on an H200 are above those of the same tiles that the copy engine takes
/// away. Neighbouring positions of a plane share most lines of the cache, however few bytes a thread stores.
fn stores_us(planes: &Planes) -> f64 {
    match planes.store_bytes {
        bytes if planes.access() == access::ROWS => 0.64 / f64::from(bytes),
        0..=2 => 1.4,
        3..=4 => 0.8,
        5..=8 => 0.45,
        _ => 0.4,
    }
}

/// Figures of `wgrad`, fitted to 1,280 times on an H200 in the same way; of those that stand above too, these are what
/// operands take that the product instruction transposes.
mod wgrad {
    pub(super) const ENDS_US: f64 = 2.6;
    pub(super) const PANEL_US: f64 = 0.11;
    pub(super) const READ_US: f64 = 0.0098;
    pub(super) const TENSOR_US: f64 = 0.045;
    pub(super) const CACHE: f64 = 11.9e6;
    pub(super) const ACROSS_LINES: f64 = 0.41;
    pub(super) const ACROSS_SECTORS: f64 = 0.91;
    /// Writing sums of 64 rows and columns as they are, and to dw by pairs of elements.
    pub(super) const SUMS_US: f64 = 0.18;
    pub(super) const PAIRS_US: f64 = 1.5;
    /// The kernel that adds up partial sums, and the bytes of them that are written and read again in a microsecond.
    pub(super) const SECOND_US: f64 = 1.84;
    pub(super) const PARTIALS: f64 = 2.05e6;
    pub(super) const MEMORY: f64 = 15.5e6;
    /// Bytes a microsecond of the memory, when nothing else takes longer.
    pub(super) const ALL_MEMORY: f64 = 4.2e6;
    /// Finding that the other parts of a sum are there, and the bytes of parts that a block reads in a microsecond. Not
    /// fitted: the latency of a fence and a flag, and 64 bytes a cycle.
    pub(super) const FIXUP_US: f64 = 1.0;
    pub(super) const FIXUP_READS: f64 = 0.1e6;
    /// Leaving sums for all others and finding theirs; reading runs of four parts, of which now more are on their way
    /// together; and starting behind the end of what was before, where others would start beside it. Not fitted: where 44
    /// parts took 25 us, and what short sums took longer than when the first worker added.
    pub(super) const SHARES_US: f64 = 1.0;
    pub(super) const SHARE_US: f64 = 0.9;
    pub(super) const LATE_US: f64 = 1.5;
}

/// Time in which each worker adds up its share, when a warp has so many runs of so many parts.
fn added_shares_us(parts: u64, runs: u64) -> f64 {
    wgrad::SHARES_US + wgrad::SHARE_US * (runs * parts.div_ceil(4)) as f64
}

impl WgradView {
    /// Time of a run whose sums are cut in this way, and added by a second kernel.
    pub(super) fn estimate_us(&self, tile: ConvTile, cut: Cut) -> f64 {
        let partials = self.partials_bytes(tile, cut) as f64;
        let second = if partials > 0.0 { wgrad::SECOND_US + partials / wgrad::PARTIALS } else { 0.0 };
        let out = if cut == Cut::Splits(1) { wgrad::PAIRS_US } else { wgrad::SUMS_US };
        self.parts_us(tile, cut, out) + second
    }

    /// Time of a run whose workers add the parts.
    pub(super) fn fixup_us(&self, tile: ConvTile, cut: Cut) -> f64 {
        let (out, added) = match cut {
            Cut::Splits(1) => (OUT_US, 0.0),
            Cut::Shares(parts) => (wgrad::SUMS_US, self.shares_us(tile, parts)),
            _ => (OUT_US, self.first_us(tile, cut)),
        };
        self.parts_us(tile, cut, out) + added
    }

    /// Time in which each worker adds up its share of so many parts.
    pub(super) fn shares_us(&self, tile: ConvTile, parts: u64) -> f64 {
        let late = if self.is_short() { wgrad::LATE_US } else { 0.0 };
        late + added_shares_us(parts, u64::from(tile.sum_runs()).div_ceil(parts))
    }

    /// Time in which the worker with the first part of a tile adds the others.
    pub(super) fn first_us(&self, tile: ConvTile, cut: Cut) -> f64 {
        wgrad::FIXUP_US + self.first_reads(tile, cut) as f64 / wgrad::FIXUP_READS
    }

    /// Time until all parts are there, when sums of 64 rows and columns take so long to be written.
    fn parts_us(&self, tile: ConvTile, cut: Cut, out_us: f64) -> f64 {
        /// Bytes in a microsecond of operands that no other worker reads at the same time, and how much longer stages take
        /// without those: fitted to 700 times.
        const UNSHARED: f64 = 8e6;
        const AT_UNLIKE_PLACES: f64 = 1.1;
        let (m, n) = (f64::from(tile.gemm_m), f64::from(tile.gemm_n));
        let rows = |extent: f64, positions: &Positions| {
            extent * (1.0 + positions.misalignment(wgrad::ACROSS_LINES, wgrad::ACROSS_SECTORS))
        };
        let (tiles, clusters) = (self.tiles(tile), MULTIPROCESSORS / u64::from(tile.cluster));
        let blocks = self.active(tile, cut) as f64;
        let loads = blocks * (rows(m, &self.dy) + rows(n, &self.x)) * f64::from(ROW_BYTES) / wgrad::CACHE;
        // Each consumer reads its rows and its columns.
        let instructions = (m / 64.0).max(2.0);
        let columns = f64::from(tile.consumer_columns());
        let of_64 = m * n / 4096.0;
        let products = wgrad::READ_US * instructions * (64.0 + columns) / 64.0 + wgrad::TENSOR_US * of_64;
        let stage = (wgrad::PANEL_US + products).max(loads);
        let out = of_64 * out_us;
        let bytes = self.operand_bytes() as f64;
        let sums = match cut {
            Cut::Splits(splits) | Cut::Shares(splits) => {
                let stages = self.k_blocks().div_ceil(splits) as f64;
                (tiles * splits).div_ceil(clusters) as f64 * (stages * stage + out)
            }
            Cut::Evenly { workers } => {
                let stages = (tiles * self.k_blocks()).div_ceil(workers) as f64;
                // Every worker ends one tile and begins another; tiles that read the same do so at other times.
                let parts = 1.0 + (tiles as f64 / workers as f64).max(1.0);
                let each = f64::from(tile.a_bytes() * tile.cluster + tile.b_bytes());
                let unshared = each * (tiles * self.k_blocks()) as f64;
                (AT_UNLIKE_PLACES * stages * stage + parts * out).max(unshared / UNSHARED)
            }
        };
        wgrad::ENDS_US + (sums + bytes / wgrad::MEMORY).max(bytes / wgrad::ALL_MEMORY)
    }
}
