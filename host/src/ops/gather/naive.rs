//! The gathering kernels that accept every legal problem.

use super::{GatherPass, GatherProblem};
use crate::launch::{KernelLaunch, KernelRow, kernel_for, kernel_rows, linear_grid};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::desc::collapse_dims;
use kernel_abi::ops::gather::GatherParams;

const KERNELS: &[KernelRow] = kernel_abi::gather_kernels!(kernel_rows);
const BLOCK: u32 = 256;

/// One thread an element of what is written; backward looks through all indices.
pub(super) struct Naive;

impl Algorithm<GatherProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &GatherProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.computing(), context)
    }

    fn workspace_bytes(&self, _: &GatherProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &GatherProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::one_by_one_us(problem, context)
    }

    fn prepare(&self, problem: &GatherProblem, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        Ok(Box::new(launch(problem, context)?))
    }
}

/// The launch of the naive kernel for the problem's pass and type.
pub(super) fn launch(problem: &GatherProblem, context: &Context) -> Result<KernelLaunch<GatherParams>, Error> {
    let kernel = kernel_for(KERNELS, problem.pass(), problem.computing(), context);
    let symbol = kernel.map_err(|refusal| refusal.into_error("naive", problem))?[0].0;
    let (x, y, axis) = (problem.x(), problem.y(), problem.axis());
    let others: Vec<usize> = (0..x.rank()).filter(|&i| i != axis).collect();
    let backward = problem.gather_pass() == GatherPass::Backward;
    let (rows, n_indices) = (x.dims()[axis], y.dims()[axis]);
    let row_elems = x.n_elems() / rows;
    // Sorted as the tensor that is written lies.
    let (x_param, y_param) = if backward {
        let [x, y] = collapse_dims([x, y], &others);
        (x, y)
    } else {
        let [y, x] = collapse_dims([y, x], &others);
        (x, y)
    };
    let n_elems = row_elems * if backward { rows } else { n_indices };
    Ok(KernelLaunch {
        function: context.function(symbol)?,
        config: linear_grid(n_elems, BLOCK),
        params: GatherParams {
            n_elems,
            row_elems,
            rows,
            n_indices,
            x_stride: x.strides()[axis],
            y_stride: y.strides()[axis],
            index_stride: problem.indices().strides()[0],
            indices: 0,
            alpha: 1.0,
            beta: 0.0,
            dtype: x.dtype() as u32,
            index_bytes: problem.indices().dtype().size_bytes() as u32,
            x: x_param,
            y: y_param,
        },
        bind: if backward {
            |params, call| {
                (params.alpha, params.beta) = (call.alpha, call.beta);
                params.indices = call.address(0);
                (params.y.address, params.x.address) = (call.address(1), call.address(2));
            }
        } else {
            |params, call| {
                (params.alpha, params.beta) = (call.alpha, call.beta);
                params.indices = call.address(1);
                (params.x.address, params.y.address) = (call.address(0), call.address(2));
            }
        },
    })
}
