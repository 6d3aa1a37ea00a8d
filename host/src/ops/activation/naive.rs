//! The activation kernel that accepts every legal problem.

use super::ActivationProblem;
use crate::launch::{KernelLaunch, KernelRow, kernel_for, kernel_rows, linear_grid};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::desc::collapse;
use kernel_abi::ops::activation::ActivationParams;

const KERNELS: &[KernelRow] = kernel_abi::activation_kernels!(kernel_rows);
const BLOCK: u32 = 256;

/// One thread an element, any strides.
pub(super) struct Naive;

impl Algorithm<ActivationProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &ActivationProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.x().dtype(), context)
    }

    fn workspace_bytes(&self, _: &ActivationProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ActivationProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::one_by_one_us(problem, context)
    }

    fn prepare(
        &self,
        problem: &ActivationProblem,
        config: Config,
        context: &Context,
    ) -> Result<Box<dyn Launch>, Error> {
        let [out, x, dy] = collapse([problem.out(), problem.x(), problem.dy().unwrap_or(problem.x())]);
        let n_elems = problem.x().n_elems();
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: linear_grid(n_elems, BLOCK),
            params: ActivationParams {
                n_elems,
                mode: problem.mode() as u32,
                reserved: 0,
                parameters: problem.activation().parameters(),
                alpha: 1.0,
                beta: 0.0,
                x,
                dy,
                out,
            },
            bind: |params, call| {
                let last = call.operands.len() - 1;
                (params.alpha, params.beta) = (call.alpha, call.beta);
                params.x.address = call.address(0);
                params.dy.address = call.address(last - 1);
                params.out.address = call.address(last);
            },
        }))
    }
}
