//! Short rows that lie side by side, as a few channels of NCHW: a thread has all elements of 4 bytes of them.

use super::columns::columns;
use super::{SoftmaxProblem, naive};
use crate::launch::{KernelLaunch, KernelRow, LaunchConfig, div_ceil, kernel_for, kernel_rows};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, Error, Problem};
use kernel_abi::ops::softmax::{PAIR_ELEMS, SoftmaxParams};

const KERNELS: &[KernelRow] = kernel_abi::softmax_pair_kernels!(kernel_rows);

const BLOCK: u32 = 256;
/// Bytes of a thread's rows.
const BYTES: i64 = 4;

/// One reading, one writing, nothing shared.
pub(super) struct Pairs;

/// Rows of a thread.
fn width(problem: &SoftmaxProblem) -> i64 {
    BYTES / problem.input().dtype().size_bytes() as i64
}

fn blocks(problem: &SoftmaxProblem, params: &SoftmaxParams) -> i64 {
    div_ceil(params.n_rows / width(problem), i64::from(BLOCK))
}

impl Algorithm<SoftmaxProblem> for Pairs {
    fn name(&self) -> &'static str {
        "pairs"
    }

    fn configs(&self, problem: &SoftmaxProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let configs = kernel_for(KERNELS, problem.pass(), problem.input().dtype(), context)?;
        let params = columns(problem, context)?;
        if params.row_elems > PAIR_ELEMS {
            return Err(Refusal::new(format!("takes rows of up to {PAIR_ELEMS} elements, given {}", params.row_elems)));
        }
        let width = width(problem);
        if params.inner % width != 0 {
            return Err(Refusal::new(format!("takes multiples of {width} rows side by side, given {}", params.inner)));
        }
        Ok(configs)
    }

    fn workspace_bytes(&self, _: &SoftmaxProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SoftmaxProblem, _: Config, context: &Context) -> f64 {
        cost::blocks_us(problem.bytes(), blocks(problem, &naive::params(problem)), context)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let params = naive::params(problem);
        let params = SoftmaxParams { inner: params.out_rows.dims[7], ..params };
        let grid = [blocks(problem, &params) as u32, 1, 1];
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig { grid, block: [BLOCK, 1, 1], ..LaunchConfig::default() },
            params,
            bind: naive::bind,
        }))
    }
}
