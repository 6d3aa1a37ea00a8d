//! Matmul on the tensor cores of any GPU: asynchronous copies by threads feed `mma.sync`, operands of any strides.

use super::MatmulProblem;
use super::split::{BlockRow, Blocks, Speed, block_rows};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error};

const KERNELS: &[BlockRow] = kernel_abi::matmul_cp_async_mma_kernels!(block_rows);

const BLOCKS: Blocks = Blocks { rows: KERNELS, speed };

/// Tiles in shared memory, for 16-bit types.
pub(super) struct CpAsyncMma;

/// The share of the tensor cores' rate that these kernels reach: shared memory and the issue of instructions take the
/// rest; on Hopper the instruction itself reaches six tenths.
fn speed(context: &Context) -> Speed {
    let products = match context.info().compute_capability {
        (8, 0) => 700.0,
        (8, _) => 380.0,
        _ => 900.0,
    };
    Speed { products, latency: 450.0, load_bytes: 4 }
}

impl Algorithm<MatmulProblem> for CpAsyncMma {
    fn name(&self) -> &'static str {
        "cp_async_mma"
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
