//! Reductions of what lies contiguous (`rows`) and across it (`columns`), 16 bytes a load, split into parts where there
//! are few results.

use super::{AsReduce, ReducePass, ReduceProblem};
use crate::driver::Function;
use crate::launch::{KernelRow, LaunchConfig, kernel_for, kernel_rows, launch};
use crate::plan::{Call, Launch};
use crate::select::cost::LAUNCH_US;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, DType, Error, Stream};
use kernel_abi::desc::collapse_dims;
use kernel_abi::division::Divisor;
use kernel_abi::ops::reduce::{FINISH_LOADS, FIRST_LOADS, MAX_LEVELS, MOST_TERMS, ReducePartsParams};
use kernel_abi::{MAX_RANK, TensorParam};

const KERNELS: &[KernelRow] = kernel_abi::reduce_vector_kernels!(kernel_rows);
const RUNS: &[KernelRow] = kernel_abi::reduce_run_kernels!(kernel_rows);
const WIDE: &[KernelRow] = kernel_abi::reduce_wide_kernels!(kernel_rows);
const FINISH: &[KernelRow] = kernel_abi::reduce_finish_kernels!(kernel_rows);

const BLOCK: u32 = 256;
/// Threads of a block that has one long row.
const WIDE_BLOCK: u32 = 1024;
/// Accesses of a row that such a block has at most: from then on, blocks that share it are faster.
const WIDE_ITEMS: u32 = 1 << 14;
const WARP: u32 = 32;
/// Bytes of an access.
const CHUNK: u64 = 16;
/// Neighbours that read the 128 bytes of a cache line.
const LINE: u32 = 8;
/// Loads that a thread has under way together, of most passes.
const UNROLL: u32 = 4;
/// Loads of a thread below which a result is not split: a second kernel would take longer.
const UNSPLIT: u32 = 32;
/// Blocks that keep the memory of a large GPU busy. No number of the device: workspaces are asked for without one.
const BLOCKS: u32 = 1056;
/// Blocks that do without parts: three for each multiprocessor of it keep the memory busy, and there is no second kernel.
const ENOUGH: u32 = 396;
/// Threads that small problems are spread over, where they have as many accesses.
const SPREAD: u64 = 1 << 16;
/// The most parts of a result: what the second kernel's threads have under way together where 8 stand beside one another.
const MAX_PARTS: u32 = BLOCK / SECTOR * FINISH_LOADS;
/// Threads that read 32 bytes of parts together.
const SECTOR: u32 = 8;
/// Share of the memory's rate.
const MEMORY_SHARE: f64 = 0.9;
const LAST: usize = MAX_RANK - 1;

/// What the names of kernels of columns end with that have other numbers of threads beside one another.
const WIDER_SUFFIX: &str = "+wider";
const NARROWER_SUFFIX: &str = "+narrower";

/// A kernel's names with these.
struct Columns {
    row: KernelRow,
    wider: &'static str,
    narrower: &'static str,
}

macro_rules! column_rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => {
        &[$(Columns {
            row: KernelRow {
                symbol: stringify!($symbol),
                pass: stringify!($pass),
                dtype: kernel_abi::dtype_of!($dtype),
            },
            wider: concat!(stringify!($symbol), "+wider"),
            narrower: concat!(stringify!($symbol), "+narrower"),
        }),*]
    };
}

const COLUMNS: &[Columns] = kernel_abi::reduce_vector_kernels!(column_rows);

/// Rows, or columns, by what lies contiguous; parts are combined by a second kernel. A few long rows may take a block of
/// 1024 threads each instead, and columns that leave threads idle more of these. Indices and `log_sum_exp` of rows have
/// kernels of their own, whose rows are in one part.
pub(in crate::ops) struct Vectorized;

impl<P: AsReduce> Algorithm<P> for Vectorized {
    fn name(&self) -> &'static str {
        "vectorized"
    }

    fn configs(&self, problem: &P, context: &Context) -> Result<Vec<Config>, Refusal> {
        let problem = &problem.as_reduce()?;
        let geometry = Geometry::of(problem, Shape::Usual)?;
        let kernels = if geometry.pass == "runs" { RUNS } else { KERNELS };
        let mut configs = kernel_for(kernels, geometry.pass, problem.x().dtype(), context)?;
        let Form { params, blocks } = geometry.vectors.as_ref().unwrap_or(&geometry.general);
        // Long rows, so few of them that a block has one.
        let long = UNROLL * BLOCK < params.items && params.items <= WIDE_ITEMS;
        if geometry.pass == "rows" && params.lanes == BLOCK && long && *blocks < ENOUGH {
            configs.extend(kernel_for(WIDE, geometry.pass, problem.x().dtype(), context)?);
        }
        let fits = |columns: &&Columns| columns.row.pass == geometry.pass && columns.row.dtype == problem.x().dtype();
        if geometry.pass == "columns"
            && let Some(columns) = COLUMNS.iter().find(fits)
        {
            configs.extend(can_be_wider(params).then_some(Config(columns.wider)));
            configs.extend(can_be_narrower(params).then_some(Config(columns.narrower)));
        }
        Ok(configs)
    }

    fn workspace_bytes(&self, problem: &P, config: Config) -> u64 {
        let Ok(problem) = &problem.as_reduce() else { return 0 };
        Geometry::of(problem, Shape::of(config)).map_or(0, |geometry| geometry.workspace_bytes(problem))
    }

    fn estimate_us(&self, problem: &P, config: Config, context: &Context) -> f64 {
        /// From a thread's loads to the next ones, where nobody else keeps the memory busy.
        const ROUND_US: f64 = 0.6;
        /// What another number of threads side by side costs, where it was not timed.
        const OTHER: f64 = 1.01;
        let shape = Shape::of(config);
        let Ok(geometry) = problem.as_reduce().and_then(|problem| Geometry::of(&problem, shape)) else {
            return f64::MAX;
        };
        let Form { params, .. } = geometry.vectors.as_ref().unwrap_or(&geometry.general);
        let kernels = if geometry.n_parts > 1 { 2.0 } else { 1.0 };
        let bytes_us = problem.bytes() / (MEMORY_SHARE * context.info().bytes_per_us);
        let sharing = match geometry.pass {
            "columns" => BLOCK / params.lanes,
            "runs" => params.lanes / params.inner.divisor.next_power_of_two(),
            _ => params.lanes,
        };
        let rounds = params.part_items.div_ceil(loads(geometry.pass) * sharing);
        let other = if matches!(shape, Shape::Wider | Shape::Narrower) { OTHER } else { 1.0 };
        kernels * LAUNCH_US + other * bytes_us.max(f64::from(rounds) * ROUND_US)
    }

    fn prepare(&self, problem: &P, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let shape = Shape::of(config);
        let refused = |refusal: Refusal| refusal.into_error(Algorithm::<P>::name(self), problem);
        let problem = &problem.as_reduce().map_err(refused)?;
        let geometry = Geometry::of(problem, shape).map_err(refused)?;
        let finish = FINISH.iter().find(|row| row.dtype == problem.computing()).unwrap_or(&FINISH[0]);
        Ok(Box::new(VectorizedLaunch {
            function: context.function(config.0.trim_end_matches(WIDER_SUFFIX).trim_end_matches(NARROWER_SUFFIX))?,
            block: if shape == Shape::Wide { WIDE_BLOCK } else { BLOCK },
            finish: if geometry.n_parts > 1 { Some(context.function(finish.symbol)?) } else { None },
            span_bytes: problem.x().span_bytes(),
            geometry,
        }))
    }
}

/// How threads share a problem out.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Usual,
    /// Rows: a block of 1024 threads has one.
    Wide,
    /// Columns: the next number of threads beside one another.
    Wider,
    /// Columns: as many as read a cache line. More blocks, so that each has whole results, or blocks end more evenly.
    Narrower,
}

impl Shape {
    fn of(config: Config) -> Self {
        if WIDE.iter().any(|row| row.symbol == config.0) {
            Shape::Wide
        } else if config.0.ends_with(WIDER_SUFFIX) {
            Shape::Wider
        } else if config.0.ends_with(NARROWER_SUFFIX) {
            Shape::Narrower
        } else {
            Shape::Usual
        }
    }
}

/// What a problem is to the kernels.
struct Geometry {
    pass: &'static str,
    n_parts: u32,
    /// With accesses of 16 bytes that are whole, where layouts allow them.
    vectors: Option<Form>,
    /// For all others: rows leave out what accesses have of their neighbours, columns are read element by element.
    general: Form,
}

/// Parameters but for addresses and scalars, and blocks.
struct Form {
    params: ReducePartsParams,
    blocks: u32,
}

impl Geometry {
    fn of(problem: &ReduceProblem, shape: Shape) -> Result<Self, Refusal> {
        let (x, y) = (problem.x(), problem.y());
        if !x.dtype().is_general() || problem.computing() != x.dtype().accumulator() {
            let (x, y) = (x.dtype(), y.dtype());
            return Err(Refusal::new(format!(
                "takes f32, f64, f16 and bf16 computed in their accumulator, given {x} to {y}"
            )));
        }
        if y.dtype().is_integer() {
            return Err(Refusal::new(format!("writes floating-point numbers and truth values, given {}", y.dtype())));
        }
        let (kept, reduced) = problem.split_dims();
        let [within] = collapse_dims([x], &reduced);
        let [kept_x, kept_y, kept_indices] = collapse_dims([x, y, problem.indices().unwrap_or(y)], &kept);
        let levels = within.dims.iter().filter(|&&dim| dim > 1).count();
        if !(1..=MAX_LEVELS).contains(&levels) {
            return Err(Refusal::new(format!("reduces 1 to {MAX_LEVELS} loops in memory, {levels} are reduced")));
        }
        let is_run = |param: &TensorParam| param.dims[LAST] > 1 && param.strides[LAST] == 1;
        let rows = is_run(&within);
        if !rows && !is_run(&kept_x) {
            return Err(Refusal::new(format!("reads neighbours in memory, along no dimension does x have any: {x}")));
        }
        let run = if rows { within.dims[LAST] } else { kept_x.dims[LAST] };
        let (n_outputs, n_reduced) = (y.n_elems(), problem.n_reduced());
        if n_outputs > i64::from(i32::MAX) || n_reduced > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("counts to 2^31 - 1, given {n_outputs} results of {n_reduced} elements")));
        }
        let pass = match (problem.indices().is_some(), problem.reduce_pass()) {
            (true, _) => "first",
            (_, ReducePass::LogSumExp) => "log_sum_exp",
            _ if rows => "rows",
            _ => "columns",
        };
        let whole = matches!(pass, "first" | "log_sum_exp");
        // Indices are counted row-major, whatever the order in memory.
        let [_, in_order] = collapse_dims([&x.to_packed(), x], &reduced);
        if whole && !(rows && in_order.dims[LAST] == n_reduced) {
            return Err(Refusal::new(format!(
                "gives indices and log_sum_exp of rows that lie contiguous, reduces {reduced:?} of {x}"
            )));
        }
        if pass == "log_sum_exp" && x.dtype() == DType::F64 {
            return Err(Refusal::new("has exponentials in f32, given f64"));
        }
        let width = CHUNK as i64 / x.dtype().size_bytes() as i64;
        // All but the run itself begins at multiples of a vector.
        let by_vectors = |param: &TensorParam| {
            (0..MAX_RANK).all(|i| param.dims[i] == 1 || param.strides[i] == 1 || param.strides[i] % width == 0)
        };
        let fits = run % width == 0 && by_vectors(&within) && by_vectors(&kept_x);
        // Wherever a run begins, it meets no more than these.
        let pieces = (run + width - 2) / width + 1;
        // Rows of several runs that begin alike.
        let runs = pass == "rows" && !fits && levels > 1 && by_vectors(&within) && pieces <= i64::from(BLOCK);
        let pass = if runs { "runs" } else { pass };
        let form = |vectors: bool, n_parts: Option<u32>| -> (Form, u32) {
            let (mut extents, mut strides) = ([1; MAX_LEVELS], [0; MAX_LEVELS]);
            for level in 0..levels {
                (extents[level], strides[level]) = (within.dims[LAST - level], within.strides[LAST - level]);
            }
            if rows {
                extents[0] = if vectors { run / width } else { pieces };
            }
            let accesses = extents.iter().product::<i64>() as u32;
            let items = if runs { accesses / pieces as u32 } else { accesses };
            let run_lanes = if runs { (pieces as u32).next_power_of_two() } else { 1 };
            let per_run = (run / if vectors { width } else { 1 }) as u32;
            let (lanes, groups, blocks_of_run) = if rows {
                if shape == Shape::Wide {
                    (WIDE_BLOCK, n_outputs as u32, 1)
                } else {
                    let lanes = row_lanes(pass, accesses, n_outputs as u32).max(run_lanes);
                    (lanes, (n_outputs as u32).div_ceil(BLOCK / lanes), 1)
                }
            } else {
                let mut lanes = column_lanes(per_run);
                if shape == Shape::Wider && lanes < WARP {
                    lanes *= 2;
                } else if shape == Shape::Narrower {
                    lanes = lanes.min(LINE);
                }
                let blocks = per_run.div_ceil(lanes);
                (lanes, (n_outputs / run) as u32 * blocks, blocks)
            };
            // Threads that share out the items of a result: each has some in every part.
            let sharing = if rows { lanes / run_lanes } else { BLOCK / lanes };
            let n_parts = n_parts.unwrap_or_else(|| {
                if whole || shape == Shape::Wide || items < UNSPLIT * sharing {
                    return 1;
                }
                let wanted = if groups < ENOUGH {
                    (BLOCKS / groups).min(items / (2 * UNROLL * sharing)).clamp(1, MAX_PARTS)
                } else {
                    1
                };
                let wanted = wanted.max(items.div_ceil(MOST_TERMS * sharing));
                // Rounded up, so many items may need fewer parts.
                items.div_ceil(items.div_ceil(wanted))
            });
            let params = ReducePartsParams {
                x: 0,
                x_end: 0,
                partials: 0,
                n_outputs,
                n_reduced,
                alpha: 1.0,
                beta: 0.0,
                strides,
                inner: Divisor::new(extents[0] as u32),
                middle: Divisor::new(extents[1] as u32),
                blocks: Divisor::new(blocks_of_run),
                items,
                part_items: items.div_ceil(n_parts),
                n_parts,
                op: problem.reduce_pass() as u32,
                y_dtype: y.dtype() as u32,
                indices_dtype: problem.indices().unwrap_or(y).dtype() as u32,
                lanes,
                finish_lanes: finish_lanes(n_outputs as u32, n_parts),
                vectors: u32::from(vectors),
                run: run as u32,
                is_pitched: u32::from(kept_y.dims[..LAST].iter().all(|&dim| dim == 1)),
                x_pitch: kept_x.strides[LAST],
                y_pitch: kept_y.strides[LAST],
                indices: kept_indices,
                y: kept_y,
                kept: kept_x,
            };
            (Form { params, blocks: groups }, n_parts)
        };
        let (vectors, n_parts) = match fits.then(|| form(true, None)) {
            Some((form, n_parts)) => (Some(form), Some(n_parts)),
            None => (None, None),
        };
        // The same number of parts for both: the workspace's size is known before addresses are.
        let (general, n_parts) = form(false, n_parts);
        Ok(Geometry { pass, n_parts, vectors, general })
    }

    fn workspace_bytes(&self, problem: &ReduceProblem) -> u64 {
        let parts = if self.n_parts > 1 { u64::from(self.n_parts) } else { 0 };
        // A number and a factor each.
        parts * problem.y().n_elems() as u64 * 2 * problem.computing().size_bytes() as u64
    }
}

/// Loads that a thread of a pass has under way together.
fn loads(pass: &str) -> u32 {
    if pass == "first" { FIRST_LOADS } else { UNROLL }
}

/// Threads of a row of so many items: as few as give each a round of loads, so that few steps are left between threads; of
/// many short rows still fewer, so that a warp has several, whose steps and results it has in common.
fn row_lanes(pass: &str, items: u32, n_outputs: u32) -> u32 {
    if items > UNROLL * WARP && n_outputs < 4 * BLOCKS {
        return BLOCK;
    }
    let most = items.next_power_of_two().min(WARP);
    let mut lanes = items.div_ceil(loads(pass)).next_power_of_two().clamp(LINE, WARP).min(most);
    // Threads that go to the multiprocessors several times over.
    let plenty = if pass == "rows" { 1 << 20 } else { u64::MAX };
    let threads = |lanes: u32| u64::from(n_outputs) * u64::from(lanes);
    while items <= UNROLL * WARP && lanes > LINE && threads(lanes / 2) >= plenty {
        lanes /= 2;
    }
    while lanes < most && threads(lanes) < SPREAD {
        lanes *= 2;
    }
    lanes
}

/// Threads beside one another of the second kernel, the others of a block having parts of the same results: fewer where a
/// thread had more parts than it has under way together, but as many as read 32 bytes together.
fn finish_lanes(n_outputs: u32, n_parts: u32) -> u32 {
    let fits = |lanes: u32| n_parts <= BLOCK / lanes * FINISH_LOADS;
    let lanes = [WARP, WARP / 2].into_iter().find(|&lanes| fits(lanes)).unwrap_or(SECTOR);
    lanes.min(n_outputs.next_power_of_two())
}

/// Threads beside one another of so many columns: as many as a warp has, or a cache line, if few of them were idle.
fn column_lanes(columns: u32) -> u32 {
    let used = |lanes: u32| columns as f64 / (columns.div_ceil(lanes) * lanes) as f64;
    if columns < 8 {
        return columns.next_power_of_two();
    }
    [32, 16].into_iter().find(|&lanes| used(lanes) >= 0.9).unwrap_or(8)
}

/// Whether twice the threads beside one another are tried: longer pieces of each row are read together, and more threads have
/// nothing to read at its end.
fn can_be_wider(params: &ReducePartsParams) -> bool {
    params.vectors != 0 && params.lanes < WARP && params.blocks.divisor > 2
}

/// Whether fewer threads beside one another are tried.
fn can_be_narrower(params: &ReducePartsParams) -> bool {
    params.vectors != 0 && params.lanes > LINE
}

struct VectorizedLaunch {
    function: Function,
    /// Threads of a block of it.
    block: u32,
    /// Where there are parts to combine.
    finish: Option<Function>,
    geometry: Geometry,
    /// Of x.
    span_bytes: u64,
}

impl Launch for VectorizedLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.function.name())?;
        let aligned = call.address(0).is_multiple_of(CHUNK);
        let Geometry { vectors, general, n_parts, .. } = &self.geometry;
        let form = vectors.as_ref().filter(|_| aligned).unwrap_or(general);
        let mut params = form.params;
        (params.alpha, params.beta) = (call.alpha, call.beta);
        (params.x, params.y.address) = (call.address(0), call.address(1));
        params.x_end = params.x + self.span_bytes;
        params.indices.address = if call.operands.len() > 2 { call.address(2) } else { 0 };
        params.partials = if *n_parts > 1 { call.workspace_address() } else { 0 };
        let grid =
            LaunchConfig { grid: [form.blocks, *n_parts, 1], block: [self.block, 1, 1], ..LaunchConfig::default() };
        let queue = |function: &Function, config: &LaunchConfig| launch(function, config, stream, &params);
        queue(&self.function, &grid)?;
        match &self.finish {
            Some(finish) => {
                let blocks = (params.n_outputs as u32).div_ceil(params.finish_lanes);
                queue(finish, &LaunchConfig { grid: [blocks, 1, 1], ..grid })
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A warp has several of many short rows; of few, and of long ones, as many threads as have a round of loads each.
    #[test]
    fn many_short_rows_share_a_warp() {
        assert_eq!(row_lanes("first", 125, 65_536), 16);
        assert_eq!(row_lanes("rows", 98, 131_072), 8);
        assert_eq!(row_lanes("rows", 125, 65_536), 16);
        assert_eq!(row_lanes("rows", 64, 65_536), 16);
        assert_eq!(row_lanes("first", 125, 4096), 16);
        assert_eq!(row_lanes("rows", 1024, 65_536), 32);
        assert_eq!(row_lanes("rows", 1024, 4096), BLOCK);
    }

    /// Long sums are split however many blocks there are.
    #[test]
    fn threads_add_few_terms_one_after_the_other() {
        for text in ["add x=1000000x16384:f32 y=1x16384:f32", "add x=65536x600000x6:f32:s4800000x8x1 y=65536x1x1:f32"] {
            let problem: ReduceProblem = format!("reduce:{text}").parse().unwrap();
            let geometry = Geometry::of(&problem, Shape::Usual).unwrap();
            let Form { params, .. } = geometry.vectors.as_ref().unwrap_or(&geometry.general);
            let sharing = match geometry.pass {
                "runs" => params.lanes / params.inner.divisor.next_power_of_two(),
                _ => BLOCK / params.lanes,
            };
            assert!(params.part_items.div_ceil(sharing) <= MOST_TERMS, "{text}");
        }
    }

    /// No part begins behind the last item: it would take what lies behind x.
    #[test]
    fn parts_are_not_empty() {
        for text in [
            "add x=256x512x28x28:bf16:nhwc y=1x512x1x1:bf16:nhwc",
            "add x=256x1024x14x14:bf16:nhwc y=1x1024x1x1:bf16:nhwc",
            "add x=64x1024x512:bf16 y=1x1x512:bf16",
            "max x=4289x128:f32 y=1x128:f32",
            "add x=3x1000003:f32 y=3x1:f32",
        ] {
            let problem: ReduceProblem = format!("reduce:{text}").parse().unwrap();
            let geometry = Geometry::of(&problem, Shape::Usual).unwrap();
            assert!(geometry.n_parts > 1, "{text}");
            let form = geometry.vectors.as_ref().unwrap_or(&geometry.general).params;
            assert!((form.n_parts - 1) * form.part_items < form.items, "{text}: {} parts", form.n_parts);
        }
    }
}
