//! Tensors that lie as their elements are counted: 16 bytes an access, every random word used.

use super::DropoutProblem;
use super::naive::{DropoutLaunch, params};
use crate::launch::{KernelRow, LaunchConfig, div_ceil, kernel_for, kernel_rows};
use crate::plan::Launch;
use crate::select::cost::LAUNCH_US;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};

const KERNELS: &[KernelRow] = kernel_abi::dropout_vectorized_kernels!(kernel_rows);
/// For tensors of which no thread has more than one round.
const ONCE: &[KernelRow] = kernel_abi::dropout_once_kernels!(kernel_rows);

/// Threads of a block.
const BLOCK: i64 = 256;

/// Neighbours a thread.
pub(super) struct Vectorized;

/// Elements that threads draw for at once.
const ROUND: i64 = 8;

/// So many that their rounds are counted in 32 bits, with some to spare behind the last.
const MOST_ELEMS: i64 = ROUND << 31;

/// Blocks that are on a multiprocessor at a time, which go on until the tensor ends; and those of the kernels for one round,
/// which have fewer registers: 2²⁰ elements of 16 bits take 2.5 to 2.7 instead of 3.1 to 3.2 µs so (H200).
const BLOCKS_PER_UNIT: i64 = 3;
const ONCE_BLOCKS_PER_UNIT: i64 = 4;

/// Blocks that all rounds of a problem take.
fn all_blocks(problem: &DropoutProblem) -> i64 {
    // Words of the mask are written whole.
    let places = (problem.input().n_elems() + 31) / 32 * 32;
    div_ceil(places, BLOCK * ROUND)
}

/// Whether all of them are there at a time.
fn is_once(problem: &DropoutProblem, context: &Context) -> bool {
    all_blocks(problem) <= ONCE_BLOCKS_PER_UNIT * context.info().n_units as i64
}

/// Blocks that are launched.
fn blocks(problem: &DropoutProblem, context: &Context) -> i64 {
    let most = if is_once(problem, context) { ONCE_BLOCKS_PER_UNIT } else { BLOCKS_PER_UNIT };
    all_blocks(problem).min(most * context.info().n_units as i64)
}

impl Algorithm<DropoutProblem> for Vectorized {
    fn name(&self) -> &'static str {
        "vectorized"
    }

    fn configs(&self, problem: &DropoutProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let kernels = if is_once(problem, context) { ONCE } else { KERNELS };
        let configs = kernel_for(kernels, problem.pass(), problem.input().dtype(), context)?;
        let counted = problem.counted();
        for desc in [problem.input(), problem.out()] {
            // In one dimension with the one that is counted.
            let apart = (0..desc.rank()).find(|&i| desc.dims()[i] > 1 && desc.strides()[i] != counted.strides()[i]);
            if let Some(i) = apart {
                return Err(Refusal::new(format!(
                    "takes tensors that lie as their elements are counted, given {desc} with a stride of {} along \
                     dimension {i} instead of {}",
                    desc.strides()[i],
                    counted.strides()[i]
                )));
            }
        }
        if problem.input().n_elems() > MOST_ELEMS {
            let n_elems = problem.input().n_elems();
            return Err(Refusal::new(format!("takes up to {MOST_ELEMS} elements, given {n_elems}")));
        }
        Ok(configs)
    }

    fn workspace_bytes(&self, _: &DropoutProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &DropoutProblem, _: Config, context: &Context) -> f64 {
        /// Instructions of an element's share of a draw.
        const DRAW: f64 = 20.0;
        let info = context.info();
        let drawn = if problem.draws() { problem.input().n_elems() as f64 } else { 0.0 };
        // The plain rate counts a multiply-add twice.
        LAUNCH_US + (problem.bytes() / info.bytes_per_us).max(2.0 * DRAW * drawn / info.flops_per_us)
    }

    fn prepare(&self, problem: &DropoutProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let config_of = LaunchConfig {
            grid: [blocks(problem, context) as u32, 1, 1],
            block: [BLOCK as u32, 1, 1],
            ..LaunchConfig::default()
        };
        Ok(Box::new(DropoutLaunch::new(problem, context.function(config.0)?, config_of, params(problem), context)?))
    }
}
