//! The reduction kernels that accept every legal problem.

use super::ReduceProblem;
use crate::launch::{KernelLaunch, KernelRow, kernel_for, kernel_rows, linear_grid};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, DType, Error, Problem};
use kernel_abi::desc::collapse_dims;
use kernel_abi::ops::reduce::ReduceParams;

const KERNELS: &[KernelRow] = kernel_abi::reduce_kernels!(kernel_rows);
const INTEGER_KERNELS: &[KernelRow] = kernel_abi::reduce_integer_kernels!(kernel_rows);
const BLOCK: u32 = 256;
const LANES: i64 = 32;

/// One warp a result, any strides and types.
pub(super) struct Naive;

impl Algorithm<ReduceProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &ReduceProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        match problem.computing() {
            DType::I64 => kernel_for(INTEGER_KERNELS, "integers", DType::I64, context),
            computing => kernel_for(KERNELS, "any", computing, context),
        }
    }

    fn workspace_bytes(&self, _: &ReduceProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ReduceProblem, _: Config, context: &Context) -> f64 {
        /// Cycles of a warp for each element of its lanes: the place is computed, and nothing else is under way.
        const STEP_US: f64 = 0.5;
        let steps = problem.n_reduced() as f64 / LANES as f64;
        let passes = if problem.pass() == "log_sum_exp" { 2.0 } else { 1.0 };
        (passes * crate::select::cost::one_by_one_us(problem, context)).max(steps * STEP_US)
    }

    fn prepare(&self, problem: &ReduceProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (x, y) = (problem.x(), problem.y());
        let (kept, reduced) = problem.split_dims();
        let indices_desc = problem.indices().unwrap_or(y);
        let [y_param, indices, x_kept] = collapse_dims([y, indices_desc, x], &kept);
        // Indices are counted row-major, whatever the order in memory.
        let [_, within] = collapse_dims([&x.to_packed(), x], &reduced);
        let n_outputs = y.n_elems();
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: linear_grid(n_outputs.saturating_mul(LANES), BLOCK),
            params: ReduceParams {
                n_outputs,
                n_reduced: problem.n_reduced(),
                alpha: 1.0,
                beta: 0.0,
                op: problem.reduce_pass() as u32,
                x_dtype: x.dtype() as u32,
                y_dtype: y.dtype() as u32,
                indices_dtype: indices_desc.dtype() as u32,
                y: y_param,
                indices,
                x: x_kept,
                reduced: within,
            },
            bind: |params, call| {
                (params.alpha, params.beta) = (call.alpha, call.beta);
                params.x.address = call.address(0);
                params.y.address = call.address(1);
                params.indices.address = if call.operands.len() > 2 { call.address(2) } else { 0 };
            },
        }))
    }
}
