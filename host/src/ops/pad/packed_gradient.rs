//! Gradients to a dx without gaps, wherever its rows begin: tiles of `packed`, in which copies are added.

use super::packed::{filled, launch, tiles};
use super::{CopyOrNaive, Geometry, Level, PadMode, PadProblem, gradient, naive};
use crate::launch::{KernelRow, kernel_for, kernel_rows};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::ops::pad::PadPackedParams;

const KERNELS: &[KernelRow] = kernel_abi::pad_packed_gradient_kernels!(kernel_rows);
/// Share of the memory's rate where all of a row's pieces are whole.
const MEMORY_SHARE: f64 = 0.52;

/// f32, f64, f16 and bf16 in rows that are contiguous in both tensors, without steps; `constant`, whose gradient is a window of
/// dy, is left to `packed`.
///
/// A run with other scalars than alpha 1 and beta 0 takes the kernel of `gradient`.
pub(super) struct PackedGradient;

impl Algorithm<PadProblem> for PackedGradient {
    fn name(&self) -> &'static str {
        "packed_gradient"
    }

    fn configs(&self, problem: &PadProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let configs = kernel_for(KERNELS, problem.pass(), problem.x().dtype(), context)?;
        params(problem, context)?;
        Ok(configs)
    }

    fn workspace_bytes(&self, _: &PadProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PadProblem, _: Config, context: &Context) -> f64 {
        let share = MEMORY_SHARE * params(problem, context).map_or(1.0, |params| filled(&params));
        crate::select::cost::LAUNCH_US + problem.bytes() / (share * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &PadProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let params = params(problem, context).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let general: Box<dyn Launch> = match gradient::kernel(problem, context) {
            Ok(configs) => Box::new(gradient::launch(problem, configs[0], context)?),
            Err(_) => Box::new(naive::launch(problem, context)?),
        };
        Ok(Box::new(CopyOrNaive { fast: launch(params, config, context)?, general }))
    }
}

/// The launch parameters but for addresses.
fn params(problem: &PadProblem, context: &Context) -> Result<PadPackedParams, Refusal> {
    if problem.mode() == PadMode::Constant {
        return Err(Refusal::new("adds copies, constant has none"));
    }
    let geometry = Geometry::backward(problem)?;
    let turned = |level: &Level| (level.axis.x, level.x, level.axis.y, level.y);
    let (_, row) = geometry.lines(problem.mode())?;
    let window = [i64::from(row.single), i64::from(row.n_single)];
    let params = tiles(problem, context, &geometry, turned, window)?;
    Ok(PadPackedParams { shift: row.before, ..params })
}
