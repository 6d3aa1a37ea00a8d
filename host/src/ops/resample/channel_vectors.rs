//! Resampling of channels that lie together in whole 16 bytes: several columns of a tile a thread, all neighbours under way at
//! once.

use super::tables::{ends, most, neighbours};
use super::{ResamplePass, ResampleProblem, naive};
use crate::launch::{Aligned, ChannelLayout, KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem, TensorDesc};
use kernel_abi::division::Divisor;
use kernel_abi::ops::resample::{Coordinates, ResampleTableParams, TILE_COLUMNS, TILE_ROWS};

const BLOCK: u32 = 256;
/// Accesses to what is written that a block makes, where there are enough for all multiprocessors: a tile's neighbours are
/// found in f64, which few of them would not be worth.
const BLOCK_ITEMS: i64 = 4096;
/// Blocks that keep the memory busy, about.
const BUSY_BLOCKS: i64 = 528;
/// Share of the memory's rate.
const MEMORY_SHARE: f64 = 0.9;

/// Symbol, element type, elements of 16 bytes, neighbours along an axis, blocks of a multiprocessor.
type Row = (&'static str, DType, i64, i64);

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident, $vec:literal, $neighbours:literal, $blocks:literal)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype), $vec, $neighbours)),*]
    };
}
const KERNELS: &[Row] = kernel_abi::resample_channel_kernels!(rows);

/// Two dimensions, all filters and coordinates but `crop`, both passes, f32, f16 and bf16, where up to 4 neighbours along an
/// axis weigh something.
///
/// A run with addresses that are no multiples of 16 takes the naive kernel.
pub(super) struct ChannelVectors;

impl Algorithm<ResampleProblem> for ChannelVectors {
    fn name(&self) -> &'static str {
        "channel_vectors"
    }

    fn configs(&self, problem: &ResampleProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        Ok(vec![Config(Geometry::of(problem)?.row.0)])
    }

    fn workspace_bytes(&self, _: &ResampleProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ResampleProblem, _: Config, context: &Context) -> f64 {
        /// How much faster than memory a neighbour is added.
        const NEIGHBOURS: f64 = 7.0;
        let (_, written) = ends(problem);
        let Ok(Geometry { row, .. }) = Geometry::of(problem) else { return f64::INFINITY };
        let added = (row.3 * row.3) as f64 * written.data_bytes() as f64;
        let bytes = problem.bytes() / MEMORY_SHARE + added / NEIGHBOURS;
        crate::select::cost::LAUNCH_US + bytes / context.info().bytes_per_us
    }

    fn prepare(&self, problem: &ResampleProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let unsupported = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let Geometry { layout, params, blocks, .. } = Geometry::of(problem).map_err(unsupported)?;
        let fast = KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig { grid: [blocks, 1, 1], block: [BLOCK, 1, 1], ..LaunchConfig::default() },
            params,
            bind: |params, call| {
                (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
                (params.from.address, params.to.address) = (call.address(0), call.address(1));
            },
        };
        Ok(Box::new(Aligned { fast, align: layout.align(), general: naive::launch(problem, context)? }))
    }
}

struct Geometry {
    layout: ChannelLayout,
    row: &'static Row,
    params: ResampleTableParams,
    blocks: u32,
}

impl Geometry {
    fn of(problem: &ResampleProblem) -> Result<Self, Refusal> {
        if problem.coordinates() == Coordinates::Crop {
            return Err(Refusal::new("takes coordinates without a cropped region, given crop"));
        }
        let (from, to) = ends(problem);
        let layout = ChannelLayout::of(&[from, to])?;
        let backward = problem.resample_pass() == ResamplePass::Backward;
        let shape = problem.shape();
        let span = |desc: &TensorDesc| (1..desc.rank()).map(|i| (desc.dims()[i] - 1) * desc.strides()[i]).sum::<i64>();
        if let Some(desc) = [from, to].into_iter().find(|desc| span(desc) >= i64::from(i32::MAX)) {
            return Err(Refusal::new(format!("counts to 2^31 - 1 within an image, given {desc}")));
        }
        let [depth, ..] = shape.axes;
        if depth.image != 1 || depth.output != 1 {
            return Err(Refusal::new(format!("takes a single plane, from {} to {}", depth.image, depth.output)));
        }
        let (mut candidates, mut weighing) = (1, 1);
        for axis in &shape.axes {
            let Some([looked_at, heavy]) = neighbours(axis, &shape.filter, backward).map(|found| most(&found)) else {
                return Err(Refusal::new("takes neighbours in the image or near it, and few of them"));
            };
            (candidates, weighing) = (looked_at.max(candidates), heavy.max(weighing));
        }
        // The kernel of the fewest neighbours that are enough.
        let able = |row: &&Row| (row.1, row.2) == (to.dtype(), layout.vec) && row.3 >= weighing;
        let Some(row) = KERNELS.iter().find(able) else {
            return Err(Refusal::new(format!(
                "has no kernel for {} of {} elements an access and {weighing} neighbours along an axis",
                to.dtype(),
                layout.vec
            )));
        };
        let [_, height, width] = shape.axes.map(|axis| if backward { axis.image } else { axis.output });
        let units = shape.c / layout.vec;
        // Fewer a block where there are few in all; a table still serves some.
        let share = (shape.n * units * height * width / BUSY_BLOCKS).clamp(i64::from(BLOCK), BLOCK_ITEMS);
        // As few tiles as may be, of equal size.
        let even = |extent: i64, most: i64| div_ceil(extent, div_ceil(extent, most));
        let tile_columns = even(width, (share / (4 * units)).clamp(1, TILE_COLUMNS));
        let tile_rows = even(height, (share / (units * tile_columns)).clamp(1, TILE_ROWS));
        let (along, down) = (div_ceil(width, tile_columns), div_ceil(height, tile_rows));
        let blocks = shape.n * down * along;
        if blocks > i64::from(i32::MAX) || units * tile_columns * tile_rows > i64::from(i32::MAX / 2) {
            return Err(Refusal::new(format!(
                "counts to 2^31 - 1 blocks, and to half of it in a block, given {blocks}"
            )));
        }
        let divisor = |number: i64| Divisor::new(number as u32);
        let params = ResampleTableParams {
            axes: shape.axes,
            filter: shape.filter,
            backward: u32::from(backward),
            channels: units as u32,
            tiles_along: divisor(along),
            tiles_down: divisor(down),
            planes: divisor(1),
            groups: divisor(1),
            group: divisor(units),
            tile_columns: divisor(tile_columns),
            tile_rows: divisor(tile_rows),
            candidates: divisor(candidates),
            alpha: 1.0,
            beta: 0.0,
            from: layout.tensor(from),
            to: layout.tensor(to),
        };
        Ok(Geometry { layout, row, params, blocks: blocks as u32 })
    }
}
