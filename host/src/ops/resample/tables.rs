//! Resampling at the speed of memory: neighbours and weights of a tile once, then 16 bytes of channels a thread, or one
//! position of several channels where columns lie together, or channels that are no multiple of 16 bytes.

use super::{ResamplePass, ResampleProblem, naive};
use crate::launch::{Aligned, ChannelLayout, KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem, TensorDesc};
use kernel_abi::division::Divisor;
use kernel_abi::ops::resample::{
    CHANNELS_AT_ONCE, Coordinates, MAX_NEIGHBOURS, ResampleAxis, ResampleFilter, ResampleTableParams, TILE_COLUMNS,
    TILE_ROWS,
};
use std::ops::Range;

pub(super) const BLOCK: u32 = 256;
/// Columns of a tile where channels lie together: several of them fill a block.
const CHANNEL_TILE_COLUMNS: i64 = 16;
/// The most vectors of channels of a block: enough that a tile's table is little work beside them.
const MAX_GROUP: i64 = 64;
/// Accesses to what is written that a block makes, where there are enough for all multiprocessors.
const BLOCK_ITEMS: i64 = 2048;
/// Blocks that keep the memory busy, about.
const BUSY_BLOCKS: i64 = 528;
/// The furthest position of a neighbour.
const MAX_PLACE: i64 = 1 << 30;
/// Share of the memory's rate.
const MEMORY_SHARE: f64 = 0.75;

/// Symbol, element type, elements an access, columns read at once.
type Row = (&'static str, DType, i64, i64);

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident, $vec:literal, $columns:literal)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype), $vec, $columns)),*]
    };
}
const KERNELS: &[Row] = kernel_abi::resample_table_kernels!(rows);

/// All filters and coordinates but `crop`, both passes, f32, f16 and bf16, where a position has few neighbours.
///
/// A run with addresses that are no multiples of 16 takes the naive kernel where channels are read 16 bytes at a time.
pub(super) struct Tables;

impl Algorithm<ResampleProblem> for Tables {
    fn name(&self) -> &'static str {
        "tables"
    }

    fn configs(&self, problem: &ResampleProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        Ok(vec![Config(Geometry::of(problem)?.row.0)])
    }

    fn workspace_bytes(&self, _: &ResampleProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ResampleProblem, _: Config, context: &Context) -> f64 {
        /// How much faster than memory the caches are, from which all neighbours but new ones come.
        const CACHES: f64 = 6.0;
        let (_, written) = ends(problem);
        let Ok(geometry) = Geometry::of(problem) else { return f64::INFINITY };
        let bytes = problem.bytes() / MEMORY_SHARE + geometry.neighbours * written.data_bytes() as f64 / CACHES;
        // Channels that lie together and are taken one by one: each of a thread's is an access to the same bytes.
        let singly = geometry.layout.vec == 1 && !lies_by_columns(written);
        let factor = if singly { CHANNELS_AT_ONCE as f64 * crate::select::cost::UNTIMED } else { 1.0 };
        crate::select::cost::LAUNCH_US + factor * bytes / context.info().bytes_per_us
    }

    fn prepare(&self, problem: &ResampleProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let unsupported = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let Geometry { layout, params, blocks, .. } = Geometry::of(problem).map_err(unsupported)?;
        launch(config, layout, params, blocks, problem, context)
    }
}

/// What is read and what is written.
pub(super) fn ends(problem: &ResampleProblem) -> (&TensorDesc, &TensorDesc) {
    match problem.resample_pass() {
        ResamplePass::Forward => (problem.x(), problem.y()),
        ResamplePass::Backward => (problem.y(), problem.x()),
    }
}

/// The neighbours of a position that are looked at, and those among them outside of which none weighs something.
pub(super) type Neighbours = [Range<i64>; 2];

/// The neighbours of all positions of an axis. None where they are beyond the room of a table, or further outside than it
/// can count.
pub(super) fn neighbours(axis: &ResampleAxis, filter: &ResampleFilter, backward: bool) -> Option<Vec<Neighbours>> {
    let of_position = |at: i64| {
        let (begin, end) = axis.neighbours(filter, backward, at);
        if end - begin > MAX_NEIGHBOURS || begin.abs().max(end.abs()) > MAX_PLACE {
            return None;
        }
        let weighs = |from: &i64| axis.weight_of(filter, backward, at, *from) as f32 != 0.0;
        let first = (begin..end).find(weighs).unwrap_or(end);
        let last = (first..end).rfind(weighs).unwrap_or(first);
        Some([begin..end, first..if first < end { last + 1 } else { end }])
    };
    (0..if backward { axis.image } else { axis.output }).map(of_position).collect()
}

/// How many they are at most: that are looked at, and that weigh something; at least 1.
pub(super) fn most(neighbours: &[Neighbours]) -> [i64; 2] {
    [0, 1].map(|which| neighbours.iter().map(|n| n[which].end - n[which].start).fold(1, i64::max))
}

pub(super) fn lies_by_columns(desc: &TensorDesc) -> bool {
    let last = desc.rank() - 1;
    desc.dims()[last] == 1 || desc.strides()[last] == 1
}

/// In multiples of 16 bytes, or one by one.
pub(super) fn layout(tensors: &[&TensorDesc]) -> Result<ChannelLayout, Refusal> {
    let floats = matches!(tensors[0].dtype(), DType::F32 | DType::F16 | DType::BF16);
    let by_channels = |desc: &&TensorDesc| desc.dims()[1] == 1 || desc.strides()[1] == 1;
    ChannelLayout::of(tensors).or_else(|refusal| {
        if floats && tensors.iter().all(by_channels) { Ok(ChannelLayout { vec: 1 }) } else { Err(refusal) }
    })
}

/// The launch of a kernel of tiles, with the naive one for addresses that are no multiples of what it accesses.
pub(super) fn launch(
    config: Config,
    layout: ChannelLayout,
    params: ResampleTableParams,
    blocks: u32,
    problem: &ResampleProblem,
    context: &Context,
) -> Result<Box<dyn Launch>, Error> {
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

/// Sizes of a tile.
pub(super) struct Tile {
    /// Units of channels.
    pub(super) group: i64,
    pub(super) rows: i64,
    pub(super) columns: i64,
}

impl Tile {
    /// As few parts of an extent as may be, of equal size.
    pub(super) fn even(extent: i64, most: i64) -> i64 {
        div_ceil(extent, div_ceil(extent, most.max(1)))
    }

    /// The launch parameters but for addresses and scalars, and the blocks: a tile each of so many units of channels, of
    /// which there are `channels` accesses.
    pub(super) fn params(
        &self,
        problem: &ResampleProblem,
        layout: &ChannelLayout,
        channels: i64,
        units: i64,
        candidates: i64,
    ) -> Result<(ResampleTableParams, u32), Refusal> {
        let (from, to) = ends(problem);
        let (shape, backward) = (problem.shape(), problem.resample_pass() == ResamplePass::Backward);
        let [depth, height, width] = shape.axes.map(|axis| if backward { axis.image } else { axis.output });
        let groups = div_ceil(units, self.group);
        let (along, down) = (div_ceil(width, self.columns), div_ceil(height, self.rows));
        let blocks = shape.n * groups * depth * down * along;
        let Some(blocks) = u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32) else {
            return Err(Refusal::new(format!("counts to 2^31 - 1 blocks, given {blocks}")));
        };
        let divisor = |number: i64| Divisor::new(number as u32);
        let params = ResampleTableParams {
            axes: shape.axes,
            filter: shape.filter,
            backward: u32::from(backward),
            channels: channels as u32,
            tiles_along: divisor(along),
            tiles_down: divisor(down),
            planes: divisor(depth),
            groups: divisor(groups),
            group: divisor(self.group),
            tile_columns: divisor(self.columns),
            tile_rows: divisor(self.rows),
            candidates: divisor(candidates),
            alpha: 1.0,
            beta: 0.0,
            from: layout.tensor(from),
            to: layout.tensor(to),
        };
        Ok((params, blocks))
    }
}

struct Geometry {
    layout: ChannelLayout,
    row: &'static Row,
    params: ResampleTableParams,
    blocks: u32,
    /// The most neighbours of a position that weigh something.
    neighbours: f64,
}

impl Geometry {
    fn of(problem: &ResampleProblem) -> Result<Self, Refusal> {
        if problem.coordinates() == Coordinates::Crop {
            return Err(Refusal::new("takes coordinates without a cropped region, given crop"));
        }
        let (from, to) = ends(problem);
        let layout = layout(&[from, to])?;
        let backward = problem.resample_pass() == ResamplePass::Backward;
        let shape = problem.shape();
        let span = |desc: &TensorDesc| (2..desc.rank()).map(|i| (desc.dims()[i] - 1) * desc.strides()[i]).sum::<i64>();
        if let Some(desc) = [from, to].into_iter().find(|desc| span(desc) >= i64::from(i32::MAX)) {
            return Err(Refusal::new(format!("counts to 2^31 - 1 within an image's channel, given {desc}")));
        }
        let neighbours_of = |axis| neighbours(axis, &shape.filter, backward);
        let (mut candidates, mut neighbours, mut columns) = (1, 1.0, 1);
        for (i, axis) in shape.axes.iter().enumerate() {
            let Some([looked_at, heavy]) = neighbours_of(axis).map(|found| most(&found)) else {
                return Err(Refusal::new(format!(
                    "takes up to {MAX_NEIGHBOURS} neighbours along an axis, axis {i} of depth, height and width has more, or \
                     ones far outside, from {} to {}",
                    axis.image, axis.output
                )));
            };
            (candidates, neighbours, columns) = (looked_at.max(candidates), neighbours * heavy as f64, heavy);
        }
        let wanted = if columns > 2 { 4 } else { columns };
        let found = KERNELS.iter().find(|row| (row.1, row.2, row.3) == (to.dtype(), layout.vec, wanted));
        let Some(row) = found else {
            return Err(Refusal::new(format!("has no kernel for {} of {} elements an access", to.dtype(), layout.vec)));
        };
        let [depth, height, width] = shape.axes.map(|axis| if backward { axis.image } else { axis.output });
        let by_channels = layout.vec > 1 || !lies_by_columns(to);
        let channels = shape.c / layout.vec;
        let units = if layout.vec > 1 { channels } else { div_ceil(channels, CHANNELS_AT_ONCE as i64) };
        let items = shape.n * units * depth * height * width;
        // Fewer a block where there are few in all; a table still serves some.
        let share = (items / BUSY_BLOCKS).clamp(i64::from(BLOCK), BLOCK_ITEMS);
        // As few tiles as may be, of equal size.
        let even = Tile::even;
        let (group, columns, rows);
        if by_channels {
            group = even(units, MAX_GROUP);
            columns = even(width, CHANNEL_TILE_COLUMNS);
            rows = even(height, (share / (group * columns)).clamp(1, TILE_ROWS));
        } else {
            columns = even(width, TILE_COLUMNS);
            rows = even(height, (share / columns).clamp(1, TILE_ROWS));
            group = even(units, share / (columns * rows));
        }
        let (params, blocks) = Tile { group, rows, columns }.params(problem, &layout, channels, units, candidates)?;
        Ok(Geometry { layout, row, params, blocks, neighbours })
    }
}
