//! How long `fprop` and `dgrad` take: rounds of tiles, and the panels of each.
//!
//! The figures were fitted to 2,800 times of tiles on an H200 (deepbench_conv and _server, resnet18 and 50, vgg, unet3d
//! and others, by `compare --verbose`); nine of ten estimates are within 12 % of the times.

use super::gather::View;
use crate::Context;
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, ROW_BYTES};

/// From the end of the kernel before to the first product, and from the last store to the end.
const ENDS_US: f64 = 2.8;
/// A panel of 64 terms of the sum, whatever the tile: barriers, and the latency of the products.
const PANEL_US: f64 = 0.045;
/// What the products of 64 rows and 64 columns read of shared memory: 64 rows and the columns, for each instruction.
const READ_US: f64 = 0.017;
/// The tensor cores' time for 64 rows and 64 columns.
const TENSOR_US: f64 = 0.04;
/// The same where a panel is of 32 terms, and the stage has two.
const NARROW_PANELS: f64 = 0.8;
/// Bytes that the second-level cache delivers to all blocks in a microsecond.
const CACHE: f64 = 64.0e6;
/// How much more of it rows take that begin inside of a cache line.
const ACROSS_LINES: f64 = 5.0;
/// How much more loads take where half of the columns are nothing.
const EMPTY_COLUMNS: f64 = 1.0;
/// 64 rows and columns of a tile's way out.
const OUT_US: f64 = 0.35;
/// The share of it that consumers wait for which compute in turns: the store, more than the arithmetic, takes the time.
const IN_TURNS: f64 = 0.81;
/// How much of the longest tile the classes of a strided dgrad, which fill each other's gaps, leave at the end.
const LAST_TILE: f64 = 0.52;
/// Bytes of the operands in a microsecond.
const MEMORY: f64 = 5.7e6;
/// How products and memory add up: as powers with this exponent, so that only equal ones slow each other down.
const OVERLAP: f64 = 2.7;

impl View {
    /// Time of a run with so many bytes of operands.
    pub(super) fn time_us(&self, tile: ConvTile, bytes: f64, context: &Context) -> f64 {
        let (products, memory) = (self.rounds_us(tile, context), bytes / MEMORY);
        ENDS_US + (products.powf(OVERLAP) + memory.powf(OVERLAP)).powf(1.0 / OVERLAP)
    }

    /// Time of the products alone.
    pub(in crate::ops::conv) fn products_us(&self, tile: ConvTile, context: &Context) -> f64 {
        ENDS_US + self.rounds_us(tile, context)
    }

    fn rounds_us(&self, tile: ConvTile, context: &Context) -> f64 {
        let (m, n, cluster) = (f64::from(tile.gemm_m), f64::from(tile.gemm_n), f64::from(tile.cluster));
        let slots = (context.info().n_units as u64 / u64::from(tile.cluster)).max(1);
        let classes: Vec<(u64, u64)> = self.classes.iter().map(|class| self.tiles_of(class, tile)).collect();
        let n_tiles: u64 = classes.iter().map(|(n, _)| n).sum();
        let blocks = n_tiles.min(slots) as f64 * cluster;
        let read = if self.read.crosses_lines() { ACROSS_LINES } else { 0.0 };
        let empty = if self.group_written * 2 <= i64::from(tile.gemm_n) { EMPTY_COLUMNS } else { 0.0 };
        let loaded = m * (1.0 + read + empty) + n / cluster * (1.0 + empty);
        let narrow = if tile.panel_k < 64 { NARROW_PANELS } else { 1.0 };
        let instructions = m / 64.0;
        let products = READ_US * instructions * (64.0 + n) / 64.0 + TENSOR_US * instructions * n / 64.0;
        let stage = PANEL_US + products * narrow + blocks * loaded * f64::from(ROW_BYTES) / CACHE;
        // Stores of threads, of panels that they have read from shared memory.
        let stores =
            self.planes.map_or(0.0, |planes| f64::from(tile.gemm_m * tile.gemm_n / planes.store_bytes) / 6400.0);
        let out = OUT_US * m * n / 4096.0 + stores;
        let waited = if tile.in_turns { IN_TURNS * out } else { out };
        let of_tile = |panels: u64| panels.div_ceil(tile.k_panels().into()) as f64 * stage + waited;
        let longest = classes.iter().map(|(_, panels)| of_tile(*panels)).fold(0.0, f64::max);
        let rounds = if classes.len() == 1 {
            n_tiles.div_ceil(slots) as f64 * longest
        } else {
            let all: f64 = classes.iter().map(|(n, panels)| *n as f64 * of_tile(*panels)).sum();
            (all / slots as f64 + LAST_TILE * longest).max(longest)
        };
        rounds + out - waited
    }
}
