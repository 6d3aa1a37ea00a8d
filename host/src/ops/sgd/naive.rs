//! The sgd kernels that accept every legal problem.

use super::SgdProblem;
use crate::launch::{KernelLaunch, KernelRow, kernel_for, kernel_rows, linear_grid};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::desc::collapse;
use kernel_abi::ops::sgd::SgdParams;

const KERNELS: &[KernelRow] = kernel_abi::sgd_kernels!(kernel_rows);
const BLOCK: u32 = 256;

/// One thread an element, any strides.
pub(super) struct Naive;

impl Algorithm<SgdProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &SgdProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.w().dtype(), context)
    }

    fn workspace_bytes(&self, _: &SgdProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SgdProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::streaming_us(problem, context)
    }

    fn prepare(&self, problem: &SgdProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let [w, v, dw] = collapse([problem.w(), problem.v(), problem.dw()]);
        let n_elems = problem.w().n_elems();
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: linear_grid(n_elems, BLOCK),
            params: SgdParams {
                n_elems,
                nesterov: u32::from(problem.nesterov()),
                reserved: 0,
                alpha: 1.0,
                momentum: problem.momentum(),
                weight_decay: problem.weight_decay(),
                dw,
                v,
                w,
            },
            bind: |params, call| {
                params.alpha = call.alpha;
                params.dw.address = call.address(0);
                params.v.address = call.address(1);
                params.w.address = call.address(2);
            },
        }))
    }
}
