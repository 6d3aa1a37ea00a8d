//! Resampling of images whose columns lie together: lines are read 16 bytes at a time, sums of rows stand in shared
//! memory, from which each thread makes two columns of many lines.

use super::tables::{ends, most, neighbours};
use super::{ResamplePass, ResampleProblem, naive};
use crate::launch::{ACCESS_BYTES, Aligned, ChannelLayout, KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem, TensorDesc};
use kernel_abi::division::Divisor;
use kernel_abi::ops::resample::{
    COLUMNS_AT_ONCE, Coordinates, ResampleSeparableParams, ResampleTableParams, SEPARABLE_CANDIDATES,
    SEPARABLE_COLUMNS, SEPARABLE_NEIGHBOURS, SEPARABLE_SUMS, TILE_ROWS, place_in_line,
};

const BLOCK: u32 = 256;
/// The least lines that a block must have room for.
const LEAST_LINES: i64 = 4;
/// Share of the memory's rate.
const MEMORY_SHARE: f64 = 0.75;

/// Symbol, element type, elements of 16 bytes, neighbours along an axis, blocks of a multiprocessor.
type Row = (&'static str, DType, i64, i64, i64);

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident, $vec:literal, $neighbours:literal, $blocks:literal)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype), $vec, $neighbours, $blocks)),*]
    };
}
const KERNELS: &[Row] = kernel_abi::resample_separable_kernels!(rows);

/// One or two axes whose positions have up to four neighbours, all filters and coordinates but `crop`, both passes, f32,
/// f16 and bf16.
pub(super) struct Separable;

impl Algorithm<ResampleProblem> for Separable {
    fn name(&self) -> &'static str {
        "separable"
    }

    fn configs(&self, problem: &ResampleProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        Ok(vec![Config(Geometry::of(problem, context)?.symbol)])
    }

    fn workspace_bytes(&self, _: &ResampleProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ResampleProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::LAUNCH_US + problem.bytes() / (MEMORY_SHARE * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &ResampleProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let unsupported = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let Geometry { params, blocks, .. } = Geometry::of(problem, context).map_err(unsupported)?;
        let fast = KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig { grid: [blocks, 1, 1], block: [BLOCK, 1, 1], ..LaunchConfig::default() },
            params,
            bind: if problem.x().dtype().size_bytes() == 2 { bind::<2> } else { bind::<4> },
        };
        // Elements lie at multiples of their size.
        let align = ChannelLayout { vec: 1 }.align();
        Ok(Box::new(Aligned { fast, align, general: naive::launch(problem, context)? }))
    }
}

/// Puts in what a run knows, for elements of so many bytes: accesses are narrower where addresses are no multiples of them.
fn bind<const BYTES: u64>(params: &mut ResampleSeparableParams, call: &Call<'_>) {
    (params.tables.alpha, params.tables.beta) = (call.alpha as f32, call.beta as f32);
    let (from, to) = (call.address(0), call.address(1));
    (params.tables.from.address, params.tables.to.address) = (from, to);
    if !from.is_multiple_of(ACCESS_BYTES) {
        (params.vector, params.units) = (1, params.single_units);
    }
    params.whole_pairs &= u32::from(to.is_multiple_of(BYTES * COLUMNS_AT_ONCE as u64));
}

struct Geometry {
    symbol: &'static str,
    params: ResampleSeparableParams,
    blocks: u32,
}

impl Geometry {
    fn of(problem: &ResampleProblem, context: &Context) -> Result<Self, Refusal> {
        if problem.coordinates() == Coordinates::Crop {
            return Err(Refusal::new("takes coordinates without a cropped region, given crop"));
        }
        let (from, to) = ends(problem);
        let lie_together = |desc: &TensorDesc| desc.dims().last() == Some(&1) || desc.strides().last() == Some(&1);
        if let Some(desc) = [from, to].into_iter().find(|desc| desc.rank() > 4 || !lie_together(desc)) {
            return Err(Refusal::new(format!("takes one or two axes with columns that lie together, given {desc}")));
        }
        let span = |desc: &TensorDesc| (2..desc.rank()).map(|i| (desc.dims()[i] - 1) * desc.strides()[i]).sum::<i64>();
        if let Some(desc) = [from, to].into_iter().find(|desc| span(desc) >= i64::from(i32::MAX)) {
            return Err(Refusal::new(format!("counts to 2^31 - 1 within an image's channel, given {desc}")));
        }
        let backward = problem.resample_pass() == ResamplePass::Backward;
        let shape = problem.shape();
        let [_, rows, columns] = shape.axes.map(|axis| neighbours(&axis, &shape.filter, backward));
        let counts = [&rows, &columns].map(|found| found.as_ref().map(|found| most(found)));
        let [Some([of_row, heavy_rows]), Some([of_column, heavy_columns])] = counts else {
            return Err(Refusal::new("takes few neighbours near the image, given many or ones far outside"));
        };
        let (candidates, heavy) = (of_row.max(of_column), heavy_rows.max(heavy_columns));
        if candidates > SEPARABLE_CANDIDATES || heavy > SEPARABLE_NEIGHBOURS {
            return Err(Refusal::new(format!(
                "takes up to {SEPARABLE_NEIGHBOURS} neighbours along an axis among {SEPARABLE_CANDIDATES}, given {heavy} \
                 among {candidates}"
            )));
        }
        let found = KERNELS.iter().find(|row| row.1 == to.dtype() && row.3 >= heavy);
        let Some(&(symbol, _, vec, _, together)) = found else {
            return Err(Refusal::new(format!("takes f32, f16 and bf16, the element type is {}", to.dtype())));
        };
        let extents = |image: bool| shape.axes.map(|axis| if image { axis.image } else { axis.output });
        let ([_, _, read], [_, height, width]) = (extents(!backward), extents(backward));
        // Columns of a tile: as few tiles as may be, of equal size, but for whole pairs.
        let tile_columns =
            div_ceil(div_ceil(width, div_ceil(width, SEPARABLE_COLUMNS)), COLUMNS_AT_ONCE) * COLUMNS_AT_ONCE;
        let whole = |desc: &TensorDesc, by: i64| {
            let last = desc.rank() - 1;
            desc.dims()[last] % by == 0 && (0..last).all(|i| desc.dims()[i] == 1 || desc.strides()[i] % by == 0)
        };
        let vector = if whole(from, vec) { vec } else { 1 };
        let columns = columns.unwrap_or_default();
        // What the columns of a tile read, from a multiple on.
        let units = |vector: i64| {
            let of_tile = |tile: &[super::tables::Neighbours]| {
                let heavy = tile.iter().map(|n| &n[1]).filter(|n| !n.is_empty());
                let first = heavy.clone().map(|n| n.start.clamp(0, read - 1)).min().unwrap_or(0);
                let last = heavy.map(|n| (n.end - 1).clamp(0, read - 1)).max().unwrap_or(0);
                last / vector - first / vector + 1
            };
            columns.chunks(tile_columns as usize).map(of_tile).max().unwrap_or(1)
        };
        let pitch = |units: i64, vector: i64| i64::from(place_in_line((units * vector - 1) as u32)) + 2;
        let pitch = pitch(units(vector), vector).max(pitch(units(1), 1));
        let room = SEPARABLE_SUMS / pitch;
        if room < LEAST_LINES {
            return Err(Refusal::new(format!(
                "takes lines of which {LEAST_LINES} fit into {SEPARABLE_SUMS} sums, given {pitch} sums a line"
            )));
        }
        // Channels of all images are images where all lie one distance apart.
        let merges = |desc: &&TensorDesc| shape.c == 1 || desc.strides()[0] == shape.c * desc.strides()[1];
        let (outer, images) = if [from, to].iter().all(merges) { (1, shape.n * shape.c) } else { (shape.n, shape.c) };
        let tile_rows = div_ceil(height, div_ceil(height, TILE_ROWS.min(room)));
        let (along, down) = (div_ceil(width, tile_columns), div_ceil(height, tile_rows));
        // As many blocks as are there together: tables are few then, and all end at once.
        let (tiles, wanted) = (along * down * outer, context.info().n_units as i64 * together);
        let tensor = |desc: &TensorDesc| {
            let mut tensor = ChannelLayout { vec: 1 }.tensor(desc);
            if shape.c == 1 {
                tensor.strides[1] = tensor.strides[0];
            }
            tensor
        };
        // Within 2^31 elements of what is written, so that its places are numbers of 32 bits.
        let apart = tensor(to).strides[1].max(1);
        let near = (i64::from(i32::MAX) - span(to)) / apart + 1;
        let at_once = (images * tiles / wanted).clamp(1, (room / tile_rows).min(images).min(near));
        let group = div_ceil(div_ceil(images, at_once) * tiles, wanted).min(div_ceil(images, at_once)) * at_once;
        let groups = div_ceil(images, group);
        let Some(blocks) = u32::try_from(tiles * groups).ok().filter(|&blocks| blocks <= i32::MAX as u32) else {
            return Err(Refusal::new(format!("counts to 2^31 - 1 blocks, given {}", tiles * groups)));
        };
        let divisor = |number: i64| Divisor::new(number as u32);
        let tables = ResampleTableParams {
            axes: shape.axes,
            filter: shape.filter,
            backward: u32::from(backward),
            channels: images as u32,
            tiles_along: divisor(along),
            tiles_down: divisor(down),
            planes: divisor(1),
            groups: divisor(groups),
            group: divisor(group),
            tile_columns: divisor(tile_columns),
            tile_rows: divisor(tile_rows),
            candidates: divisor(candidates),
            alpha: 1.0,
            beta: 0.0,
            from: tensor(from),
            to: tensor(to),
        };
        let params = ResampleSeparableParams {
            tables,
            lines: (at_once * tile_rows) as u32,
            images: at_once as u32,
            vector: vector as u32,
            units: divisor(units(vector)),
            single_units: divisor(units(1)),
            pitch: pitch as u32,
            pairs: divisor(tile_columns / COLUMNS_AT_ONCE),
            whole_pairs: u32::from(whole(to, COLUMNS_AT_ONCE)),
        };
        Ok(Geometry { symbol, params, blocks })
    }
}
