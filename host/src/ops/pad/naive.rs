//! The padding kernels that accept every legal problem.

use super::{PadPass, PadProblem};
use crate::launch::{KernelLaunch, KernelRow, kernel_for, kernel_rows, linear_grid};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem, TensorDesc};
use kernel_abi::ops::pad::{PadAxis, PadParams};
use kernel_abi::{MAX_RANK, TensorParam};

const KERNELS: &[KernelRow] = kernel_abi::pad_kernels!(kernel_rows);
const BLOCK: u32 = 256;

/// One thread an element of what is written; backward looks for its copies along each dimension of dy.
pub(super) struct Naive;

impl Algorithm<PadProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &PadProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.computing(), context)
    }

    fn workspace_bytes(&self, _: &PadProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PadProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::one_by_one_us(problem, context)
    }

    fn prepare(&self, problem: &PadProblem, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        Ok(Box::new(launch(problem, context)?))
    }
}

/// The launch of the naive kernel for the problem's pass and type.
pub(super) fn launch(problem: &PadProblem, context: &Context) -> Result<KernelLaunch<PadParams>, Error> {
    let kernel = kernel_for(KERNELS, problem.pass(), problem.computing(), context);
    let symbol = kernel.map_err(|refusal| refusal.into_error("naive", problem))?[0].0;
    let (x, y) = (problem.x(), problem.y());
    let unused = MAX_RANK - x.rank();
    let mut axes = [PadAxis::NONE; MAX_RANK];
    axes.iter_mut().skip(unused).zip(problem.axes()).for_each(|(param, axis)| *param = axis);
    let backward = problem.pad_pass() == PadPass::Backward;
    let n_elems = if backward { x.n_elems() } else { y.n_elems() };
    Ok(KernelLaunch {
        function: context.function(symbol)?,
        config: linear_grid(n_elems, BLOCK),
        params: PadParams {
            n_elems,
            value: problem.filling(),
            alpha: 1.0,
            beta: 0.0,
            mode: problem.mode() as u32,
            dtype: x.dtype() as u32,
            x: last_dims(x),
            y: last_dims(y),
            axes,
        },
        bind: if backward {
            |params, call| {
                (params.alpha, params.beta) = (call.alpha, call.beta);
                (params.y.address, params.x.address) = (call.address(0), call.address(1));
            }
        } else {
            |params, call| {
                (params.alpha, params.beta) = (call.alpha, call.beta);
                (params.x.address, params.y.address) = (call.address(0), call.address(1));
            }
        },
    })
}

/// A tensor whose unused dimensions stand first.
fn last_dims(desc: &TensorDesc) -> TensorParam {
    let mut param = desc.param(0);
    param.dims.rotate_right(MAX_RANK - desc.rank());
    param.strides.rotate_right(MAX_RANK - desc.rank());
    param
}
