//! The transform kernels that accept every legal problem.

use super::TransformProblem;
use crate::driver::Function;
use crate::launch::{KernelLaunch, KernelRow, kernel_for, kernel_rows, linear_grid};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::desc::collapse;
use kernel_abi::ops::transform::TransformParams;

const BLOCK: u32 = 256;

const KERNELS: &[KernelRow] = kernel_abi::transform_kernels!(kernel_rows);

/// One thread an element, any strides and types.
pub(super) struct Naive;

impl Algorithm<TransformProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &TransformProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.accumulator(), context)
    }

    fn workspace_bytes(&self, _: &TransformProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &TransformProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::one_by_one_us(problem, context)
    }

    fn prepare(&self, problem: &TransformProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        Ok(Box::new(launch(problem, context.function(config.0)?)))
    }
}

/// The kernel for the problem's types.
pub(super) fn symbol(problem: &TransformProblem) -> &'static str {
    let row = KERNELS.iter().find(|row| row.dtype == problem.accumulator());
    row.unwrap_or(&KERNELS[0]).symbol
}

/// The launch of that kernel.
pub(super) fn launch(problem: &TransformProblem, function: Function) -> KernelLaunch<TransformParams> {
    let [y, x] = collapse([problem.y(), problem.x()]);
    let n_elems = problem.x().n_elems();
    KernelLaunch {
        function,
        config: linear_grid(n_elems, BLOCK),
        params: TransformParams {
            n_elems,
            tail_bytes: 0,
            alpha: 1.0,
            beta: 0.0,
            x_dtype: problem.x().dtype() as u32,
            y_dtype: problem.y().dtype() as u32,
            cast: problem.cast().bits(),
            reserved: 0,
            x,
            y,
        },
        bind: |params, call| {
            (params.alpha, params.beta) = (call.alpha, call.beta);
            (params.x.address, params.y.address) = (call.address(0), call.address(1));
        },
    }
}
