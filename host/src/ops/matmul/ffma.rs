//! Matmul in plain f32 arithmetic: tiles in shared memory, 8 × 8 sums a thread, operands of any strides.

use super::MatmulProblem;
use super::split::{BlockRow, Blocks, Speed, block_rows};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error};

const KERNELS: &[BlockRow] = kernel_abi::matmul_ffma_kernels!(block_rows);

const BLOCKS: Blocks = Blocks { rows: KERNELS, speed };

/// Tiles in shared memory, for f32.
pub(super) struct Ffma;

/// Of 128 multiply-adds in a cycle (64 on compute capability 8.0), what reading shared memory leaves.
fn speed(context: &Context) -> Speed {
    let rate = if context.info().compute_capability == (8, 0) { 64.0 } else { 128.0 };
    Speed { products: 0.72 * rate, latency: 900.0, load_bytes: 4 }
}

impl Algorithm<MatmulProblem> for Ffma {
    fn name(&self) -> &'static str {
        "ffma"
    }

    fn configs(&self, problem: &MatmulProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        BLOCKS.configs(problem, context)
    }

    fn workspace_bytes(&self, problem: &MatmulProblem, config: Config) -> u64 {
        BLOCKS.workspace_bytes(problem, config)
    }

    fn estimate_us(&self, problem: &MatmulProblem, config: Config, context: &Context) -> f64 {
        BLOCKS.estimate_us(problem, config, context)
    }

    fn prepare(&self, problem: &MatmulProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        BLOCKS.prepare(problem, config, context)
    }
}
