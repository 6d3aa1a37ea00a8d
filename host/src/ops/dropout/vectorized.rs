//! Tensors that lie as their elements are counted: 16 bytes an access, every random word used.

use super::DropoutProblem;
use super::naive::{DropoutLaunch, params};
use crate::launch::{KernelRow, LaunchConfig, kernel_for, kernel_rows};
use crate::plan::Launch;
use crate::select::cost::LAUNCH_US;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, DType, Error, Problem};

const KERNELS: &[KernelRow] = kernel_abi::dropout_vectorized_kernels!(kernel_rows);

/// Threads of a block.
const BLOCK: i64 = 256;

/// Elements of a thread, and of one that has f64.
const ELEMS: [i64; 2] = [16, 8];

/// Neighbours a thread.
pub(super) struct Vectorized;

/// Elements that threads draw for at once.
const ROUND: i64 = 8;

/// Blocks up to which a thread has no more than these: about four for each multiprocessor of a large GPU.
const FEW_BLOCKS: i64 = 528;

/// The most elements of a block.
fn block_elems(problem: &DropoutProblem) -> i64 {
    BLOCK * ELEMS[usize::from(problem.input().dtype() == DType::F64)]
}

fn blocks(problem: &DropoutProblem) -> i64 {
    // Words of the mask are written whole.
    let places = (problem.input().n_elems() + 31) / 32 * 32;
    let blocks_of = |elems: i64| (places + elems - 1) / elems;
    let few = blocks_of(BLOCK * ROUND);
    if few <= FEW_BLOCKS { few } else { blocks_of(block_elems(problem)) }
}

impl Algorithm<DropoutProblem> for Vectorized {
    fn name(&self) -> &'static str {
        "vectorized"
    }

    fn configs(&self, problem: &DropoutProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let configs = kernel_for(KERNELS, problem.pass(), problem.input().dtype(), context)?;
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
        if blocks(problem) > i64::from(i32::MAX) {
            let most = i64::from(i32::MAX) * block_elems(problem);
            return Err(Refusal::new(format!("takes up to {most} elements, given {}", problem.input().n_elems())));
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
            grid: [blocks(problem) as u32, 1, 1],
            block: [BLOCK as u32, 1, 1],
            ..LaunchConfig::default()
        };
        Ok(Box::new(DropoutLaunch::new(problem, context.function(config.0)?, config_of, params(problem), context)?))
    }
}
