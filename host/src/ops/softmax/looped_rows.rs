//! A block a row of contiguous elements, however long: maximum and sum in one reading, results in another.

use super::register_rows::contiguous_rows;
use super::{SoftmaxProblem, naive};
use crate::launch::{DYNAMIC_SHARED_ALIGN, KernelLaunch, LaunchConfig};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, DType, Error, Problem};
use kernel_abi::ops::softmax::SoftmaxKind;

/// Symbol, pass, element type, whether the row is kept in shared memory.
type Row = (&'static str, &'static str, DType, bool);

macro_rules! rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $place:ident)),* $(,)?) => {
        &[$((stringify!($symbol), stringify!($pass), kernel_abi::dtype_of!($dtype), rows!(@$place))),*]
    };
    (@cache) => { false };
    (@shared) => { true };
}
const KERNELS: &[Row] = kernel_abi::softmax_looped_kernels!(rows);

/// Threads of a block.
pub(super) const THREADS: u32 = 512;

/// Bytes of a piece.
const PIECE: i64 = 16;

/// Shared memory that a block may ask for where the device does not say.
const MAX_SHARED: usize = 99 << 10;

/// One block a row; what is read the second time comes from the cache or from shared memory.
pub(super) struct LoopedRows;

/// Pieces without elements before a row's first: rows are cut at lines of the cache.
const BEFORE: i64 = 7;

/// The most pieces of 16 bytes that a row has, wherever it begins.
pub(super) fn max_pieces(problem: &SoftmaxProblem) -> i64 {
    let lanes = PIECE / problem.input().dtype().size_bytes() as i64;
    BEFORE + (problem.rows().row_elems + lanes - 1 + lanes - 1) / lanes
}

impl Algorithm<SoftmaxProblem> for LoopedRows {
    fn name(&self) -> &'static str {
        "looped_rows"
    }

    fn configs(&self, problem: &SoftmaxProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let params = contiguous_rows(problem, context)?;
        if params.n_rows > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("takes up to {} rows, given {}", i32::MAX, params.n_rows)));
        }
        let most = context.gpu_context().map_or(MAX_SHARED, |gpu| gpu.max_shared_bytes()) as i64;
        // The slots of its reductions are the kernel's own.
        let fits = max_pieces(problem) * PIECE + DYNAMIC_SHARED_ALIGN <= most;
        let able = |row: &&Row| row.1 == problem.pass() && row.2 == problem.input().dtype() && (fits || !row.3);
        Ok(KERNELS.iter().filter(able).map(|row| Config(row.0)).collect())
    }

    fn workspace_bytes(&self, _: &SoftmaxProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> f64 {
        /// What reading once more costs beside reading, from the cache and from shared memory; with the latter, fewer
        /// blocks are under way.
        const AGAIN: [f64; 2] = [0.4, 0.3];
        /// However short its row, a block lives for so long, and so many of them at a time on a multiprocessor.
        const LIFE_US: f64 = 5.0;
        const BLOCKS: f64 = 4.0;
        let read = problem.bytes() - problem.out().data_bytes() as f64;
        // Backward, shared memory has dy alone; y is read once for logarithms, else from the cache.
        let again = match problem.dy() {
            Some(dy) => {
                let (of_dy, log) = (dy.data_bytes() as f64, problem.kind() == SoftmaxKind::Log);
                AGAIN[usize::from(is_staged(config))] * of_dy + if log { 0.0 } else { AGAIN[0] * (read - of_dy) }
            }
            None => AGAIN[usize::from(is_staged(config))] * read,
        };
        let n_rows = naive::params(problem).n_rows;
        let lives = n_rows as f64 / (BLOCKS * context.info().n_units as f64) * LIFE_US;
        cost::blocks_us(problem.bytes() + again, n_rows, context).max(cost::LAUNCH_US + lives)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let params = naive::params(problem);
        let function = context.function(config.0)?;
        let shared_bytes = if is_staged(config) { (max_pieces(problem) * PIECE) as u32 } else { 0 };
        if shared_bytes > 0 {
            function.allow_dynamic_shared(shared_bytes as usize)?;
        }
        let grid = [params.n_rows as u32, 1, 1];
        let config = LaunchConfig { grid, block: [THREADS, 1, 1], shared_bytes, ..LaunchConfig::default() };
        Ok(Box::new(KernelLaunch { function, config, params, bind: naive::bind }))
    }
}

fn is_staged(config: Config) -> bool {
    KERNELS.iter().any(|row| row.0 == config.0 && row.3)
}
