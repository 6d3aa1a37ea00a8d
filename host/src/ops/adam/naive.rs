//! The adam kernels that accept every legal problem.

use super::{AdamMode, AdamProblem, AdamTensors};
use crate::driver::Function;
use crate::launch::{LaunchConfig, StepKernel, launch_on, linear_grid, step_kernel, step_kernels};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, DType, Error, Stream};
use kernel_abi::desc::collapse;
use kernel_abi::ops::adam::{AdamParams, AdamStep};

const KERNELS: &[StepKernel] = kernel_abi::adam_kernels!(step_kernels);
const BLOCK: u32 = 256;

/// One thread an element, any strides, a launch a tensor.
pub(super) struct Naive;

impl Algorithm<AdamProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &AdamProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        step_kernel(KERNELS, dtypes(problem), context)
    }

    fn workspace_bytes(&self, _: &AdamProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &AdamProblem, _: Config, context: &Context) -> f64 {
        let more = problem.tensors().len() - 1;
        cost::streaming_us(problem, context) + more as f64 * cost::LAUNCH_US
    }

    fn prepare(&self, problem: &AdamProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let tensors = problem.tensors().iter().map(|tensors| {
            let AdamTensors { dw, m, v, master, w } = tensors;
            let [w, master, m, v, dw] = collapse([w, master.as_ref().unwrap_or(w), m, v, dw]);
            let n_elems = tensors.w.n_elems();
            let params = AdamParams { n_elems, step: step(problem), dw, m, v, master, w };
            (linear_grid(n_elems, BLOCK), params)
        });
        let tensors = tensors.collect();
        Ok(Box::new(Steps { function: context.function(config.0)?, tensors, operands: operands(problem) }))
    }
}

/// Types of w, and of m and v.
pub(super) fn dtypes(problem: &AdamProblem) -> [DType; 2] {
    let AdamTensors { m, w, .. } = problem.tensors()[0];
    [w.dtype(), m.dtype()]
}

/// The numbers of a step, but for the learning rate and what is on the device.
pub(super) fn step(problem: &AdamProblem) -> AdamStep {
    let decay = problem.weight_decay();
    let (gradient_decay, weight_decay) = match problem.mode() {
        AdamMode::Adam => (decay, 0.0),
        AdamMode::AdamW => (0.0, decay),
    };
    AdamStep {
        alpha: 1.0,
        beta1: problem.beta1(),
        beta2: problem.beta2(),
        ln_betas: [problem.beta1().ln(), problem.beta2().ln()],
        eps: problem.eps(),
        gradient_decay,
        weight_decay,
        step: 0,
    }
}

/// Whether there is a step's number, and a master.
pub(super) fn operands(problem: &AdamProblem) -> [bool; 2] {
    [problem.corrects_bias(), problem.tensors()[0].master.is_some()]
}

struct Steps {
    function: Function,
    tensors: Vec<(LaunchConfig, AdamParams)>,
    operands: [bool; 2],
}

impl Launch for Steps {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let (mut at, [has_step, has_master]) = (0, self.operands);
        let number = call.take_address(&mut at, has_step);
        for (config, params) in &self.tensors {
            let [dw, m, v, master, w] =
                [true, true, true, has_master, true].map(|there| call.take_address(&mut at, there));
            let params = AdamParams {
                step: AdamStep { alpha: call.alpha, step: number, ..params.step },
                dw: params.dw.at(dw),
                m: params.m.at(m),
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
