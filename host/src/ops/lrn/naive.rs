//! The local response normalization kernels that accept every legal problem.

use super::{LrnPass, LrnProblem};
use crate::launch::{KernelLaunch, KernelRow, channels_innermost, kernel_for, kernel_rows, linear_grid, spatial_param};
use crate::plan::{Call, Launch};
use crate::select::cost::{LAUNCH_US, scalar_us};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem, Stream, TensorDesc};
use kernel_abi::ops::lrn::LrnParams;
use kernel_abi::{MAX_RANK, TensorParam};

const KERNELS: &[KernelRow] = kernel_abi::lrn_kernels!(kernel_rows);
const BLOCK: u32 = 256;

/// One thread an element, any strides.
pub(super) struct Naive;

impl Algorithm<LrnProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &LrnProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.x().dtype(), context)
    }

    /// Two numbers of the accumulator's type an element, backward.
    fn workspace_bytes(&self, problem: &LrnProblem, _: Config) -> u64 {
        match problem.lrn_pass() {
            LrnPass::Forward => 0,
            LrnPass::Backward => {
                2 * problem.x().n_elems() as u64 * problem.x().dtype().accumulator().size_bytes() as u64
            }
        }
    }

    fn estimate_us(&self, problem: &LrnProblem, config: Config, context: &Context) -> f64 {
        /// Index arithmetic beside the formula's.
        const SHARE: f64 = 0.05;
        let kept = 2.0 * self.workspace_bytes(problem, config) as f64 / context.info().bytes_per_us;
        let launches = if kept > 0.0 { LAUNCH_US } else { 0.0 };
        launches + kept + scalar_us(problem, context, SHARE)
    }

    fn prepare(&self, problem: &LrnProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let n_elems = problem.x().n_elems();
        let (behind, ahead) = problem.reach();
        let absent = TensorParam { address: 0, dims: [1; MAX_RANK], strides: [0; MAX_RANK] };
        let param = |desc: Option<&TensorDesc>| desc.map_or(absent, spatial_param);
        let params = LrnParams {
            n_elems,
            behind,
            ahead,
            alpha: problem.alpha() / problem.window_elems(),
            beta: problem.beta(),
            k: problem.k(),
            result_factor: 1.0,
            prior_factor: 0.0,
            channels_innermost: u32::from(channels_innermost(problem.x())),
            reserved: 0,
            x: spatial_param(problem.x()),
            means: param(problem.means()),
            out: spatial_param(problem.out()),
            dy: param(problem.dy()),
            dmeans: param(problem.dmeans()),
            kept: 0,
        };
        let step = |symbol: &'static str| -> Result<KernelLaunch<LrnParams>, Error> {
            Ok(KernelLaunch {
                function: context.function(symbol)?,
                config: linear_grid(n_elems, BLOCK),
                params,
                bind: bind(problem),
            })
        };
        let mut steps = Vec::new();
        if problem.lrn_pass() == LrnPass::Backward {
            let powers = kernel_for(KERNELS, "powers", problem.x().dtype(), context);
            steps.push(step(powers.map_err(|refusal| refusal.into_error(self.name(), problem))?[0].0)?);
        }
        steps.push(step(config.0)?);
        Ok(Box::new(Steps(steps)))
    }
}

/// Puts in addresses and scalars; which operands there are depends on the problem.
fn bind(problem: &LrnProblem) -> fn(&mut LrnParams, &Call<'_>) {
    fn all(params: &mut LrnParams, call: &Call<'_>, means: bool) {
        (params.result_factor, params.prior_factor) = (call.alpha, call.beta);
        let first = usize::from(means);
        params.x.address = call.address(0);
        params.means.address = if means { call.address(1) } else { 0 };
        let rest = call.operands.len() - first - 1;
        if rest == 1 {
            params.out.address = call.address(first + 1);
        } else {
            params.dy.address = call.address(first + 1);
            params.out.address = call.address(first + 2);
            params.dmeans.address = if rest > 2 { call.address(first + 3) } else { 0 };
            params.kept = call.workspace_address();
        }
    }
    match problem.means() {
        Some(_) => |params, call| all(params, call, true),
        None => |params, call| all(params, call, false),
    }
}

/// Kernels one after another.
struct Steps(Vec<KernelLaunch<LrnParams>>);

impl Launch for Steps {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        self.0.iter().try_for_each(|step| step.launch(stream, call))
    }
}
