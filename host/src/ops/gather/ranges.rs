//! Sums of rows by lists of indices that are sorted into ranges of rows first: many rows, and many indices.

use super::rows::{Geometry, MEMORY_SHARE, SEARCH_SHARE, SumGrid};
use super::{GatherPass, GatherProblem, naive};
use crate::driver::Function;
use crate::launch::{KernelLaunch, LaunchConfig, div_ceil, launch_on};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_gpu, cost};
use crate::{Context, DType, Error, Stream};
use kernel_abi::division::Divisor;
use kernel_abi::ops::gather::{
    CHUNK_STEP, GatherListedParams, GatherParams, GatherRangesParams, MAX_CHUNKS, MAX_RANGES, ROWS_THREADS,
};

/// Symbol, step.
type StepRow = (&'static str, &'static str);
/// Symbol, element type, elements an access.
type SumRow = (&'static str, DType, i64);

macro_rules! steps {
    ($(($symbol:ident, $step:ident)),* $(,)?) => { &[$((stringify!($symbol), stringify!($step))),*] };
}
macro_rules! sums {
    ($(($symbol:ident, $dtype:ident, $vec:literal)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype), $vec)),*]
    };
}
const STEPS: &[StepRow] = kernel_abi::gather_range_kernels!(steps);
const SUMS: &[SumRow] = kernel_abi::gather_listed_kernels!(sums);

/// Backward of f32, f16 and bf16; three kernels, with the lists in the workspace.
///
/// A run with addresses that are no multiples of an access takes the naive kernel.
pub(super) struct Ranges;

/// The grid of the sums, and the launch parameters but for addresses and scalars.
fn listed(problem: &GatherProblem) -> Result<(SumGrid, GatherListedParams), Refusal> {
    if problem.gather_pass() != GatherPass::Backward {
        return Err(Refusal::new(format!("sums rows, the pass is {}", problem.gather_pass())));
    }
    let geometry = Geometry::of(problem)?;
    let grid = geometry.sum_grid(problem);
    let indices = Geometry::indices(problem);
    let blocks = div_ceil(grid.row_blocks, MAX_RANGES);
    let chunk = div_ceil(div_ceil(i64::from(indices.n), MAX_CHUNKS), CHUNK_STEP) * CHUNK_STEP;
    let ranges = GatherRangesParams {
        indices,
        workspace: 0,
        blocks: Divisor::new(blocks as u32),
        range_rows: (blocks * grid.block_rows) as u32,
        n_ranges: div_ceil(grid.row_blocks, blocks) as u32,
        n_chunks: div_ceil(i64::from(indices.n), chunk) as u32,
        chunk: chunk as u32,
        unused: 0,
    };
    let sum = geometry.sum_params(problem, &grid);
    Ok((grid, GatherListedParams { sum, ranges }))
}

/// Elements an access to a row.
fn elems(problem: &GatherProblem) -> Result<i64, Refusal> {
    Ok(Geometry::of(problem)?.access_bytes / problem.x().dtype().size_bytes() as i64)
}

impl Algorithm<GatherProblem> for Ranges {
    fn name(&self) -> &'static str {
        "ranges"
    }

    fn configs(&self, problem: &GatherProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        listed(problem)?;
        let (dtype, elems) = (problem.x().dtype(), elems(problem)?);
        let row = SUMS.iter().find(|row| (row.1, row.2) == (dtype, elems));
        row.map(|row| vec![Config(row.0)])
            .ok_or_else(|| Refusal::new(format!("has no kernel for {elems} elements of {dtype} an access")))
    }

    fn workspace_bytes(&self, problem: &GatherProblem, _: Config) -> u64 {
        listed(problem).map_or(0, |(_, params)| params.ranges.workspace_words() * size_of::<u32>() as u64)
    }

    fn estimate_us(&self, problem: &GatherProblem, _: Config, context: &Context) -> f64 {
        let Ok((grid, params)) = listed(problem) else { return f64::INFINITY };
        let ranges = f64::from(params.ranges.n_ranges);
        // Each range looks through all indices twice, each block through those of its range.
        let searches = 2.0 * ranges + grid.blocks() as f64 / ranges;
        let searched = searches * problem.indices().data_bytes() as f64;
        let bytes = crate::Problem::bytes(problem) / MEMORY_SHARE + searched / SEARCH_SHARE;
        3.0 * cost::LAUNCH_US + bytes / context.info().bytes_per_us
    }

    fn prepare(&self, problem: &GatherProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let unsupported = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let (grid, params) = listed(problem).map_err(unsupported)?;
        let item = problem.x().dtype().size_bytes() as u64;
        let steps = STEPS.iter().map(|row| context.function(row.0)).collect::<Result<_, _>>()?;
        Ok(Box::new(RangesLaunch {
            steps,
            sum: context.function(config.0)?,
            blocks: [params.ranges.n_ranges * params.ranges.n_chunks, grid.blocks() as u32],
            params,
            align: elems(problem).map_err(unsupported)? as u64 * item,
            general: naive::launch(problem, context)?,
        }))
    }
}

struct RangesLaunch {
    /// What sorts the indices, in order.
    steps: Vec<Function>,
    sum: Function,
    /// Blocks of the steps, and of the sums.
    blocks: [u32; 2],
    params: GatherListedParams,
    /// What rows lie at multiples of.
    align: u64,
    general: KernelLaunch<GatherParams>,
}

impl Launch for RangesLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let [indices, dy, dx] = [0, 1, 2].map(|i| call.address(i));
        if !(dy | dx).is_multiple_of(self.align) {
            return self.general.launch(stream, call);
        }
        let GatherListedParams { mut sum, mut ranges } = self.params;
        (sum.alpha, sum.beta) = (call.alpha as f32, call.beta as f32);
        (sum.indices.address, sum.dy.address, sum.dx.address) = (indices, dy, dx);
        (ranges.indices.address, ranges.workspace) = (indices, call.workspace_address());
        let config =
            |blocks: u32| LaunchConfig { grid: [blocks, 1, 1], block: [ROWS_THREADS, 1, 1], ..LaunchConfig::default() };
        for step in &self.steps {
            launch_on(stream, step, &config(self.blocks[0]), &ranges)?;
        }
        launch_on(stream, &self.sum, &config(self.blocks[1]), &GatherListedParams { sum, ranges })
    }
}
