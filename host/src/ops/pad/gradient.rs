//! Gradients of paddings whose elements are copied several times: 16 bytes of dx a thread, which gathers.

use super::{Geometry, PadProblem};
use crate::launch::{ACCESS_BYTES, KernelLaunch, KernelRow, covering_grid, div_ceil, kernel_for, kernel_rows};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::division::Divisor;
use kernel_abi::ops::pad::PadGradientParams;

const KERNELS: &[KernelRow] = kernel_abi::pad_gradient_kernels!(kernel_rows);
const BLOCK: u32 = 256;
/// Share of the memory's rate where rows are not padded.
const MEMORY_SHARE: f64 = 0.6;
/// The same where rows are, whose ends take their copies one by one.
const PADDED_ROWS_SHARE: f64 = 0.35;

/// f32, f64, f16 and bf16 in rows that are contiguous in both tensors, without steps. Of `constant`, whose gradient is a
/// window of dy, it takes runs with any scalars.
pub(super) struct Gradient;

impl Algorithm<PadProblem> for Gradient {
    fn name(&self) -> &'static str {
        "gradient"
    }

    fn configs(&self, problem: &PadProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let configs = kernel_for(KERNELS, problem.pass(), problem.x().dtype(), context)?;
        params(problem)?;
        Ok(configs)
    }

    fn workspace_bytes(&self, _: &PadProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PadProblem, _: Config, context: &Context) -> f64 {
        let whole = Geometry::backward(problem).is_ok_and(|geometry| geometry.row.is_whole());
        let share = if whole { MEMORY_SHARE } else { PADDED_ROWS_SHARE };
        let time = crate::select::cost::LAUNCH_US + problem.bytes() / (share * context.info().bytes_per_us);
        crate::select::cost::UNTIMED * time
    }

    fn prepare(&self, problem: &PadProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let params = params(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: covering_grid(params.n_pieces, BLOCK),
            params,
            bind: |params, call| {
                (params.alpha, params.beta) = (call.alpha, call.beta);
                (params.dy, params.dx) = (call.address(0), call.address(1));
            },
        }))
    }
}

/// The launch parameters but for addresses and scalars.
fn params(problem: &PadProblem) -> Result<PadGradientParams, Refusal> {
    let geometry = Geometry::backward(problem)?;
    let (lines, row) = geometry.lines(problem.mode())?;
    let item = problem.x().dtype().size_bytes() as i64;
    let elems = ACCESS_BYTES as i64 / item;
    // One more for a row that does not begin at 16 bytes.
    let pieces = div_ceil(geometry.row.axis.x, elems) + 1;
    let n_rows: i64 = geometry.around.iter().map(|level| level.axis.x).product();
    let n_pieces = n_rows.saturating_mul(pieces);
    let dy_span = problem.y().span_elems();
    let most = i64::from(i32::MAX) - elems;
    if n_pieces > most || dy_span > most {
        return Err(Refusal::new(format!("counts up to {most}, there are {n_pieces} pieces and dy spans {dy_span}")));
    }
    Ok(PadGradientParams {
        alpha: 1.0,
        beta: 0.0,
        dy: 0,
        dy_bytes: problem.y().span_bytes(),
        dx: 0,
        dx_strides: std::array::from_fn(|i| geometry.level(i).x * item),
        // Nobody goes along a dimension of one element, whatever its stride.
        dy_strides: std::array::from_fn(|i| if geometry.level(i).axis.y == 1 { 0 } else { geometry.level(i).y as i32 }),
        lines,
        row,
        extents: std::array::from_fn(|i| Divisor::new(geometry.level(i).axis.x as u32)),
        pieces: Divisor::new(pieces as u32),
        n_pieces: n_pieces as u32,
        mode: problem.mode() as u32,
        unused: 0,
    })
}
