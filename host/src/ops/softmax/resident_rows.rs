//! Rows of whole pieces in the shared memory of a block, of which a multiprocessor has several.

use super::cluster_rows::{lanes, or_looped, whole_pieces};
use super::lanes::launch;
use super::{SoftmaxProblem, naive};
use crate::launch::LaunchConfig;
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, DType, Error, Problem};
use kernel_abi::ops::softmax::resident_rows::THREADS;

/// Symbol, element type.
type Row = (&'static str, DType);

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype))),*]
    };
}
const KERNELS: &[Row] = kernel_abi::softmax_resident_kernels!(rows);

/// Bytes of a piece.
const PIECE: i64 = 16;
/// Pieces of a row, at least: of fewer, threads have too little to do beside their barrier.
const MIN_PIECES: i64 = 512;
/// Bytes of a row, at most: a multiprocessor has two, with what the system keeps, and one would be worked on while nothing is
/// under way.
const MAX_BYTES: i64 = (228 / 2 - 2) * 1024;
/// Pieces up to which blocks are half as large, so that there are twice as many of them.
const HALF_BLOCK_PIECES: i64 = 1024;

/// A block a row, which lies in shared memory; forward.
///
/// A run with addresses that are no multiples of 16 goes the way of `looped_rows`.
pub(super) struct ResidentRows;

impl Algorithm<SoftmaxProblem> for ResidentRows {
    fn name(&self) -> &'static str {
        "resident_rows"
    }

    fn configs(&self, problem: &SoftmaxProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let params = whole_pieces(problem, context)?;
        if problem.dy().is_some() {
            return Err(Refusal::new(format!("computes forward, given {}", problem.pass())));
        }
        let lanes = lanes(problem);
        let held = MIN_PIECES * lanes..=MAX_BYTES / PIECE * lanes;
        if !held.contains(&params.row_elems) {
            let (least, most) = (held.start(), held.end());
            return Err(Refusal::new(format!("takes rows of {least} to {most} elements, given {}", params.row_elems)));
        }
        let dtype = problem.input().dtype();
        let kernel = KERNELS.iter().find(|(_, of)| *of == dtype);
        let &(symbol, _) = kernel.ok_or_else(|| Refusal::new(format!("has no kernel for {dtype}")))?;
        Ok(vec![Config(symbol)])
    }

    fn workspace_bytes(&self, _: &SoftmaxProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SoftmaxProblem, _: Config, context: &Context) -> f64 {
        let params = naive::params(problem);
        // Short rows leave threads idle at the barrier.
        let pieces = params.row_elems as f64 / lanes(problem) as f64;
        let share = 1.0 + 0.03 * (HALF_BLOCK_PIECES as f64 / pieces - 1.0).max(0.0);
        cost::blocks_us(problem.bytes() * share, params.n_rows, context)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let params = naive::params(problem);
        let pieces = params.row_elems / lanes(problem);
        let function = context.function(config.0)?;
        // Not this problem's size: plans share the function.
        function.allow_dynamic_shared(MAX_BYTES as usize)?;
        let config = LaunchConfig {
            grid: [params.n_rows as u32, 1, 1],
            block: [if pieces > HALF_BLOCK_PIECES { THREADS } else { THREADS / 2 }, 1, 1],
            shared_bytes: (pieces * PIECE) as u32,
            programmatic: true,
            ..LaunchConfig::default()
        };
        or_looped(self.name(), launch(function, config, &params), problem, context)
    }
}
