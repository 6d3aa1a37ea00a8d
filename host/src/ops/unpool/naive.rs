//! The max unpooling kernels that accept every legal problem.

use super::{UnpoolPass, UnpoolProblem};
use crate::launch::{KernelLaunch, KernelRow, channels_innermost, kernel_for, kernel_rows, linear_grid, spatial_param};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::ops::unpool::UnpoolParams;

const KERNELS: &[KernelRow] = kernel_abi::unpool_kernels!(kernel_rows);
const BLOCK: u32 = 256;

/// One thread an element of what is written, any strides.
pub(super) struct Naive;

impl Algorithm<UnpoolProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &UnpoolProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.image().dtype(), context)
    }

    fn workspace_bytes(&self, _: &UnpoolProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &UnpoolProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::streaming_us(problem, context)
    }

    fn prepare(&self, problem: &UnpoolProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let forward = problem.unpool_pass() == UnpoolPass::Forward;
        let written = if forward { problem.image() } else { problem.pooled() };
        let shape = problem.shape();
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: linear_grid(written.n_elems(), BLOCK),
            params: UnpoolParams {
                n_elems: written.n_elems(),
                c: shape.c,
                axes: shape.axes,
                index_bytes: problem.index().dtype().size_bytes() as u32,
                index_base: problem.index_base() as u32,
                channels_innermost: u64::from(channels_innermost(written)),
                alpha: 1.0,
                beta: 0.0,
                pooled: spatial_param(problem.pooled()),
                index: spatial_param(problem.index()),
                image: spatial_param(problem.image()),
            },
            bind: if forward {
                |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    (params.pooled.address, params.index.address) = (call.address(0), call.address(1));
                    params.image.address = call.address(2);
                }
            } else {
                |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    (params.image.address, params.index.address) = (call.address(0), call.address(1));
                    params.pooled.address = call.address(2);
                }
            },
        }))
    }
}
