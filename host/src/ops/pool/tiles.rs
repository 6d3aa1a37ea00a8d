//! The gradient of maxima at the speed of memory: a tile of dx a block, which looks for the maximum of each window once.

use super::planes::Shape;
use super::strips::fill;
use super::{PoolNan, PoolProblem, naive};
use crate::launch::{Aligned, ChannelLayout, KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem};
use kernel_abi::division::Divisor;
use kernel_abi::ops::pool::{PoolTileParams, TILE_LANES, TILE_THREADS, WindowAxis};

/// Rows of a tile, and columns where channels lie together.
const TILE_SIDE: i64 = 16;
/// Columns of a tile where these lie together.
const TILE_COLUMNS: i64 = 32;
/// Positions of a window: their numbers are bytes.
const MAX_WINDOW: i64 = 255;
/// Shared memory of a block: several of them fit a multiprocessor.
const MAX_SHARED: i64 = 48 << 10;
/// Shares of the memory's rate: where channels lie together, and with single elements.
const MEMORY_SHARES: [f64; 2] = [0.4, 0.05];

/// Symbol, element type, elements an access.
type Row = (&'static str, DType, i64);

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident, $vec:literal)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype), $vec)),*]
    };
}
const KERNELS: &[Row] = kernel_abi::pool_tile_kernels!(rows);

/// Maxima backward, from x; windows of one plane; f32, f16 and bf16.
///
/// A run with addresses that are no multiples of 16 takes the naive kernel where channels are read 16 bytes at a time.
pub(super) struct Tiles;

impl Algorithm<PoolProblem> for Tiles {
    fn name(&self) -> &'static str {
        "tiles"
    }

    fn configs(&self, problem: &PoolProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let geometry = Geometry::of(problem)?;
        let wanted = (problem.y().dtype(), geometry.layout.vec);
        Ok(KERNELS.iter().filter(|row| (row.1, row.2) == wanted).map(|row| Config(row.0)).collect())
    }

    fn workspace_bytes(&self, _: &PoolProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PoolProblem, _: Config, context: &Context) -> f64 {
        /// What looking at an element once more costs, of the memory's time for it.
        const AGAIN: [f64; 2] = [0.2, 0.04];
        let looks = problem.flops() / problem.x().n_elems() as f64;
        let single = Geometry::of(problem).map_or(0, |geometry| usize::from(geometry.layout.vec == 1));
        let rate = MEMORY_SHARES[single] * context.info().bytes_per_us;
        crate::select::cost::LAUNCH_US + problem.bytes() / rate * (1.0 + AGAIN[single] * (looks - 1.0).max(0.0))
    }

    fn prepare(&self, problem: &PoolProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let unsupported = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let geometry = Geometry::of(problem).map_err(unsupported)?;
        let tiles = KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig {
                grid: [geometry.blocks, 1, 1],
                block: [TILE_THREADS, 1, 1],
                shared_bytes: geometry.shared_bytes,
                ..LaunchConfig::default()
            },
            params: geometry.params,
            bind: |params, call| {
                (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
                (params.x.address, params.dy.address) = (call.address(0), call.address(1));
                params.dx.address = call.address(2);
            },
        };
        Ok(Box::new(Aligned { fast: tiles, align: geometry.layout.align(), general: naive::launch(problem, context)? }))
    }
}

struct Geometry {
    layout: ChannelLayout,
    params: PoolTileParams,
    blocks: u32,
    shared_bytes: u32,
}

impl Geometry {
    fn of(problem: &PoolProblem) -> Result<Self, Refusal> {
        let Shape { dx, layout, axes: [d, h, w] } = Shape::of(problem)?;
        if d.window != 1 || d.stride.divisor != 1 {
            let (window, stride) = (d.window, d.stride.divisor);
            return Err(Refusal::new(format!("takes windows of one plane side by side, given {window} of {stride}")));
        }
        let places = i64::from(h.window).saturating_mul(i64::from(w.window));
        if places > MAX_WINDOW {
            return Err(Refusal::new(format!("takes windows of up to {MAX_WINDOW} elements, given {places}")));
        }
        let even = |extent: i32, most: i64| {
            let extent = i64::from(extent);
            let tiles = div_ceil(extent, most);
            (tiles, div_ceil(extent, tiles))
        };
        let by_channels = layout.vec > 1;
        let (row_tiles, rows) = even(h.image, TILE_SIDE);
        let (column_tiles, columns) = even(w.image, if by_channels { TILE_SIDE } else { TILE_COLUMNS });
        let [n, c] = [dx.dims()[0], dx.dims()[1]];
        let channels = c / layout.vec;
        // Small planes share a block.
        let positions = (rows * columns) as u32;
        let lanes = if by_channels { TILE_LANES } else { (TILE_THREADS / positions.max(1)).clamp(1, 8) };
        let lanes = 1 << lanes.ilog2();
        let windows = [met(&h, rows), met(&w, columns)];
        let shared_bytes = windows[0] * windows[1] * i64::from(lanes) * layout.vec;
        if shared_bytes > MAX_SHARED {
            let reason = format!("takes up to {MAX_SHARED} bytes of shared memory, needs {shared_bytes}");
            return Err(Refusal::new(reason));
        }
        let chunks = div_ceil(channels, i64::from(lanes));
        let blocks = [n, i64::from(d.image), row_tiles, column_tiles, chunks].into_iter().fold(1, i64::saturating_mul);
        if blocks > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("takes up to {} tiles, given {blocks}", i32::MAX)));
        }
        let divisor = |number: i64| Divisor::new(number as u32);
        let params = PoolTileParams {
            channels: channels as u32,
            lanes,
            chunks: divisor(chunks),
            tiles: [divisor(column_tiles), divisor(row_tiles)],
            planes: divisor(i64::from(d.image)),
            tile: [rows as u32, columns as u32],
            tile_columns: divisor(columns),
            windows: divisor(windows[1]),
            axes: [h, w],
            ignore_nan: u32::from(problem.nan() == PoolNan::Ignore),
            fill: fill(dx.dtype(), true, problem.nan()),
            alpha: 1.0,
            beta: 0.0,
            unused: 0,
            x: layout.tensor(problem.x()),
            dy: layout.tensor(problem.y()),
            dx: layout.tensor(dx),
        };
        Ok(Geometry { layout, params, blocks: blocks as u32, shared_bytes: shared_bytes as u32 })
    }
}

/// The most windows along an axis that a tile of so many positions meets.
fn met(axis: &WindowAxis, positions: i64) -> i64 {
    let most = (positions - 1 + i64::from(axis.window) - 1) / i64::from(axis.stride.divisor) + 1;
    most.min(i64::from(axis.output)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tile meets no more windows than there is shared memory for.
    #[test]
    fn windows_of_a_tile_fit() {
        for text in [
            "window=3x3 stride=2x2 pad=1x1 x=2x64x112x112:bf16:nhwc dy=2x64x56x56:bf16:nhwc",
            "window=3x3 stride=1x1 pad=1x1 x=2x64x35x17:f16:nhwc dy=2x64x35x17:f16:nhwc",
            "window=2x5 stride=3x1 pad=1x2 x=2x3x40x70:f32",
            "window=5x4 stride=7x9 x=2x3x40x70:f32",
            "window=3x3 stride=2x2 ceil=1 x=2x3x9x9:f32",
        ] {
            let problem: PoolProblem = format!("pool:backward mode=max {text}").parse().unwrap();
            let geometry = Geometry::of(&problem).unwrap();
            let p = &geometry.params;
            for a in 0..2 {
                let axis = &p.axes[a];
                for begin in (0..axis.image).step_by(p.tile[a] as usize) {
                    let end = (begin + p.tile[a] as i32).min(axis.image);
                    let n = axis.covering(end - 1).1 - axis.covering(begin).0;
                    assert!(i64::from(n) <= met(axis, i64::from(p.tile[a])), "{text}: {begin}..{end} of axis {a}");
                }
            }
        }
    }
}
