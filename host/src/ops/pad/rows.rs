//! Padding at the speed of memory: rows that are contiguous in both tensors, 16 bytes of y a thread.

use super::{CopyOrNaive, CopyRow, Geometry, PadProblem, copy_rows, copying_kernel, naive, repeated};
use crate::launch::{ACCESS_BYTES, KernelLaunch, covering_grid, div_ceil};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::division::Divisor;
use kernel_abi::ops::pad::{PadMode, PadRowsParams};

const BLOCK: u32 = 256;
/// Share of the memory's rate.
const MEMORY_SHARE: f64 = 0.95;
/// The same where what is outside is read again.
const MIRRORED_SHARE: f64 = 0.45;
/// Both where elements are moved one by one, since rows do not lie alike to 16 bytes.
const APART_SHARE: f64 = 0.42;
const MIRRORED_APART_SHARE: f64 = 0.35;

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
        copying_kernel(KERNELS, problem, context, || params(problem).map(drop))
    }

    fn workspace_bytes(&self, _: &PadProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PadProblem, _: Config, context: &Context) -> f64 {
        let alike = Geometry::forward(problem).is_ok_and(|geometry| geometry.lies_alike(problem));
        let share = match (alike, problem.mode()) {
            (true, PadMode::Constant) => MEMORY_SHARE,
            (true, _) => MIRRORED_SHARE,
            (false, PadMode::Constant) => APART_SHARE,
            (false, _) => MIRRORED_APART_SHARE,
        };
        crate::select::cost::LAUNCH_US + problem.bytes() / (share * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &PadProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let params = params(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let fast = KernelLaunch {
            function: context.function(config.0)?,
            config: covering_grid(params.n_accesses, BLOCK),
            params,
            bind: |params, call| (params.x, params.y) = (call.address(0), call.address(1)),
        };
        Ok(Box::new(CopyOrNaive { fast, general: Box::new(naive::launch(problem, context)?) }))
    }
}

/// The launch parameters but for addresses.
fn params(problem: &PadProblem) -> Result<PadRowsParams, Refusal> {
    let geometry = Geometry::forward(problem)?;
    let (lines, row) = geometry.lines(problem.mode())?;
    let item = problem.x().dtype().size_bytes() as i64;
    let elems = ACCESS_BYTES as i64 / item;
    // One more for a row that does not begin at 16 bytes.
    let accesses = div_ceil(geometry.row.axis.y, elems) + 1;
    let n_rows: i64 = geometry.around.iter().map(|level| level.axis.y).product();
    let n_accesses = n_rows.saturating_mul(accesses);
    if n_accesses > i64::from(i32::MAX) {
        return Err(Refusal::new(format!("makes up to 2^31 - 1 accesses, given {n_accesses}")));
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
        unused: 0,
    })
}
