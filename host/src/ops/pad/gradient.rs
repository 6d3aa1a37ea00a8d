//! Gradients of paddings whose elements are copied several times: 16 bytes of dx a piece, which is gathered.

use super::{ByAddress, Geometry, PadProblem, pieces, pieces_grid};
use crate::launch::{ACCESS_BYTES, KernelLaunch, KernelRow, kernel_for, kernel_rows};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::division::Divisor;
use kernel_abi::ops::pad::{PIECES_AT_ONCE, PIECES_THREADS, PadGradientParams};

const KERNELS: &[KernelRow] = kernel_abi::pad_gradient_kernels!(kernel_rows);
/// Share of the memory's rate where rows are not padded and lie alike to 16 bytes.
const MEMORY_SHARE: f64 = 0.86;
/// The same where only one of both is so.
const PADDED_ROWS_SHARE: f64 = 0.35;
const APART_SHARE: f64 = 0.3;

/// f32, f64, f16 and bf16 in rows that are contiguous in both tensors, without steps. Of `constant`, whose gradient is a
/// window of dy, it takes runs with any scalars.
pub(super) struct Gradient;

impl Algorithm<PadProblem> for Gradient {
    fn name(&self) -> &'static str {
        "gradient"
    }

    fn configs(&self, problem: &PadProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel(problem, context)
    }

    fn workspace_bytes(&self, _: &PadProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PadProblem, _: Config, context: &Context) -> f64 {
        let share = Geometry::backward(problem).map_or(APART_SHARE, |geometry| {
            match (geometry.lies_alike(problem), geometry.row.is_whole()) {
                (true, true) => MEMORY_SHARE,
                (true, false) => PADDED_ROWS_SHARE,
                _ => APART_SHARE,
            }
        });
        crate::select::cost::LAUNCH_US + problem.bytes() / (share * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &PadProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        Ok(Box::new(launch(problem, config, context)?))
    }
}

/// The launch of a kernel for what [`kernel`] finds able.
pub(super) fn launch(
    problem: &PadProblem,
    config: Config,
    context: &Context,
) -> Result<ByAddress<KernelLaunch<PadGradientParams>>, Error> {
    let launch = |aligned: bool| {
        let mut params = params(problem, aligned).map_err(|refusal| refusal.into_error("gradient", problem))?;
        let (at_once, grid) = pieces_grid(params.n_pieces, context);
        params.at_once = at_once;
        Ok::<_, Error>(KernelLaunch {
            function: context.function(config.0)?,
            config: grid,
            params,
            bind: |params: &mut PadGradientParams, call: &Call<'_>| {
                (params.alpha, params.beta) = (call.alpha, call.beta);
                (params.dy, params.dx) = (call.address(0), call.address(1));
            },
        })
    };
    Ok(ByAddress { aligned: launch(true)?, any: launch(false)? })
}

/// The kernel, where it is able.
pub(super) fn kernel(problem: &PadProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
    let configs = kernel_for(KERNELS, problem.pass(), problem.x().dtype(), context)?;
    params(problem, false)?;
    Ok(configs)
}

/// The launch parameters but for addresses and scalars, for a dx at a multiple of 16 bytes where `aligned`.
fn params(problem: &PadProblem, aligned: bool) -> Result<PadGradientParams, Refusal> {
    let geometry = Geometry::backward(problem)?;
    let (lines, row) = geometry.lines(problem.mode())?;
    let item = problem.x().dtype().size_bytes() as i64;
    let elems = ACCESS_BYTES as i64 / item;
    let aligned = aligned && geometry.around.iter().all(|level| level.x % elems == 0);
    let pieces = pieces(geometry.row.axis.x, elems, aligned);
    let n_rows: i64 = geometry.around.iter().map(|level| level.axis.x).product();
    let n_pieces = n_rows.saturating_mul(pieces);
    let dy_span = problem.y().span_elems();
    let most = i64::from(i32::MAX) - i64::from(PIECES_THREADS * PIECES_AT_ONCE);
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
        at_once: 1,
    })
}
