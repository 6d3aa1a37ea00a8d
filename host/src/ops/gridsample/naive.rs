//! The grid sampling kernels that accept every legal problem.

use super::{GridSamplePass, GridSampleProblem};
use crate::launch::{
    KernelLaunch, KernelRow, channels_innermost, grid_param, kernel_for, kernel_rows, linear_grid, spatial_param,
};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, DType, Error, Problem, TensorDesc};
use kernel_abi::ops::gridsample::GridSampleParams;

const KERNELS: &[KernelRow] = kernel_abi::gridsample_kernels!(kernel_rows);
const BLOCK: u32 = 256;

/// One thread an element of y or dx, or a position of dgrid; any strides.
pub(super) struct Naive;

impl Algorithm<GridSampleProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &GridSampleProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.x().dtype(), context)
    }

    fn workspace_bytes(&self, _: &GridSampleProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &GridSampleProblem, _: Config, context: &Context) -> f64 {
        /// Places and weights in f64.
        const NEIGHBOURS_PER_US: f64 = 100_000.0;
        let looks = match problem.sample_pass() {
            GridSamplePass::BackwardData => problem.x().n_elems() as f64 / problem.shape().c as f64,
            _ => 1.0,
        };
        crate::select::cost::streaming_us(problem, context) + problem.flops() * looks / NEIGHBOURS_PER_US
    }

    fn prepare(
        &self,
        problem: &GridSampleProblem,
        config: Config,
        context: &Context,
    ) -> Result<Box<dyn Launch>, Error> {
        let pass = problem.sample_pass();
        let shape = problem.shape();
        let dgrid = problem.dgrid().unwrap_or(problem.grid());
        let written = if pass == GridSamplePass::BackwardData { problem.x() } else { problem.y() };
        let n_threads = match pass {
            GridSamplePass::BackwardGrid => dgrid.n_elems() / shape.n_axes as i64,
            _ => written.n_elems(),
        };
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: linear_grid(n_threads, BLOCK),
            params: params(problem, n_threads, written),
            bind: match pass {
                GridSamplePass::Forward => |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    (params.x.address, params.grid.address) = (call.address(0), call.address(1));
                    params.y.address = call.address(2);
                },
                GridSamplePass::BackwardData => |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    (params.grid.address, params.y.address) = (call.address(0), call.address(1));
                    params.x.address = call.address(2);
                },
                GridSamplePass::BackwardGrid => |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    (params.x.address, params.grid.address) = (call.address(0), call.address(1));
                    (params.y.address, params.dgrid.address) = (call.address(2), call.address(3));
                },
            },
        }))
    }
}

/// The launch parameters but for addresses and scalars.
pub(super) fn params(problem: &GridSampleProblem, n_threads: i64, written: &TensorDesc) -> GridSampleParams {
    let shape = problem.shape();
    GridSampleParams {
        n_threads,
        c: shape.c,
        n_axes: shape.n_axes as i64,
        image: shape.image,
        output: shape.output,
        sampler: problem.sampler(),
        grid_is_f32: u32::from(problem.grid().dtype() == DType::F32),
        channels_innermost: u32::from(channels_innermost(written)),
        alpha: 1.0,
        beta: 0.0,
        x: spatial_param(problem.x()),
        y: spatial_param(problem.y()),
        grid: grid_param(problem.grid()),
        dgrid: grid_param(problem.dgrid().unwrap_or(problem.grid())),
    }
}
