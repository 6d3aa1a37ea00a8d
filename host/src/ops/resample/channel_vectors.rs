//! Resampling of channels that lie together in whole 16 bytes: several columns of a tile a thread, all neighbours under way at
//! once.

use super::tables::{BLOCK, Tile, ends, launch, most, neighbours};
use super::{ResamplePass, ResampleProblem};
use crate::launch::ChannelLayout;
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem, TensorDesc};
use kernel_abi::ops::resample::{Coordinates, ResampleTableParams, TILE_COLUMNS, TILE_ROWS};

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
        launch(config, layout, params, blocks, problem, context)
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
        let columns = Tile::even(width, (share / (4 * units)).clamp(1, TILE_COLUMNS));
        let rows = Tile::even(height, (share / (units * columns)).clamp(1, TILE_ROWS));
        let items = units * columns * rows;
        if items > i64::from(i32::MAX / 2) {
            return Err(Refusal::new(format!("counts to half of 2^31 in a block, given {items}")));
        }
        let (params, blocks) =
            Tile { group: units, rows, columns }.params(problem, &layout, units, units, candidates)?;
        Ok(Geometry { layout, row, params, blocks })
    }
}
