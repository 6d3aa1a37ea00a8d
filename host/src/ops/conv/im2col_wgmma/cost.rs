//! How long `fprop` and `dgrad` take: rounds of tiles, and the panels of each.
//!
//! The figures were fitted to 2,800 times of tiles on an H200 (deepbench_conv and _server, resnet18 and 50, vgg, unet3d
//! and others, by `compare --verbose`); three of four estimates are within 10 % of the times.

use super::gather::View;
use crate::Context;
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, ROW_BYTES};

/// From the end of the kernel before to the first product, and from the last store to the end.
const ENDS_US: f64 = 2.46;
/// A panel of 64 terms of the sum, whatever the tile: barriers, and the latency of the products.
const PANEL_US: f64 = 0.048;
/// What the products of 64 rows and 64 columns read of shared memory: 64 rows and the columns, for each instruction.
const READ_US: f64 = 0.0214;
/// The tensor cores' time for 64 rows and 64 columns.
const TENSOR_US: f64 = 0.041;
/// A panel where two blocks share a load, and so wait for each other.
const SHARED_LOAD_US: f64 = 0.035;
/// Bytes that the second-level cache delivers to all blocks in a microsecond.
const CACHE: f64 = 12.75e6;
/// How much more of it rows take that begin inside of a cache line, those that begin inside of a sector too, and how
/// much more loads take where half of the columns are nothing.
const ACROSS_LINES: f64 = 0.47;
const ACROSS_SECTORS: f64 = 1.4;
const EMPTY_COLUMNS: f64 = 0.48;
/// A tile's way out, and that of 64 rows and columns.
const TILE_US: f64 = 0.1;
const OUT_US: f64 = 0.28;
/// Consumers that compute in turns: what remains of the way out beside the other's products, and how both add up, as
/// powers with this exponent.
const IN_TURNS: f64 = 0.82;
const BESIDE: f64 = 1.24;
/// How much of the longest tile the classes of a strided dgrad, which fill each other's gaps, leave at the end.
const LAST_TILE: f64 = 0.58;
/// Bytes a microsecond of what all of it waits for the memory.
const MEMORY: f64 = 14.9e6;

impl View {
    /// Time of a run with so many bytes of operands.
    pub(super) fn time_us(&self, tile: ConvTile, bytes: f64, context: &Context) -> f64 {
        let memory = bytes / MEMORY.min(3.75 * context.info().bytes_per_us);
        self.products_us(tile, context) + memory
    }

    /// Time of the products alone.
    pub(in crate::ops::conv) fn products_us(&self, tile: ConvTile, context: &Context) -> f64 {
        let (m, n) = (f64::from(tile.gemm_m), f64::from(tile.gemm_n));
        let slots = (context.info().n_units as u64 / u64::from(tile.cluster)).max(1);
        let classes: Vec<(u64, u64)> = self.classes.iter().map(|class| self.tiles_of(class, tile)).collect();
        let n_tiles: u64 = classes.iter().map(|(n, _)| n).sum();
        let empty = if self.group_written * 2 <= i64::from(tile.gemm_n) { EMPTY_COLUMNS } else { 0.0 };
        let across = self.read.misalignment(ACROSS_LINES, ACROSS_SECTORS);
        let rows = m * (1.0 + across + empty) + n * (1.0 + empty);
        let blocks = n_tiles.min(slots) as f64 * f64::from(tile.cluster);
        let loads = blocks * rows * f64::from(ROW_BYTES) / CACHE;
        let waits = if tile.cluster > 1 { SHARED_LOAD_US } else { 0.0 };
        let products = m / 64.0 * (READ_US * (64.0 + n) / 64.0 + TENSOR_US * n / 64.0);
        let stage = (PANEL_US + products + waits).max(loads);
        // Stores of threads, of panels that they have read from shared memory.
        let stores = self.planes.map_or(0.0, |planes| m * n / f64::from(planes.store_bytes) / 6400.0);
        let out = TILE_US + OUT_US * m * n / 4096.0 + stores;
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
}
