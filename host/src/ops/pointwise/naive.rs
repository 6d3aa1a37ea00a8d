//! The pointwise kernels that accept every legal problem.

use super::PointwiseProblem;
use crate::launch::{KernelLaunch, KernelRow, kernel_for, kernel_rows, linear_grid};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, TensorDesc};
use kernel_abi::desc::collapse;
use kernel_abi::ops::pointwise::{InputParam, MAX_INPUTS, MAX_STEPS, PointwiseParams, StepParam};

const KERNELS: &[KernelRow] = kernel_abi::pointwise_kernels!(kernel_rows);
const BLOCK: u32 = 256;

/// One thread an element, any strides and types, all steps for one element after the other.
pub(super) struct Naive;

impl Algorithm<PointwiseProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &PointwiseProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, "any", problem.computing(), context)
    }

    fn workspace_bytes(&self, _: &PointwiseProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PointwiseProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::one_by_one_us(problem, context)
    }

    fn prepare(&self, problem: &PointwiseProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let c = problem.c();
        let mut inputs: Vec<TensorDesc> = problem.inputs().iter().map(|input| problem.repeated(input)).collect();
        for axis in problem.index_axes() {
            inputs.push(index_along(axis, c)?);
        }
        let n_tensors = problem.inputs().len();
        let of = |i: usize| inputs.get(i).unwrap_or(c);
        let [c_param, tensors @ ..] = collapse([c, of(0), of(1), of(2), of(3), of(4), of(5)]);
        let input = |i: usize| InputParam {
            tensor: tensors[i],
            factor: problem.factor(i),
            dtype: of(i).dtype() as u32,
            is_index: u32::from((n_tensors..inputs.len()).contains(&i)),
        };
        let (steps, n_steps) = steps(problem);
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: linear_grid(c.n_elems(), BLOCK),
            params: PointwiseParams {
                n_elems: c.n_elems(),
                alpha: 1.0,
                beta: 0.0,
                c_dtype: c.dtype() as u32,
                n_inputs: inputs.len() as u32,
                n_steps,
                cast: problem.cast().bits(),
                c: c_param,
                steps,
                inputs: std::array::from_fn::<_, MAX_INPUTS, _>(input),
            },
            bind: |params, call| {
                let n_inputs = call.operands.len() - 1;
                (params.alpha, params.beta) = (call.alpha, call.beta);
                for (i, input) in params.inputs.iter_mut().take(n_inputs).enumerate() {
                    input.tensor.address = call.address(i);
                }
                params.c.address = call.address(n_inputs);
            },
        }))
    }
}

/// The steps as kernels take them, and how many there are.
pub(super) fn steps(problem: &PointwiseProblem) -> ([StepParam; MAX_STEPS], u32) {
    let mut steps = [StepParam::NONE; MAX_STEPS];
    let mut next_index = problem.inputs().len();
    for (param, step) in steps.iter_mut().zip(problem.steps()) {
        *param = step.param(problem.is_integral(), &mut next_index);
    }
    (steps, problem.steps().len() as u32)
}

/// A tensor of c's extents whose offsets are the indices along an axis.
fn index_along(axis: usize, c: &TensorDesc) -> Result<TensorDesc, Error> {
    let strides: Vec<i64> = (0..c.rank()).map(|i| i64::from(i == axis)).collect();
    Ok(TensorDesc::strided(c.dtype(), c.dims(), &strides)?)
}
