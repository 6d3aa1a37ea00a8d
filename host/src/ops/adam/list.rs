//! Many tensors in one launch.

use super::{AdamProblem, naive};
use crate::driver::Function;
use crate::launch::{StepKernel, launch_on, lies_alike, list_config, step_kernel, step_kernels};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, Error, Stream};
use kernel_abi::ops::adam::{AdamListParams, AdamStep};
use kernel_abi::tensor_list;
use std::ops::Range;

const KERNELS: &[StepKernel] = kernel_abi::adam_list_kernels!(step_kernels);

/// Up to 64 tensors a launch, each cut into pieces of equal size, a block a piece.
pub(super) struct List;

impl Algorithm<AdamProblem> for List {
    fn name(&self) -> &'static str {
        "list"
    }

    fn configs(&self, problem: &AdamProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let configs = step_kernel(KERNELS, naive::dtypes(problem), context)?;
        for tensors in problem.tensors() {
            let others = [Some(&tensors.dw), Some(&tensors.m), Some(&tensors.v), tensors.master.as_ref()];
            lies_alike(&tensors.w, others.into_iter().flatten())?;
        }
        Ok(configs)
    }

    fn workspace_bytes(&self, _: &AdamProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &AdamProblem, _: Config, context: &Context) -> f64 {
        let more = (problem.tensors().len() - 1) / tensor_list::MAX_TENSORS;
        0.9 * cost::streaming_us(problem, context) + more as f64 * cost::LAUNCH_US
    }

    fn prepare(&self, problem: &AdamProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let n_elems: Vec<i64> = problem.tensors().iter().map(|tensors| tensors.w.n_elems()).collect();
        let step = naive::step(problem);
        let launches = tensor_list::launches(&n_elems).into_iter();
        Ok(Box::new(Steps {
            function: context.function(config.0)?,
            launches: launches
                .map(|(list, tensors, blocks)| (AdamListParams { step, list }, tensors, blocks))
                .collect(),
            operands: naive::operands(problem),
        }))
    }
}

struct Steps {
    function: Function,
    launches: Vec<(AdamListParams, Range<usize>, u32)>,
    operands: [bool; 2],
}

impl Launch for Steps {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let (mut at, [has_step, has_master]) = (0, self.operands);
        let number = call.take_address(&mut at, has_step);
        for (params, tensors, blocks) in &self.launches {
            let mut params = *params;
            params.step = AdamStep { alpha: call.alpha, step: number, ..params.step };
            for addresses in params.list.addresses.iter_mut().take(tensors.len()) {
                *addresses = [true, true, true, has_master, true].map(|there| call.take_address(&mut at, there));
            }
            launch_on(stream, &self.function, &list_config(*blocks), &params)?;
        }
        Ok(())
    }
}
