//! Rows that lie contiguous, brought to rings in shared memory by blocks that stay, backward; a second kernel adds up the
//! gradients of parameters.

use super::row_registers::{Geometry, RowsLaunch, VECTOR_BYTES, parts_bytes};
use super::{NormPass, NormProblem, naive};
use crate::launch::{DYNAMIC_SHARED_ALIGN, LaunchConfig};
use crate::plan::Launch;
use crate::select::cost::LAUNCH_US;
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem};
use kernel_abi::ops::norm::row_registers::RING_ROWS;

/// A kernel.
#[derive(Clone, Copy)]
struct Row {
    symbol: &'static str,
    dtype: DType,
    /// Vectors of a thread.
    vectors: i64,
    /// The most threads of a block.
    threads: i64,
}

macro_rules! rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $vectors:literal, $threads:literal)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            dtype: kernel_abi::dtype_of!($dtype),
            vectors: $vectors,
            threads: $threads,
        }),*]
    };
}

const KERNELS: &[Row] = kernel_abi::norm_ring_kernels!(rows);

const LANES: i64 = 32;
/// The least threads of a team, each of which has a barrier.
const MIN_THREADS: i64 = 2 * LANES;
/// Shared memory that a block may have where no device says so: that of compute capability 8.6.
const MAX_SHARED: usize = 99 << 10;
/// Share of the memory's rate.
const MEMORY_SHARE: f64 = 0.9;

/// One read of each input, one write of dx, the next rows' reads beside it.
pub(super) struct RingRows;

impl Algorithm<NormProblem> for RingRows {
    fn name(&self) -> &'static str {
        "ring_rows"
    }

    fn configs(&self, problem: &NormProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        Geometry::of(problem)?;
        let order = problem.sharing().packed_rows();
        if order.run != 1 || order.period != 1 {
            let mode = problem.mode().name();
            return Err(Refusal::new(format!("takes parameters that rows have in order, given mode {mode}")));
        }
        if problem.norm_pass() != NormPass::Backward {
            return Err(Refusal::new(format!("computes backward, the pass is {}", problem.pass())));
        }
        if problem.operand("inv_std").is_none() {
            return Err(Refusal::new("takes statistics, given none"));
        }
        let dtype = problem.x().dtype();
        if dtype != DType::F32 && naive::parameters_are_wide(problem) != 0 {
            return Err(Refusal::new(format!("takes parameters of {dtype} with {dtype}, given f32")));
        }
        let Some(row) = KERNELS.iter().find(|row| row.dtype == dtype) else {
            return Err(Refusal::new(format!("has no kernel for {dtype}")));
        };
        let given = threads(problem, *row);
        if !(MIN_THREADS..=row.threads).contains(&given) {
            let (least, most) = (MIN_THREADS, row.threads);
            return Err(Refusal::new(format!("takes {least} to {most} threads a row, this one would have {given}")));
        }
        if most_teams(problem, *row, context) == 0 {
            let bytes = ring_bytes(problem, *row);
            return Err(Refusal::new(format!("takes {bytes} bytes of shared memory, more than a block has")));
        }
        Ok(vec![Config(row.symbol)])
    }

    fn workspace_bytes(&self, problem: &NormProblem, config: Config) -> u64 {
        // Addresses that are no multiples of 16 take the naive kernels.
        naive::Naive.workspace_bytes(problem, config)
    }

    fn workspace_bytes_on(&self, problem: &NormProblem, config: Config, context: &Context) -> u64 {
        let parts = find(config).map_or(0, |row| parts_bytes(problem, n_blocks(problem, row, context)));
        parts.max(self.workspace_bytes(problem, config))
    }

    fn estimate_us(&self, problem: &NormProblem, config: Config, context: &Context) -> f64 {
        /// What a block takes from its begin to its first row's sums.
        const BEGIN_US: f64 = 1.5;
        let info = context.info();
        let Some(row) = find(config) else { return f64::INFINITY };
        let parts = parts_bytes(problem, n_blocks(problem, row, context));
        let launches = if parts > 0 { 2.0 } else { 1.0 };
        launches * LAUNCH_US + BEGIN_US + (problem.bytes() + 2.0 * parts as f64) / (MEMORY_SHARE * info.bytes_per_us)
    }

    fn prepare(&self, problem: &NormProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let launch_config = find(config).map(|row| {
            let teams = n_teams(problem, row, context);
            LaunchConfig {
                grid: [n_blocks(problem, row, context), 1, 1],
                block: [threads(problem, row) as u32, teams as u32, 1],
                shared_bytes: (teams * ring_bytes(problem, row)) as u32,
                ..LaunchConfig::default()
            }
        });
        Ok(Box::new(RowsLaunch::new(self.name(), problem, config, launch_config, context)?))
    }
}

fn find(config: Config) -> Option<Row> {
    KERNELS.iter().copied().find(|row| row.symbol == config.0)
}

/// Threads of a team: as many as hold a row.
fn threads(problem: &NormProblem, row: Row) -> i64 {
    let vectors = problem.count() * problem.x().dtype().size_bytes() as i64 / VECTOR_BYTES;
    (vectors as u64).div_ceil(row.vectors as u64).next_multiple_of(LANES as u64) as i64
}

/// Shared memory of a team: its ring, and scale.
fn ring_bytes(problem: &NormProblem, row: Row) -> i64 {
    threads(problem, row) * row.vectors * VECTOR_BYTES * (2 * i64::from(RING_ROWS) + 1)
}

/// Teams that a block has room for.
fn most_teams(problem: &NormProblem, row: Row, context: &Context) -> i64 {
    let most = context.gpu_context().map_or(MAX_SHARED, |gpu| gpu.max_shared_bytes()) as i64;
    // Sums lie in the kernel's own.
    ((most - DYNAMIC_SHARED_ALIGN) / ring_bytes(problem, row)).min(row.threads / threads(problem, row))
}

/// Teams of a block; fewer where rows are too few for all multiprocessors.
fn n_teams(problem: &NormProblem, row: Row, context: &Context) -> i64 {
    let rows = (problem.sharing().n_rows() as u64).div_ceil(context.info().n_units as u64) as i64;
    most_teams(problem, row, context).min(rows).max(1)
}

/// One of each multiprocessor: each leaves sums of its own.
fn n_blocks(problem: &NormProblem, row: Row, context: &Context) -> u32 {
    let rows = problem.sharing().n_rows() as u64;
    rows.div_ceil(n_teams(problem, row, context) as u64).min(context.info().n_units as u64) as u32
}
