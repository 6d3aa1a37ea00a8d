//! Few and long rows of contiguous classes, forward: several blocks a row, in two steps.

use super::looped_rows::{contiguous_rows, max_pieces, spreads};
use super::naive::{Places, params};
use super::{CrossEntropyInput, CrossEntropyPass, CrossEntropyProblem};
use crate::driver::Function;
use crate::launch::{KernelRow, LaunchConfig, div_ceil, kernel_for, launch_on};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, Error, Problem, Stream};
use kernel_abi::ops::crossentropy::CrossEntropyParams;

macro_rules! rows {
    ($(($symbol:ident, $step:ident, $dtype:ident, $block:literal)),* $(,)?) => {
        &[$(KernelRow {
            symbol: stringify!($symbol),
            pass: stringify!($step),
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
}
const KERNELS: &[KernelRow] = kernel_abi::crossentropy_split_kernels!(rows);

/// Threads of a block that has a part, and of the block that combines them.
const BLOCKS: [u32; 2] = [512, 1024];

/// Blocks for each multiprocessor.
const BLOCKS_PER_UNIT: i64 = 2;

/// Parts are multiples of so many pieces of 16 bytes: what a block's threads have under way at a time.
const ROUND: i64 = 4 * BLOCKS[0] as i64;

/// The most rows of a grid; blocks take the others in turns.
const MAX_GRID_ROWS: i64 = 65_535;

/// Parts of a row for blocks of their own; their maxima and sums go through the workspace.
pub(super) struct SplitRows;

/// How a row is cut: into so many parts of so many pieces.
fn parts(problem: &CrossEntropyProblem, context: &Context) -> (i64, i64) {
    let pieces = max_pieces(problem);
    let wanted = div_ceil(BLOCKS_PER_UNIT * context.info().n_units as i64, problem.n_rows());
    let part_pieces = div_ceil(div_ceil(pieces, wanted), ROUND) * ROUND;
    (div_ceil(pieces, part_pieces), part_pieces)
}

impl Algorithm<CrossEntropyProblem> for SplitRows {
    fn name(&self) -> &'static str {
        "split_rows"
    }

    fn configs(&self, problem: &CrossEntropyProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        contiguous_rows(problem, context)?;
        if problem.crossentropy_pass() == CrossEntropyPass::Backward {
            return Err(Refusal::new("takes the forward pass, given backward"));
        }
        if spreads(problem) || problem.input() != CrossEntropyInput::Logits {
            return Err(Refusal::new(format!(
                "takes logits and one class a row, given {}, a target of {} and a smoothing of {}",
                problem.input(),
                problem.target().dtype(),
                problem.smoothing()
            )));
        }
        let (n_parts, _) = parts(problem, context);
        if n_parts < 2 {
            return Err(Refusal::new(format!(
                "shares rows among blocks where they are few and longer than {} classes, given {} of {}",
                ROUND * 16 / problem.x().dtype().size_bytes() as i64,
                problem.n_rows(),
                problem.n_classes()
            )));
        }
        kernel_for(KERNELS, "forward_parts", problem.x().dtype(), context)
    }

    fn workspace_bytes(&self, _: &CrossEntropyProblem, _: Config) -> u64 {
        0
    }

    fn workspace_bytes_on(&self, problem: &CrossEntropyProblem, _: Config, context: &Context) -> u64 {
        let (n_parts, _) = parts(problem, context);
        2 * (n_parts * problem.n_rows()) as u64 * size_of::<f32>() as u64
    }

    fn estimate_us(&self, problem: &CrossEntropyProblem, _: Config, context: &Context) -> f64 {
        let (n_parts, _) = parts(problem, context);
        cost::LAUNCH_US + cost::blocks_us(problem.bytes(), n_parts * problem.n_rows(), context)
    }

    fn prepare(
        &self,
        problem: &CrossEntropyProblem,
        config: Config,
        context: &Context,
    ) -> Result<Box<dyn Launch>, Error> {
        let (n_parts, part_pieces) = parts(problem, context);
        let rest = kernel_for(KERNELS, "forward_rest", problem.x().dtype(), context)
            .map_err(|refusal| refusal.into_error(self.name(), problem))?[0];
        let grid = [n_parts as u32, problem.n_rows().min(MAX_GRID_ROWS) as u32, 1];
        let config_of =
            |grid: [u32; 3], threads: u32| LaunchConfig { grid, block: [threads, 1, 1], ..LaunchConfig::default() };
        Ok(Box::new(Split {
            steps: [
                (context.function(config.0)?, config_of(grid, BLOCKS[0])),
                (context.function(rest.0)?, config_of([1; 3], BLOCKS[1])),
            ],
            params: CrossEntropyParams { n_parts: n_parts as u32, part_pieces: part_pieces as u32, ..params(problem)? },
            places: Places::new(problem),
        }))
    }
}

struct Split {
    steps: [(Function, LaunchConfig); 2],
    params: CrossEntropyParams,
    places: Places,
}

impl Launch for Split {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let params = self.places.bind(&self.params, call);
        let params = CrossEntropyParams { parts: params.partials, partials: 0, ..params };
        self.steps.iter().try_for_each(|(function, config)| launch_on(stream, function, config, &params))
    }
}
