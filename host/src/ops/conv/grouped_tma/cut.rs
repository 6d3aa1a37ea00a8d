//! Which problems the kernels take, and how each cuts them.

use super::super::grouped_mma::judge;
use crate::DType;
use crate::ops::conv::{ConvPass, ConvProblem};
use crate::select::Refusal;
use kernel_abi::Problem;
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::grouped_tma::{
    ConvGroupedTmaParams, GROUPED_TMA_MAX_BOX, GROUPED_TMA_PRODUCT, GROUPED_TMA_SLICES, GroupedTmaForm, GroupedTmaTile,
};
use kernel_abi::ops::conv::{ConvMode, halo_wgmma::MAX_SHARED_BYTES};

/// A row of the kernel list.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) symbol: &'static str,
    /// The name of two blocks of a multiprocessor.
    pub(super) two: &'static str,
    pass: &'static str,
    dtype: DType,
    width: u32,
    /// R = S.
    taps: u32,
    stride: u32,
    /// The most threads of a block, the warps that move rows included.
    threads: u32,
}

macro_rules! rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $width:literal, $taps:literal, $stride:literal, $threads:literal)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            two: concat!(stringify!($symbol), "+two"),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            width: $width,
            taps: $taps,
            stride: $stride,
            threads: $threads,
        }),*]
    };
}
const KERNELS: &[Row] = kernel_abi::conv_grouped_tma_kernels!(rows);

impl Row {
    fn is_wgrad(&self) -> bool {
        self.pass == "wgrad"
    }

    pub(super) fn form(&self) -> GroupedTmaForm {
        GroupedTmaForm { stride: self.stride, taps: self.taps, wgrad: self.is_wgrad() }
    }

    /// The most threads of a block, where a multiprocessor has so many of them. Its four schedulers have as many warps each, and
    /// the warps of the largest block, with their registers, take as much of each as those of all blocks may.
    pub(super) fn most_threads(&self, blocks: u32) -> u32 {
        const SCHEDULERS: u32 = 4;
        self.threads.min(self.threads.next_multiple_of(32 * SCHEDULERS) / blocks)
    }
}

/// What a device has for a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    /// Multiprocessors.
    pub(super) units: u32,
    /// Blocks that each of them has at a time.
    pub(super) blocks: u32,
    /// Bytes to and from memory for each of them in a cycle.
    pub(super) bytes_per_cycle: f64,
}

/// Cycles in a microsecond.
pub(super) const CYCLES_PER_US: f64 = 1700.0;

/// R = S that there are kernels for.
const TAPS: [i64; 3] = [3, 5, 7];
/// The widest groups that have more than 3 × 3 taps.
const MAX_WIDTH_OF_MORE: i64 = 8;
/// Blocks of `wgrad`, on however large a device: a workspace's size may not depend on that.
const WGRAD_BLOCKS: u32 = 132;
/// Shared memory that the system has of each block.
pub(super) const RESERVED_BYTES: u32 = 1024;
/// What the kernels count tiles to.
const MAX_TILES: i64 = 1 << 30;

/// A problem as the kernels see it.
#[derive(Debug)]
pub(super) struct View {
    pub(super) row: &'static Row,
    pub(super) n: u32,
    pub(super) c: u32,
    width: u32,
    flip: bool,
    padding: [i32; 2],
    /// Height and width of the image that is gathered, and of the one of the positions.
    pub(super) source_dims: [u32; 2],
    pub(super) target_dims: [u32; 2],
}

impl View {
    /// Judges the problem.
    pub(super) fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        let (pass, shape) = (problem.conv_pass(), problem.shape());
        judge(problem, &shape, &TAPS).map_err(Refusal::new)?;
        let [_, h, w] = shape.axes;
        if [h.dilation, w.dilation] != [1; 2] {
            return Err(Refusal::new(format!("takes neighbouring taps, given dilation {}x{}", h.dilation, w.dilation)));
        }
        let taps = shape.filter[1];
        if taps > 3 && shape.group_c() > MAX_WIDTH_OF_MORE {
            return Err(Refusal::new(format!(
                "has kernels of {taps}x{taps} taps for groups of up to {MAX_WIDTH_OF_MORE} channels, given {}",
                shape.group_c()
            )));
        }
        let wanted = (problem.pass(), problem.x().dtype(), [shape.group_c().max(8), taps, h.stride, w.stride]);
        let row = KERNELS
            .iter()
            .find(|row| (row.pass, row.dtype, [row.width, row.taps, row.stride, row.stride].map(i64::from)) == wanted);
        let Some(row) = row else {
            return Err(Refusal::new(format!(
                "has kernels for stride 1x1, and for 2x2 but in dgrad and of 7x7 taps, given {}x{}",
                h.stride, w.stride
            )));
        };
        let mirrored = pass == ConvPass::Dgrad;
        let pair = |values: [i64; 3]| [values[1] as u32, values[2] as u32];
        let (image, output) = (pair(shape.image), pair(shape.output));
        let padding = [h.padding as i32, w.padding as i32];
        let (source_dims, target_dims, padding) = if mirrored {
            (output, image, padding.map(|before| taps as i32 - 1 - before))
        } else {
            (image, output, padding)
        };
        Ok(View {
            row,
            n: shape.n as u32,
            c: shape.c as u32,
            width: shape.group_c() as u32,
            flip: (problem.mode() == ConvMode::Convolution) != mirrored,
            padding,
            source_dims,
            target_dims,
        })
    }

    /// Warps of a strip, of slices of so many channels.
    pub(super) fn warps(&self, slice: u32) -> u32 {
        self.row.form().warps(self.c.min(slice), self.row.width)
    }

    /// Blocks that share the tiles of a slice, of so many blocks.
    fn most_slabs(&self, slice: u32, blocks: u32) -> u32 {
        (blocks / self.c.div_ceil(slice)).max(1)
    }

    /// Bytes of partial sums that it needs at most, with so many blocks of a multiprocessor.
    pub(super) fn partials_bytes(&self, blocks: u32) -> u64 {
        if !self.row.is_wgrad() {
            return 0;
        }
        // Wide slices are fewer, so that each has more slabs.
        let [widest, _] = GROUPED_TMA_SLICES;
        4 * u64::from(self.most_slabs(widest, blocks * WGRAD_BLOCKS))
            * u64::from(self.c)
            * u64::from(self.width)
            * u64::from(self.row.taps.pow(2))
    }

    /// How it is cut with the least cycles.
    pub(super) fn cut(&self, device: Device) -> Result<Cut, Refusal> {
        let cuts = GROUPED_TMA_SLICES
            .into_iter()
            .flat_map(|slice| self.tiles(slice, device.blocks))
            .filter_map(|tile| self.try_cut(tile, device));
        cuts.min_by(|a, b| a.cycles.total_cmp(&b.cycles)).ok_or_else(|| {
            let [height, width] = self.target_dims;
            Refusal::new(format!(
                "counts up to {MAX_TILES} tiles, images of {height}x{width}, {} of them, take more, or more shared memory than \
                 blocks have, {} of a multiprocessor",
                self.n, device.blocks
            ))
        })
    }

    /// Tiles that come into question, of slices of so many channels.
    fn tiles(&self, slice: u32, blocks: u32) -> Vec<GroupedTmaTile> {
        /// Bands of a tile of columns: more gain nothing.
        const MAX_BANDS: u32 = 64;
        let [height, width] = self.target_dims;
        let form = self.row.form();
        let most_positions =
            (self.row.most_threads(blocks) / 32).saturating_sub(form.movers()) / self.warps(slice) * form.strip();
        let least_columns = width.min(GROUPED_TMA_PRODUCT / 2);
        let mut tiles = Vec::new();
        for columns in (least_columns..=width.min(most_positions)).rev() {
            let column_tiles = width.div_ceil(columns);
            // As few columns as do it in the same number of tiles.
            if columns > least_columns && columns != width.div_ceil(column_tiles) {
                continue;
            }
            let most_images = if column_tiles == 1 { most_positions / columns } else { 1 };
            for images in 1..=most_images.min(self.n).min(GROUPED_TMA_MAX_BOX) {
                for bands in 1..=height.min(MAX_BANDS) {
                    let rows = height.div_ceil(bands);
                    if height.div_ceil(rows) == bands {
                        tiles.push(GroupedTmaTile { images, rows, columns, stages: 0, channels: slice });
                    }
                }
            }
        }
        tiles
    }

    /// A tile's cut, unless it does not fit.
    fn try_cut(&self, mut tile: GroupedTmaTile, device: Device) -> Option<Cut> {
        /// Bytes of the source, and of dy, that are under way, where there is room.
        const UNDER_WAY: u32 = 96 * 1024;
        /// Cycles of a block before its first row and behind its last.
        const BLOCK_CYCLES: f64 = 2500.0;
        /// Cycles of a tile's first and last rows, of more than 3 × 3 taps, of `fprop` and `dgrad`, and of `wgrad`.
        const TILE_CYCLES: [f64; 2] = [800.0, 2000.0];
        /// Cycles that a row takes at least: what a warp waits for.
        const ALONE_CYCLES: f64 = 350.0;
        /// Share of what bands read again that comes from memory.
        const AGAIN: f64 = 0.2;
        let form = self.row.form();
        let GroupedTmaForm { stride, taps, wgrad } = form;
        if tile.source_columns(form) > GROUPED_TMA_MAX_BOX {
            return None;
        }
        let (slice, slices) = (tile.channels, self.c.div_ceil(tile.channels));
        let warps = tile.strips(form) * self.warps(slice);
        let sums_bytes = if wgrad { tile.sums_bytes(form, self.warps(slice), self.row.width) } else { 0 };
        let stage_bytes = tile.stage_bytes(form);
        // One is computed, others are under way.
        let Device { units, blocks: of_unit, .. } = device;
        let most_bytes = (MAX_SHARED_BYTES + RESERVED_BYTES) / of_unit - RESERVED_BYTES;
        tile.stages = (UNDER_WAY / of_unit).max(sums_bytes).div_ceil(stage_bytes).max(3);
        while tile.smem_bytes(form) > most_bytes {
            tile.stages -= 1;
            if tile.stages < 3 || tile.stages * stage_bytes < sums_bytes {
                return None;
            }
        }
        let [height, width] = self.target_dims;
        let (groups, bands) = (self.n.div_ceil(tile.images), height.div_ceil(tile.rows));
        let column_tiles = width.div_ceil(tile.columns);
        let tiles = i64::from(column_tiles) * i64::from(bands);
        let tiles = tiles.checked_mul(i64::from(groups)).filter(|&tiles| tiles <= MAX_TILES)? as u32;
        let rows = (tile.rows - 1) * stride + taps;
        let most_blocks = of_unit * if wgrad { units.min(WGRAD_BLOCKS) } else { units };
        let most_slabs = self.most_slabs(slice, most_blocks).min(tiles);
        let rounds = tiles.div_ceil(most_slabs);
        // As few as do it in the same number of rounds.
        let slabs = tiles.div_ceil(rounds);
        let blocks = slabs.checked_mul(slices).filter(|&blocks| blocks <= i32::MAX as u32)?;
        let waves = f64::from(blocks.div_ceil(of_unit * units));
        // Rows outside of the image are left out. Of 3 × 3 taps they are few, and times were fitted with them.
        let met = f64::from(self.source_dims[0] + (bands - 1) * (taps - stride)) / f64::from(bands);
        let met = if taps == 3 { f64::from(rows) } else { met.min(f64::from(rows)) };
        let steps = waves * f64::from(rounds) * met;
        // Blocks without a tile in the last round, and rows that two bands read.
        let idle = f64::from(rounds) * f64::from(slabs) / f64::from(tiles);
        let again = if bands == 1 { 0.0 } else { AGAIN * (f64::from(rows) / f64::from(tile.rows * stride) - 1.0) };
        let moving = self.moved_bytes(slice) * (idle + again) / (f64::from(units) * device.bytes_per_cycle);
        // They overlap, but not wholly.
        let tiles_cycles = if taps == 3 { 0.0 } else { waves * f64::from(rounds) * TILE_CYCLES[usize::from(wgrad)] };
        let cycles = [steps * self.computing(tile, of_unit) + tiles_cycles, steps * ALONE_CYCLES, moving]
            .map(|cycles| cycles.powi(3));
        let cycles = cycles.iter().sum::<f64>().cbrt() + waves * BLOCK_CYCLES;
        let params = ConvGroupedTmaParams {
            source_map: [0; 16],
            target_map: [0; 16],
            target: 0,
            filter: 0,
            partials: 0,
            n: self.n,
            channels: self.c,
            width: self.width,
            flip: u32::from(self.flip),
            source_rows: self.source_dims[0],
            target_dims: self.target_dims,
            padding: self.padding,
            tile,
            columns: Divisor::new(tile.columns),
            column_tiles: Divisor::new(column_tiles),
            bands: Divisor::new(bands),
            slices: Divisor::new(slices),
            n_tiles: tiles,
            slabs,
            alpha: 1.0,
            beta: 0.0,
        };
        Some(Cut { params, blocks, threads: 32 * (warps + form.movers()), cycles })
    }

    /// Bytes that go to and from memory.
    fn moved_bytes(&self, slice: u32) -> f64 {
        /// What is written in parts of lines at different times, because lines belong to several slices, is written once
        /// more, where it does not meet in the second-level cache.
        const IN_PARTS: f64 = 1.5;
        const CACHE_BYTES: f64 = 25e6;
        let image_bytes = |[height, width]: [u32; 2]| {
            2.0 * f64::from(self.n) * f64::from(self.c) * f64::from(height) * f64::from(width)
        };
        let (source, target) = (image_bytes(self.source_dims), image_bytes(self.target_dims));
        let [line, ..] = GROUPED_TMA_SLICES;
        let in_parts = !self.row.is_wgrad() && self.c > slice && (slice < line || !self.c.is_multiple_of(line));
        source + target + if in_parts { IN_PARTS * (target - CACHE_BYTES).max(0.0) } else { 0.0 }
    }

    /// Cycles that schedulers, or the copy engine, are busy for with a row of the source of each of a multiprocessor's blocks.
    fn computing(&self, tile: GroupedTmaTile, blocks: u32) -> f64 {
        /// Cycles of a scheduler for a warp's row: products of 16 channels, those of groups up to 8 wide, and all the rest.
        const PRODUCTS: f64 = 110.0;
        const NARROW_PRODUCTS: f64 = 65.0;
        const OTHERS: f64 = 45.0;
        /// Of more taps, what a row takes however few the warps are, first of `fprop` and `dgrad`, then of `wgrad`.
        const ROW: [f64; 2] = [450.0, 890.0];
        /// The same for each warp of a scheduler, its products and the rest, of 5 × 5 taps and of 7 × 7.
        const PRODUCTS_OF_WARP: [[f64; 2]; 2] = [[70.0, 52.0], [175.0, 180.0]];
        const OTHERS_OF_WARP: [[f64; 2]; 2] = [[60.0, 0.0], [0.0, 0.0]];
        const SCHEDULERS: u32 = 4;
        /// Cycles of the copy engine for the bytes of a position, whether or not they are there, of slices of 64 channels and
        /// of 32.
        const POSITION: [f64; 2] = [2.5, 4.3];
        let form = self.row.form();
        let GroupedTmaForm { stride, taps, wgrad } = form;
        let warps = f64::from((blocks * tile.strips(form) * self.warps(tile.channels)).div_ceil(SCHEDULERS));
        let steps = f64::from(stride);
        let computing = match self.row.width {
            8 if taps > 3 => {
                let (taps, wgrad) = (usize::from(taps > 5), usize::from(wgrad));
                ROW[wgrad] + warps * (PRODUCTS_OF_WARP[taps][wgrad] / steps + OTHERS_OF_WARP[taps][wgrad])
            }
            8 => warps * (NARROW_PRODUCTS / steps + OTHERS),
            // A warp of `wgrad` has 16 channels of x, however wide the groups are.
            width if !wgrad => warps * (PRODUCTS * f64::from(width) / 16.0 / steps + OTHERS),
            _ => warps * (PRODUCTS / steps + OTHERS),
        };
        let positions =
            blocks * tile.images * (tile.source_columns(form) + if wgrad { tile.columns / stride } else { 0 });
        let [line, _] = GROUPED_TMA_SLICES;
        computing.max(POSITION[usize::from(tile.channels < line)] * f64::from(positions))
    }
}

/// How a kernel cuts a problem.
#[derive(Debug)]
pub(super) struct Cut {
    /// All but addresses and scalars.
    pub(super) params: ConvGroupedTmaParams,
    pub(super) blocks: u32,
    pub(super) threads: u32,
    /// Cycles that it takes, by the model that cuts are chosen by.
    pub(super) cycles: f64,
}
