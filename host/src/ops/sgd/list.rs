//! Many tensors in one launch.

use super::{SgdProblem, naive};
use crate::driver::Function;
use crate::launch::{StepKernel, launch_on, lies_alike, list_config, step_kernel, step_kernels};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, Error, Stream};
use kernel_abi::ops::sgd::{SgdListParams, SgdStep};
use kernel_abi::tensor_list;
use std::ops::Range;

const KERNELS: &[StepKernel] = kernel_abi::sgd_list_kernels!(step_kernels);

/// Up to 64 tensors a launch, each cut into pieces of equal size, a block a piece.
pub(super) struct List;

impl Algorithm<SgdProblem> for List {
    fn name(&self) -> &'static str {
        "list"
    }

    fn configs(&self, problem: &SgdProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let configs = step_kernel(KERNELS, naive::dtypes(problem), context)?;
        for tensors in problem.tensors() {
            let others = [Some(&tensors.dw), tensors.v.as_ref(), tensors.master.as_ref()];
            lies_alike(&tensors.w, others.into_iter().flatten())?;
        }
        Ok(configs)
    }

    fn workspace_bytes(&self, _: &SgdProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SgdProblem, _: Config, context: &Context) -> f64 {
        let more = (problem.tensors().len() - 1) / tensor_list::MAX_TENSORS;
        0.9 * cost::streaming_us(problem, context) + more as f64 * cost::LAUNCH_US
    }

    fn prepare(&self, problem: &SgdProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let n_elems: Vec<i64> = problem.tensors().iter().map(|tensors| tensors.w.n_elems()).collect();
        let step = naive::step(problem, 1.0);
        let launches = tensor_list::launches(&n_elems).into_iter();
        Ok(Box::new(Steps {
            function: context.function(config.0)?,
            launches: launches.map(|(list, tensors, blocks)| (SgdListParams { step, list }, tensors, blocks)).collect(),
            operands: naive::operands(&problem.tensors()[0]),
        }))
    }
}

struct Steps {
    function: Function,
    launches: Vec<(SgdListParams, Range<usize>, u32)>,
    operands: [bool; 4],
}

impl Launch for Steps {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let mut at = 0;
        for (params, tensors, blocks) in &self.launches {
            let mut params = *params;
            params.step = SgdStep { alpha: call.alpha, ..params.step };
            for addresses in params.list.addresses.iter_mut().take(tensors.len()) {
                let [dw, v, master, w] = self.operands.map(|there| call.take_address(&mut at, there));
                *addresses = [dw, v, master, w, 0];
            }
            launch_on(stream, &self.function, &list_config(*blocks), &params)?;
        }
        Ok(())
    }
}
