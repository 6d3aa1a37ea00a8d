//! The sgd kernels that accept every legal problem.

use super::{SgdProblem, SgdTensors};
use crate::driver::Function;
use crate::launch::{LaunchConfig, StepKernel, launch_on, linear_grid, step_kernel, step_kernels};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, DType, Error, Stream};
use kernel_abi::desc::collapse;
use kernel_abi::ops::sgd::{SgdParams, SgdStep};

const KERNELS: &[StepKernel] = kernel_abi::sgd_kernels!(step_kernels);
const BLOCK: u32 = 256;

/// One thread an element, any strides, a launch a tensor.
pub(super) struct Naive;

impl Algorithm<SgdProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &SgdProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        step_kernel(KERNELS, dtypes(problem), context)
    }

    fn workspace_bytes(&self, _: &SgdProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SgdProblem, _: Config, context: &Context) -> f64 {
        let more = problem.tensors().len() - 1;
        cost::streaming_us(problem, context) + more as f64 * cost::LAUNCH_US
    }

    fn prepare(&self, problem: &SgdProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let tensors = problem.tensors().iter().map(|tensors| {
            let SgdTensors { dw, v, master, w } = tensors;
            let [w, master, v, dw] = collapse([w, master.as_ref().unwrap_or(w), v.as_ref().unwrap_or(w), dw]);
            let n_elems = tensors.w.n_elems();
            let params = SgdParams { n_elems, step: step(problem, 1.0), dw, v, master, w };
            (linear_grid(n_elems, BLOCK), params, operands(tensors))
        });
        Ok(Box::new(Steps { function: context.function(config.0)?, tensors: tensors.collect() }))
    }
}

/// Types of w, and of v; without a v, of the master.
pub(super) fn dtypes(problem: &SgdProblem) -> [DType; 2] {
    let SgdTensors { v, master, w, .. } = problem.tensors()[0];
    [w.dtype(), v.or(master).unwrap_or(w).dtype()]
}

/// The numbers of a step.
pub(super) fn step(problem: &SgdProblem, alpha: f64) -> SgdStep {
    SgdStep {
        alpha,
        momentum: problem.momentum(),
        gain: problem.gain(),
        weight_decay: problem.weight_decay(),
        nesterov: u32::from(problem.nesterov()),
        reserved: 0,
    }
}

/// Which of dw, v, master and w a tensor has.
pub(super) fn operands(tensors: &SgdTensors) -> [bool; 4] {
    [true, tensors.v.is_some(), tensors.master.is_some(), true]
}

struct Steps {
    function: Function,
    tensors: Vec<(LaunchConfig, SgdParams, [bool; 4])>,
}

impl Launch for Steps {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let mut at = 0;
        for (config, params, there) in &self.tensors {
            let [dw, v, master, w] = there.map(|there| call.take_address(&mut at, there));
            let params = SgdParams {
                step: SgdStep { alpha: call.alpha, ..params.step },
                dw: params.dw.at(dw),
                v: params.v.at(v),
                master: params.master.at(master),
                w: params.w.at(w),
                ..*params
            };
            launch_on(stream, &self.function, config, &params)?;
        }
        Ok(())
    }
}
