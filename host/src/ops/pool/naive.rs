//! The pooling kernels that accept every legal problem.

use super::{PoolPass, PoolProblem};
use crate::launch::{KernelLaunch, KernelRow, channels_innermost, kernel_for, kernel_rows, linear_grid, spatial_param};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::ops::pool::PoolParams;

const KERNELS: &[KernelRow] = kernel_abi::pool_kernels!(kernel_rows);
const BLOCK: u32 = 256;

/// One thread an element of what is written, any strides.
pub(super) struct Naive;

impl Algorithm<PoolProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &PoolProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.y().dtype(), context)
    }

    fn workspace_bytes(&self, _: &PoolProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PoolProblem, _: Config, context: &Context) -> f64 {
        /// An element at a time, whose place is computed by divisions.
        const ELEMENTS_PER_US: f64 = 100_000.0;
        let written = problem.dx().unwrap_or(problem.y()).n_elems();
        crate::select::cost::streaming_us(problem, context) + written as f64 / ELEMENTS_PER_US
    }

    fn prepare(&self, problem: &PoolProblem, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        Ok(Box::new(launch(problem, context)?))
    }
}

/// The launch of the naive kernel for the problem's pass and type.
pub(super) fn launch(problem: &PoolProblem, context: &Context) -> Result<KernelLaunch<PoolParams>, Error> {
    let kernel = kernel_for(KERNELS, problem.pass(), problem.y().dtype(), context);
    let symbol = kernel.map_err(|refusal| refusal.into_error("naive", problem))?[0].0;
    let written = problem.dx().unwrap_or(problem.y());
    let shape = problem.shape();
    let index = problem.index().unwrap_or(problem.y());
    Ok(KernelLaunch {
        function: context.function(symbol)?,
        config: linear_grid(written.n_elems(), BLOCK),
        params: PoolParams {
            n_elems: written.n_elems(),
            c: shape.c,
            axes: shape.axes,
            mode: problem.mode() as u32,
            nan: problem.nan() as u32,
            index_bytes: index.dtype().size_bytes() as u32,
            index_base: problem.index_base() as u32,
            channels_innermost: u32::from(channels_innermost(written)),
            unused: 0,
            p: problem.exponent(),
            alpha: 1.0,
            beta: 0.0,
            x: spatial_param(problem.x()),
            y: spatial_param(problem.y()),
            dx: spatial_param(problem.dx().unwrap_or(problem.x())),
            index: spatial_param(index),
        },
        bind: match (problem.pool_pass(), problem.reads_x(), problem.index().is_some()) {
            (PoolPass::Forward, _, false) => |params, call| {
                scale(params, call);
                (params.x.address, params.y.address) = (call.address(0), call.address(1));
            },
            (PoolPass::Forward, _, true) => |params, call| {
                scale(params, call);
                (params.x.address, params.y.address) = (call.address(0), call.address(1));
                params.index.address = call.address(2);
            },
            (PoolPass::Backward, true, _) => |params, call| {
                scale(params, call);
                (params.x.address, params.y.address) = (call.address(0), call.address(1));
                params.dx.address = call.address(2);
            },
            (PoolPass::Backward, false, true) => |params, call| {
                scale(params, call);
                (params.index.address, params.y.address) = (call.address(0), call.address(1));
                params.dx.address = call.address(2);
            },
            (PoolPass::Backward, false, false) => |params, call| {
                scale(params, call);
                (params.y.address, params.dx.address) = (call.address(0), call.address(1));
            },
        },
    })
}

fn scale(params: &mut PoolParams, call: &Call<'_>) {
    (params.alpha, params.beta) = (call.alpha, call.beta);
}
