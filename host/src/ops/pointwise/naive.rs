//! The pointwise kernels that accept every legal problem.

use super::PointwiseProblem;
use crate::launch::{KernelLaunch, KernelRow, kernel_for, kernel_rows, linear_grid};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::desc::collapse;
use kernel_abi::ops::pointwise::PointwiseParams;

const KERNELS: &[KernelRow] = kernel_abi::pointwise_kernels!(kernel_rows);
const BLOCK: u32 = 256;

/// One thread an element, any strides.
pub(super) struct Naive;

impl Algorithm<PointwiseProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &PointwiseProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.c().dtype(), context)
    }

    fn workspace_bytes(&self, _: &PointwiseProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PointwiseProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::streaming_us(problem, context)
    }

    fn prepare(&self, problem: &PointwiseProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let c = problem.c();
        let inputs: Vec<_> = problem.inputs().map(|input| problem.repeated(input)).collect();
        let input = |i: usize| inputs.get(i).unwrap_or(c);
        let [c_param, a, b] = collapse([c, input(0), input(1)]);
        let (alpha_a, alpha_b) = problem.alphas();
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: linear_grid(c.n_elems(), BLOCK),
            params: PointwiseParams {
                n_elems: c.n_elems(),
                alpha_a,
                alpha_b,
                value: problem.value(),
                alpha: 1.0,
                beta: 0.0,
                a,
                b,
                c: c_param,
            },
            bind: |params, call| {
                let last = call.operands.len() - 1;
                (params.alpha, params.beta) = (call.alpha, call.beta);
                // Inputs that the operation does not have are not read.
                (params.a.address, params.b.address) = (call.address(0), call.address(last.min(1)));
                params.c.address = call.address(last);
            },
        }))
    }
}
