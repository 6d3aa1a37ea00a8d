//! Few and long rows of contiguous elements: several blocks a row, in two steps.

use super::looped_rows::{THREADS, max_pieces};
use super::register_rows::contiguous_rows;
use super::{SoftmaxProblem, naive};
use crate::driver::Function;
use crate::launch::{LaunchConfig, div_ceil, launch_on};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, DType, Error, Problem, Stream};
use kernel_abi::ops::softmax::SoftmaxParams;

/// Symbol, step, element type.
type Row = (&'static str, &'static str, DType);

macro_rules! rows {
    ($(($symbol:ident, $step:ident, $dtype:ident)),* $(,)?) => {
        &[$((stringify!($symbol), stringify!($step), kernel_abi::dtype_of!($dtype))),*]
    };
}
const KERNELS: &[Row] = kernel_abi::softmax_split_kernels!(rows);

/// Blocks for each multiprocessor.
const BLOCKS_PER_UNIT: i64 = 2;

/// Parts are multiples of so many pieces of 16 bytes: what a block's threads have under way at a time.
const ROUND: i64 = 4 * THREADS as i64;

/// The most rows of a grid; blocks take the others in turns.
const MAX_GRID_ROWS: i64 = 65_535;

/// Parts of a row for blocks of their own; the maxima and sums of parts go through the workspace.
pub(super) struct SplitRows;

/// How a row is cut: into so many parts of so many pieces.
fn parts(problem: &SoftmaxProblem, context: &Context) -> (i64, i64) {
    let (n_rows, pieces) = (naive::params(problem).n_rows, max_pieces(problem));
    let wanted = div_ceil(BLOCKS_PER_UNIT * context.info().n_units as i64, n_rows);
    // One thread combines each part.
    let n_parts = wanted.min(i64::from(THREADS)).max(1);
    let part_pieces = div_ceil(div_ceil(pieces, n_parts), ROUND) * ROUND;
    (div_ceil(pieces, part_pieces), part_pieces)
}

fn symbol(problem: &SoftmaxProblem, step: &str) -> Option<&'static str> {
    let step = format!("{}_{step}", problem.pass());
    KERNELS.iter().find(|row| row.1 == step && row.2 == problem.input().dtype()).map(|row| row.0)
}

impl Algorithm<SoftmaxProblem> for SplitRows {
    fn name(&self) -> &'static str {
        "split_rows"
    }

    fn configs(&self, problem: &SoftmaxProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let params = contiguous_rows(problem, context)?;
        let (n_parts, _) = parts(problem, context);
        if n_parts < 2 {
            return Err(Refusal::new(format!(
                "shares rows among blocks where they are few and longer than {}, given {} of {} elements",
                ROUND * 16 / problem.input().dtype().size_bytes() as i64,
                params.n_rows,
                params.row_elems
            )));
        }
        Ok(symbol(problem, "parts").map(Config).into_iter().collect())
    }

    fn workspace_bytes(&self, _: &SoftmaxProblem, _: Config) -> u64 {
        0
    }

    fn workspace_bytes_on(&self, problem: &SoftmaxProblem, _: Config, context: &Context) -> u64 {
        let (n_parts, _) = parts(problem, context);
        2 * (n_parts * naive::params(problem).n_rows) as u64 * size_of::<f32>() as u64
    }

    fn estimate_us(&self, problem: &SoftmaxProblem, _: Config, context: &Context) -> f64 {
        let (n_parts, _) = parts(problem, context);
        // Of what is read twice, as much as the cache holds comes from there.
        let read = problem.bytes() - problem.out().data_bytes() as f64;
        let blocks = n_parts * naive::params(problem).n_rows;
        cost::LAUNCH_US + cost::blocks_us(problem.bytes() + 0.6 * read, blocks, context)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (n_parts, part_pieces) = parts(problem, context);
        let params = naive::params(problem);
        let params = SoftmaxParams { n_parts: n_parts as u32, part_pieces: part_pieces as u32, ..params };
        let grid = [n_parts as u32, params.n_rows.min(MAX_GRID_ROWS) as u32, 1];
        let rest = symbol(problem, "rest").unwrap_or(config.0);
        Ok(Box::new(Steps {
            steps: [context.function(config.0)?, context.function(rest)?],
            config: LaunchConfig { grid, block: [THREADS, 1, 1], ..LaunchConfig::default() },
            params,
        }))
    }
}

struct Steps {
    steps: [Function; 2],
    config: LaunchConfig,
    params: SoftmaxParams,
}

impl Launch for Steps {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let mut params = self.params;
        naive::bind(&mut params, call);
        self.steps.iter().try_for_each(|step| launch_on(stream, step, &self.config, &params))
    }
}
