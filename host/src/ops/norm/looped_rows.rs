//! Rows that lie contiguous and are too long for registers: a block a row. The gradients of parameters take a kernel that
//! adds up parts of the rows, and one that adds up the parts.

use super::row_registers::{Geometry, VECTOR_BYTES, bound, column_sums, params, parts_bytes, wants_parts};
use super::{NormPass, NormProblem, naive};
use crate::driver::Function;
use crate::launch::{KernelLaunch, KernelRow, LaunchConfig, div_ceil, kernel_for, kernel_rows};
use crate::ops::norm::naive::run;
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, Error, Problem, Stream};
use kernel_abi::ops::norm::row_registers::{LOOPED_THREADS, NormColumnSumsParams, NormRowsParams, SUMMED_COLUMNS};

const KERNELS: &[KernelRow] = kernel_abi::norm_looped_kernels!(kernel_rows);

/// Blocks for each multiprocessor that add up gradients of parameters, and rows of each of them at a time.
const BLOCKS_PER_UNIT: i64 = 4;
const ROWS: i64 = 4;

/// A block a row, which reads it again from the cache.
pub(super) struct LoopedRows;

impl Algorithm<NormProblem> for LoopedRows {
    fn name(&self) -> &'static str {
        "looped_rows"
    }

    fn configs(&self, problem: &NormProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        /// Elements are counted in 32 bits, with some to spare behind the last.
        const MAX_ELEMS: i64 = 1 << 30;
        let configs = kernel_for(KERNELS, problem.pass(), problem.x().dtype(), context)?;
        Geometry::of(problem)?;
        let (least, given) = (i64::from(LOOPED_THREADS) * elems_of_vector(problem), problem.count());
        if !(least..=MAX_ELEMS).contains(&given) {
            return Err(Refusal::new(format!("takes rows of {least} to {MAX_ELEMS} elements, given {given}")));
        }
        Ok(configs)
    }

    fn workspace_bytes(&self, problem: &NormProblem, config: Config) -> u64 {
        // Addresses that are no multiples of 16 take the naive kernels.
        naive::Naive.workspace_bytes(problem, config)
    }

    fn workspace_bytes_on(&self, problem: &NormProblem, config: Config, context: &Context) -> u64 {
        let own = if wants_parts(problem) {
            parts_bytes(problem, n_parts(problem, context)) + 3 * statistic_bytes(problem)
        } else {
            0
        };
        own.max(self.workspace_bytes(problem, config))
    }

    fn estimate_us(&self, problem: &NormProblem, _: Config, context: &Context) -> f64 {
        /// What reading a row once more costs beside reading it.
        const AGAIN: f64 = 0.4;
        let times = match problem.norm_pass() {
            NormPass::Backward if problem.operand("inv_std").is_none() => 2.0,
            _ => 1.0,
        };
        let read = problem.bytes() - problem.out().data_bytes() as f64;
        let rows_us = cost::blocks_us(problem.bytes() + times * AGAIN * read, problem.sharing().n_rows(), context);
        if !wants_parts(problem) {
            return rows_us;
        }
        let columns =
            (read + 2.0 * parts_bytes(problem, n_parts(problem, context)) as f64) / context.info().bytes_per_us;
        rows_us + 2.0 * cost::LAUNCH_US + columns
    }

    fn prepare(&self, problem: &NormProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let refused = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let geometry = Geometry::of(problem).map_err(refused)?;
        let params = params(problem, &geometry);
        let dtype = problem.x().dtype();
        let gradients = if wants_parts(problem) {
            let columns = kernel_for(KERNELS, "columns", dtype, context).map_err(refused)?[0];
            let n_parts = n_parts(problem, context);
            let grid = [column_blocks(problem) as u32, n_parts, 1];
            Some(Gradients {
                columns: context.function(columns.0)?,
                config: LaunchConfig { grid, block: [SUMMED_COLUMNS, 1, 1], ..LaunchConfig::default() },
                sums: column_sums(problem, n_parts, context)?,
                parts_bytes: parts_bytes(problem, n_parts),
                statistic_bytes: statistic_bytes(problem),
            })
        } else {
            None
        };
        let fallback_config = naive::Naive.configs(problem, context).map_err(refused)?[0];
        Ok(Box::new(RowsLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig {
                grid: [params.n_rows, 1, 1],
                block: [LOOPED_THREADS, 1, 1],
                ..LaunchConfig::default()
            },
            params,
            gradients,
            fallback: naive::Naive.prepare(problem, fallback_config, context)?,
        }))
    }
}

fn elems_of_vector(problem: &NormProblem) -> i64 {
    VECTOR_BYTES / problem.x().dtype().size_bytes() as i64
}

/// Blocks beside one another that add up gradients of parameters.
fn column_blocks(problem: &NormProblem) -> i64 {
    let columns = i64::from(SUMMED_COLUMNS) * elems_of_vector(problem);
    div_ceil(problem.count(), columns)
}

/// Parts of the rows.
fn n_parts(problem: &NormProblem, context: &Context) -> u32 {
    let wanted = BLOCKS_PER_UNIT * context.info().n_units as i64 / column_blocks(problem);
    wanted.min(div_ceil(problem.sharing().n_rows(), ROWS)).max(1) as u32
}

fn statistic_bytes(problem: &NormProblem) -> u64 {
    size_of::<f32>() as u64 * problem.sharing().n_rows() as u64
}

/// What adds up dscale and dbias.
struct Gradients {
    columns: Function,
    config: LaunchConfig,
    sums: KernelLaunch<NormColumnSumsParams>,
    /// In the workspace: parts, then a mean, an inverse standard deviation and what rounding takes from x̂, a row, where
    /// they are not given.
    parts_bytes: u64,
    statistic_bytes: u64,
}

struct RowsLaunch {
    function: Function,
    config: LaunchConfig,
    params: NormRowsParams,
    gradients: Option<Gradients>,
    /// For addresses that are no multiples of 16.
    fallback: Box<dyn Launch>,
}

impl Launch for RowsLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let Some(mut params) = bound(&self.params, call) else {
            return self.fallback.launch(stream, call);
        };
        let Some(gradients) = &self.gradients else {
            return run(&self.function, &self.config, stream, &params);
        };
        params.partials = call.workspace_address();
        if params.statistics_are_given == 0 {
            params.mean = params.partials + gradients.parts_bytes;
            params.inv_std = params.mean + gradients.statistic_bytes;
            params.rest = params.inv_std + gradients.statistic_bytes;
        }
        run(&self.function, &self.config, stream, &params)?;
        run(&gradients.columns, &gradients.config, stream, &params)?;
        gradients.sums.launch(stream, call)
    }
}
