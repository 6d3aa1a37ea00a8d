//! Padding to a y without gaps: 16 bytes of it a thread, wherever its rows begin.

use super::{CopyOrNaive, CopyRow, Geometry, PadProblem, copy_rows, copying_kernel, naive, repeated};
use crate::launch::{ACCESS_BYTES, KernelLaunch, covering_grid, div_ceil};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::ops::pad::{PadMode, PadPackedParams};

const BLOCK: u32 = 256;
/// Share of the memory's rate.
const MEMORY_SHARE: f64 = 0.93;
/// The same where rows do not lie alike to 16 bytes, and where elements outside are read one by one besides.
const APART_SHARE: f64 = 0.63;
const MIRRORED_SHARE: f64 = 0.46;

const KERNELS: &[CopyRow] = kernel_abi::pad_packed_kernels!(copy_rows);

/// All modes and any element type forward; backward `constant` without steps, whose gradient is a window of dy.
///
/// A run with other scalars than alpha 1 and beta 0 takes the naive kernel.
pub(super) struct Packed;

impl Algorithm<PadProblem> for Packed {
    fn name(&self) -> &'static str {
        "packed"
    }

    fn configs(&self, problem: &PadProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        copying_kernel(KERNELS, problem, context, || params(problem).map(drop))
    }

    fn workspace_bytes(&self, _: &PadProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PadProblem, _: Config, context: &Context) -> f64 {
        let alike = Geometry::forward(problem).is_ok_and(|geometry| geometry.lies_alike(problem));
        let share = match problem.mode() {
            _ if alike => MEMORY_SHARE,
            PadMode::Constant => APART_SHARE,
            _ => MIRRORED_SHARE,
        };
        crate::select::cost::LAUNCH_US + problem.bytes() / (share * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &PadProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let params = params(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let fast = KernelLaunch {
            function: context.function(config.0)?,
            config: covering_grid(params.n_pieces, BLOCK),
            params,
            bind: |params, call| (params.x, params.y) = (call.address(0), call.address(1)),
        };
        Ok(Box::new(CopyOrNaive { fast, general: Box::new(naive::launch(problem, context)?) }))
    }
}

/// The launch parameters but for addresses.
fn params(problem: &PadProblem) -> Result<PadPackedParams, Refusal> {
    let geometry = Geometry::forward(problem)?;
    let (lines, row) = geometry.lines(problem.mode())?;
    let width = geometry.row.axis.y;
    let mut n = width;
    for level in &geometry.around {
        if level.y != n && level.axis.y != 1 {
            let distance = level.y;
            return Err(Refusal::new(format!("writes without gaps, elements that are {n} apart then are {distance}")));
        }
        n = n.saturating_mul(level.axis.y);
    }
    let elems = ACCESS_BYTES as i64 / problem.x().dtype().size_bytes() as i64;
    if width < elems && !geometry.around.is_empty() {
        return Err(Refusal::new(format!("writes {elems} elements of up to two rows at once, rows have {width}")));
    }
    let x_span =
        1 + geometry.around.iter().chain([&geometry.row]).map(|level| (level.axis.x - 1) * level.x).sum::<i64>();
    let most = i64::from(i32::MAX) - elems;
    if n > most || x_span > most {
        return Err(Refusal::new(format!("counts up to {most} elements, those read span {x_span}, {n} are written")));
    }
    Ok(PadPackedParams {
        value: repeated(problem),
        x: 0,
        x_bytes: x_span as u64 * problem.x().dtype().size_bytes() as u64,
        y: 0,
        lines,
        row,
        // Nobody goes along a dimension of one element, whatever its stride.
        x_strides: std::array::from_fn(|i| if geometry.level(i).axis.x == 1 { 0 } else { geometry.level(i).x as i32 }),
        n: n as i32,
        // One more for a y that does not begin at 16 bytes.
        n_pieces: (div_ceil(n, elems) + 1) as u32,
        mode: problem.mode() as u32,
    })
}
