//! The affine grid kernels that accept every legal problem.

use super::{AffineGridPass, AffineGridProblem};
use crate::launch::{KernelLaunch, KernelRow, grid_param, kernel_for, kernel_rows, linear_grid};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::ops::affinegrid::AffineGridParams;

const KERNELS: &[KernelRow] = kernel_abi::affinegrid_kernels!(kernel_rows);
const BLOCK: u32 = 256;
const LANES: i64 = 32;

/// One thread an element of grid, or one warp an element of dtheta.
pub(super) struct Naive;

impl Algorithm<AffineGridProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &AffineGridProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.theta().dtype(), context)
    }

    fn workspace_bytes(&self, _: &AffineGridProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &AffineGridProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::streaming_us(problem, context)
    }

    fn prepare(
        &self,
        problem: &AffineGridProblem,
        config: Config,
        context: &Context,
    ) -> Result<Box<dyn Launch>, Error> {
        let forward = problem.grid_pass() == AffineGridPass::Forward;
        let n_elems = if forward { problem.grid().n_elems() } else { problem.theta().n_elems() };
        let n_threads = if forward { n_elems } else { n_elems.saturating_mul(LANES) };
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: linear_grid(n_threads, BLOCK),
            params: AffineGridParams {
                n_elems,
                n_axes: problem.theta().dims()[1],
                extents: problem.extents(),
                align_corners: u64::from(problem.align_corners()),
                alpha: 1.0,
                beta: 0.0,
                theta: problem.theta().param(0),
                grid: grid_param(problem.grid()),
            },
            bind: if forward {
                |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    (params.theta.address, params.grid.address) = (call.address(0), call.address(1));
                }
            } else {
                |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    (params.grid.address, params.theta.address) = (call.address(0), call.address(1));
                }
            },
        }))
    }
}
