//! Padding at the speed of memory: rows that are contiguous in both tensors, 16 bytes of y an access.

use super::{
    ByAddress, CopyOrNaive, CopyRow, Geometry, PadProblem, copy_rows, copying_kernel, naive, pieces, pieces_grid,
    repeated,
};
use crate::launch::{ACCESS_BYTES, KernelLaunch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::division::Divisor;
use kernel_abi::ops::pad::{PIECES_AT_ONCE, PIECES_THREADS, PadMode, PadRowsParams};

/// Share of the memory's rate where rows lie alike to 16 bytes.
const MEMORY_SHARE: f64 = 0.95;
/// The same where rows are mirrored besides.
const MIRRORED_SHARE: f64 = 0.45;
/// Both where elements are moved one by one, since rows do not lie alike to 16 bytes.
const APART_SHARE: f64 = 0.35;
const MIRRORED_APART_SHARE: f64 = 0.3;

const KERNELS: &[CopyRow] = kernel_abi::pad_row_kernels!(copy_rows);

/// All modes and any element type forward; backward `constant` without steps, whose gradient is a window of dy.
///
/// A run with other scalars than alpha 1 and beta 0 takes the naive kernel.
pub(super) struct Rows;

impl Algorithm<PadProblem> for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn configs(&self, problem: &PadProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        copying_kernel(KERNELS, problem, context, || params(problem, false).map(drop))
    }

    fn workspace_bytes(&self, _: &PadProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PadProblem, _: Config, context: &Context) -> f64 {
        let alike = Geometry::forward(problem).is_ok_and(|geometry| geometry.lies_alike(problem));
        let whole = Geometry::forward(problem).is_ok_and(|geometry| geometry.row.is_whole());
        let share = match (alike, problem.mode()) {
            (true, PadMode::Constant) => MEMORY_SHARE,
            (true, _) if whole => MEMORY_SHARE,
            (true, _) => MIRRORED_SHARE,
            (false, PadMode::Constant) => APART_SHARE,
            (false, _) => MIRRORED_APART_SHARE,
        };
        crate::select::cost::LAUNCH_US + problem.bytes() / (share * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &PadProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let launch = |aligned: bool| {
            let mut params = params(problem, aligned).map_err(|refusal| refusal.into_error(self.name(), problem))?;
            let (at_once, grid) = pieces_grid(params.n_accesses, context);
            params.at_once = at_once;
            Ok::<_, Error>(KernelLaunch {
                function: context.function(config.0)?,
                config: grid,
                params,
                bind: |params: &mut PadRowsParams, call: &Call<'_>| {
                    (params.x, params.y) = (call.address(0), call.address(1));
                },
            })
        };
        let fast = ByAddress { aligned: launch(true)?, any: launch(false)? };
        Ok(Box::new(CopyOrNaive { fast, general: Box::new(naive::launch(problem, context)?) }))
    }
}

/// The launch parameters but for addresses, for a y at a multiple of 16 bytes where `aligned`.
fn params(problem: &PadProblem, aligned: bool) -> Result<PadRowsParams, Refusal> {
    let geometry = Geometry::forward(problem)?;
    let (lines, row) = geometry.lines(problem.mode())?;
    let item = problem.x().dtype().size_bytes() as i64;
    let elems = ACCESS_BYTES as i64 / item;
    let aligned = aligned && geometry.around.iter().all(|level| level.y % elems == 0);
    let accesses = pieces(geometry.row.axis.y, elems, aligned);
    let n_rows: i64 = geometry.around.iter().map(|level| level.axis.y).product();
    let n_accesses = n_rows.saturating_mul(accesses);
    let most = i64::from(i32::MAX) - i64::from(PIECES_THREADS * PIECES_AT_ONCE);
    if n_accesses > most {
        return Err(Refusal::new(format!("makes up to {most} accesses, given {n_accesses}")));
    }
    Ok(PadRowsParams {
        value: repeated(problem),
        x: 0,
        y: 0,
        x_strides: std::array::from_fn(|i| geometry.level(i).x * item),
        y_strides: std::array::from_fn(|i| geometry.level(i).y * item),
        lines,
        row,
        accesses: Divisor::new(accesses as u32),
        n_accesses: n_accesses as u32,
        mode: problem.mode() as u32,
        at_once: 1,
    })
}
