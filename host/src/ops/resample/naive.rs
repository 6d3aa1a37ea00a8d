//! The resampling kernels that accept every legal problem.

use super::{ResamplePass, ResampleProblem};
use crate::launch::{KernelLaunch, KernelRow, channels_innermost, kernel_for, kernel_rows, linear_grid, spatial_param};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::ops::resample::ResampleParams;

const KERNELS: &[KernelRow] = kernel_abi::resample_kernels!(kernel_rows);
const BLOCK: u32 = 256;

/// One thread an element of what is written, any strides.
pub(super) struct Naive;

impl Algorithm<ResampleProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &ResampleProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.x().dtype(), context)
    }

    fn workspace_bytes(&self, _: &ResampleProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ResampleProblem, _: Config, context: &Context) -> f64 {
        /// Weights in f64 at every neighbour.
        const NEIGHBOURS_PER_US: f64 = 100_000.0;
        crate::select::cost::streaming_us(problem, context) + problem.flops() / NEIGHBOURS_PER_US
    }

    fn prepare(&self, problem: &ResampleProblem, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        Ok(Box::new(launch(problem, context)?))
    }
}

/// The launch of the naive kernel for the problem's pass and type.
pub(super) fn launch(problem: &ResampleProblem, context: &Context) -> Result<KernelLaunch<ResampleParams>, Error> {
    let kernel = kernel_for(KERNELS, problem.pass(), problem.x().dtype(), context);
    let symbol = kernel.map_err(|refusal| refusal.into_error("naive", problem))?[0].0;
    let forward = problem.resample_pass() == ResamplePass::Forward;
    let written = if forward { problem.y() } else { problem.x() };
    let shape = problem.shape();
    Ok(KernelLaunch {
        function: context.function(symbol)?,
        config: linear_grid(written.n_elems(), BLOCK),
        params: ResampleParams {
            n_elems: written.n_elems(),
            c: shape.c,
            axes: shape.axes,
            filter: shape.filter,
            extrapolation: problem.extrapolation(),
            channels_innermost: u64::from(channels_innermost(written)),
            alpha: 1.0,
            beta: 0.0,
            x: spatial_param(problem.x()),
            y: spatial_param(problem.y()),
        },
        bind: if forward {
            |params, call| {
                (params.alpha, params.beta) = (call.alpha, call.beta);
                (params.x.address, params.y.address) = (call.address(0), call.address(1));
            }
        } else {
            |params, call| {
                (params.alpha, params.beta) = (call.alpha, call.beta);
                (params.y.address, params.x.address) = (call.address(0), call.address(1));
            }
        },
    })
}
