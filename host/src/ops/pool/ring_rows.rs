//! The gradient of maxima of windows that are 2 apart where channels lie together, on Hopper: the copy engine brings rows to
//! shared memory and takes those of results away.

use super::PoolProblem;
use super::rows_mma::{MovedConfig, MovedParams, MovedRows, Row, moved_rows};
use crate::launch::div_ceil;
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, check_hopper};
use crate::{Context, Error, Problem};
use kernel_abi::division::Divisor;
use kernel_abi::ops::pool::{
    PoolRingRowsParams, RING_ROWS_BLOCKS, RING_ROWS_HALO, RING_ROWS_MOVERS, RING_ROWS_PARTS, RING_ROWS_SIDE,
    RING_ROWS_STEP, RING_ROWS_STRIDE, RING_ROWS_VECTORS, RING_ROWS_WARPS, RingRowsTile, WindowAxis,
};

/// What the kernel counts blocks to.
const MAX_BLOCKS: i64 = 1 << 30;
/// Shared memory of a block: a multiprocessor has two of them.
const MAX_SHARED_BYTES: u32 = 113 * 1024;
/// Steps that are under way.
const MAX_STAGES: u32 = 4;
const MIN_STAGES: u32 = 2;

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype))),*]
    };
}
const KERNELS: &[Row] = kernel_abi::pool_ring_rows_kernels!(rows);

/// Maxima backward, from x; windows of 3 × 3, 2 apart, in one plane; f16 and bf16, channels last.
///
/// A run with addresses that are no multiples of 16, with alpha other than 1 or beta other than 0, is one of `columns`.
pub(super) struct RingRows;

impl Algorithm<PoolProblem> for RingRows {
    fn name(&self) -> &'static str {
        "ring_rows"
    }

    fn configs(&self, problem: &PoolProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        Ok(vec![Config(Cut::of(problem, context)?.symbol)])
    }

    fn workspace_bytes(&self, _: &PoolProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PoolProblem, _: Config, context: &Context) -> f64 {
        Cut::of(problem, context).map_or(f64::INFINITY, |cut| crate::select::cost::LAUNCH_US + cut.us)
    }

    fn prepare(&self, problem: &PoolProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let cut = Cut::of(problem, context).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let tile = cut.params.tile;
        let config = MovedConfig {
            symbol: config.0,
            blocks: cut.blocks,
            warps: tile.warps() + RING_ROWS_MOVERS,
            shared_bytes: tile.smem_bytes(),
            max_shared_bytes: MAX_SHARED_BYTES,
        };
        MovedRows::boxed(self.name(), problem, cut.params, config, context)
    }
}

impl MovedParams for PoolRingRowsParams {
    fn boxes(&self) -> [[u32; 2]; 3] {
        let tile = self.tile;
        [tile.image_columns, tile.output_columns, tile.columns].map(|columns| [columns, tile.images])
    }

    fn maps(&mut self) -> [&mut [u64; 16]; 3] {
        [&mut self.x_map, &mut self.dy_map, &mut self.dx_map]
    }
}

/// How the kernel cuts a problem.
struct Cut {
    symbol: &'static str,
    /// All but addresses.
    params: PoolRingRowsParams,
    blocks: u32,
    us: f64,
}

impl Cut {
    fn of(problem: &PoolProblem, context: &Context) -> Result<Self, Refusal> {
        let (shape, symbol) = moved_rows(problem, [RING_ROWS_SIDE, RING_ROWS_STRIDE], KERNELS)?;
        let [_, h, w] = shape.axes;
        if let Some(axis) = [h, w].into_iter().find(|axis| axis.padding > 1) {
            return Err(Refusal::new(format!(
                "takes windows that begin at most 1 before the image, given {}",
                axis.padding
            )));
        }
        let (n, vectors) = (shape.dx.dims()[0] as u32, (shape.dx.dims()[1] / shape.layout.vec) as u32);
        let (mut tile, tiles) = tile(&w, n);
        while tile.smem_bytes() > MAX_SHARED_BYTES {
            tile.stages -= 1;
            if tile.stages < MIN_STAGES {
                return Err(Refusal::new(format!(
                    "takes up to {MAX_SHARED_BYTES} bytes of shared memory, {MIN_STAGES} steps need {}",
                    tile.smem_bytes()
                )));
            }
        }
        let groups = i64::from(n.div_ceil(tile.images));
        let slices = vectors.div_ceil(RING_ROWS_VECTORS);
        let parts = i64::from(slices) * i64::from(tiles);
        let [rows, _] = shape.owners(RING_ROWS_STRIDE);
        let resident = i64::from(context.info().n_units as u32 * RING_ROWS_BLOCKS);
        let strips = strips(rows, groups * parts, resident);
        let blocks = groups * parts * strips;
        if blocks > MAX_BLOCKS {
            return Err(Refusal::new(format!("counts up to {MAX_BLOCKS} blocks, {} take {blocks}", shape.dx)));
        }
        let pair = |value: fn(&WindowAxis) -> i32| [value(&h) as u32, value(&w) as u32];
        let params = PoolRingRowsParams {
            x_map: [0; 16],
            dy_map: [0; 16],
            dx_map: [0; 16],
            image: pair(|axis| axis.image),
            output: pair(|axis| axis.output),
            padding: pair(|axis| axis.padding),
            tile,
            parts: Divisor::new(parts as u32),
            slices: Divisor::new(slices),
            strips: Divisor::new(strips as u32),
            spans: Divisor::new(tile.spans),
            steps: (rows / strips) as u32,
            n_longer: (rows % strips) as u32,
        };
        /// Microseconds of a step of a block beside another one's, and of a block before its first and behind its last.
        const STEP_US: f64 = 0.9;
        const BLOCK_US: f64 = 1.5;
        /// Share of the memory's rate.
        const MEMORY_SHARE: f64 = 0.95;
        let steps = (rows as f64 / strips as f64).ceil() + 2.0 * f64::from(RING_ROWS_HALO);
        let computing = (blocks as f64 / resident as f64).max(1.0) * steps * STEP_US;
        let moving = problem.bytes() / (MEMORY_SHARE * context.info().bytes_per_us);
        // They overlap, but not wholly.
        let us = (computing.powi(3) + moving.powi(3)).cbrt() + BLOCK_US;
        let blocks = blocks as u32;
        Ok(Cut { symbol, params, blocks, us })
    }
}

/// How rows are cut into tiles, and how many there are: as few as can be, as narrow as they can be then, of as many images beside
/// each other as there are warps for.
fn tile(w: &WindowAxis, n: u32) -> (RingRowsTile, u32) {
    let (padding, image) = (w.padding as u32, w.image as u32);
    let most_spans = RING_ROWS_WARPS / RING_ROWS_PARTS;
    // So many columns meet one window more than they have pairs.
    let windows_of = |columns: u32| (columns + padding - 1) / RING_ROWS_STRIDE + 1 + u32::from(padding == 0);
    let tiles = image.div_ceil(RING_ROWS_STRIDE * (RingRowsTile::windows_of(most_spans) - RING_ROWS_HALO));
    let columns = if tiles == 1 { image } else { image.div_ceil(tiles).next_multiple_of(RING_ROWS_STRIDE) };
    let windows = windows_of(columns);
    let spans = 1 + windows.saturating_sub(RingRowsTile::windows_of(1)).div_ceil(RING_ROWS_STEP);
    let first = RingRowsTile::first_window(padding);
    let image_begin = first * RING_ROWS_STRIDE as i32 - padding as i32;
    // One tile brings what there is.
    let whole = tiles == 1;
    let tile = RingRowsTile {
        images: (most_spans / spans).min(n),
        spans,
        stages: MAX_STAGES,
        columns,
        image_columns: if whole { image } else { RING_ROWS_STRIDE * (windows - 1) + RING_ROWS_SIDE },
        output_columns: if whole { w.output as u32 } else { windows },
        image_begin: if whole { 0 } else { image_begin },
        output_begin: if whole { 0 } else { first },
    };
    (tile, tiles)
}

/// Into how many strips an image's rows of windows are cut, of which there are so many besides: into short ones, which keep what
/// blocks have at a time together in memory, and where that leaves multiprocessors idle, into shorter ones.
fn strips(rows: i64, beside: i64, resident: i64) -> i64 {
    /// Rows of a strip. Of 28 rows of windows of 192 channels, N = 128, strips of 4 rows take 91 µs, of 7 94, of 14 97, of 28
    /// 101, of 2 111 (H200).
    const STEPS: i64 = 7;
    const MIN_STEPS: i64 = 3;
    let filling = resident / beside;
    filling.min(div_ceil(rows, MIN_STEPS)).max(div_ceil(rows, STEPS))
}
