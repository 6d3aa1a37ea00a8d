//! The pooling kernels that accept every legal problem.

use super::{PoolMode, PoolPass, PoolProblem};
use crate::launch::{KernelLaunch, KernelRow, channels_innermost, kernel_for, kernel_rows, linear_grid, spatial_param};
use crate::plan::Launch;
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
        crate::select::cost::streaming_us(problem, context)
    }

    fn prepare(&self, problem: &PoolProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let written = problem.dx().unwrap_or(problem.y());
        let shape = problem.shape();
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: linear_grid(written.n_elems(), BLOCK),
            params: PoolParams {
                n_elems: written.n_elems(),
                c: shape.c,
                image: shape.image,
                output: shape.output,
                window: shape.window,
                padding: shape.padding,
                stride: shape.stride,
                mode: problem.mode() as u32,
                channels_innermost: u32::from(channels_innermost(written)),
                alpha: 1.0,
                beta: 0.0,
                x: spatial_param(problem.x()),
                y: spatial_param(problem.y()),
                dx: spatial_param(problem.dx().unwrap_or(problem.x())),
            },
            bind: match (problem.pool_pass(), problem.mode()) {
                (PoolPass::Forward, _) => |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    (params.x.address, params.y.address) = (call.address(0), call.address(1));
                },
                (PoolPass::Backward, PoolMode::Max) => |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    (params.x.address, params.y.address) = (call.address(0), call.address(1));
                    params.dx.address = call.address(2);
                },
                (PoolPass::Backward, _) => |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    (params.y.address, params.dx.address) = (call.address(0), call.address(1));
                },
            },
        }))
    }
}
