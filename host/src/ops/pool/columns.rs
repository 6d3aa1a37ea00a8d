//! The gradient of maxima of small windows where channels lie together: a thread a column of windows of 16 bytes of
//! channels, whose next steps are copied to shared memory.

use super::planes::{Shape, bind};
use super::{PoolProblem, naive};
use crate::launch::{Aligned, KernelLaunch, LaunchConfig};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem};
use kernel_abi::ops::pool::{COLUMN_THREADS, POOL_MAX_AHEAD, PoolPlaneParams, plane_halo};

const WARP: i64 = 32;
/// Warps that a large GPU has at a time, of kernels with as many registers.
const RESIDENT_WARPS: u64 = 132 * 16;
/// Strips that a column is cut into, at most.
const MAX_STRIPS: i64 = 16;
/// Up to so many bytes of x, two steps are read ahead, which saves 5 %; of more, that much under way makes the memory slower:
/// 2 to 10 % at 60 to 410 MB (H200, bf16).
const AHEAD_BYTES: u64 = 48 << 20;
/// Share of the memory's rate, for elements that belong to one window.
const MEMORY_SHARE: f64 = 1.0;

/// Symbol, element type, side and stride of the windows.
type Row = (&'static str, DType, u32, u32);

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident, $vec:literal, $side:literal, $stride:literal)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype), $side, $stride)),*]
    };
}
const KERNELS: &[Row] = kernel_abi::pool_column_kernels!(rows);

/// Maxima backward, from x; windows of 3 × 3 or 2 × 2 in one plane; f32, f16 and bf16, channels last.
///
/// A run with addresses that are no multiples of 16 takes the naive kernel.
pub(super) struct Columns;

impl Algorithm<PoolProblem> for Columns {
    fn name(&self) -> &'static str {
        "columns"
    }

    fn configs(&self, problem: &PoolProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        Ok(vec![Config(of_vectors(problem)?.0)])
    }

    fn workspace_bytes(&self, _: &PoolProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PoolProblem, _: Config, context: &Context) -> f64 {
        /// What looking at an element once more costs, of the memory's time for it.
        const AGAIN: f64 = 0.14;
        let looks = problem.flops() / problem.x().n_elems() as f64;
        let rate = MEMORY_SHARE * context.info().bytes_per_us;
        crate::select::cost::LAUNCH_US + problem.bytes() / rate * (1.0 + AGAIN * (looks - 1.0).max(0.0))
    }

    fn prepare(&self, problem: &PoolProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (_, params) = of_vectors(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let columns = KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig {
                grid: [params.n_groups.div_ceil(COLUMN_THREADS / WARP as u32), 1, 1],
                block: [COLUMN_THREADS, 1, 1],
                ..LaunchConfig::default()
            },
            params,
            bind,
        };
        let align = Shape::of(problem).map_or(1, |shape| shape.layout.align());
        Ok(Box::new(Aligned { fast: columns, align, general: naive::launch(problem, context)? }))
    }
}

/// The kernel and its parameters.
fn of_vectors(problem: &PoolProblem) -> Result<(&'static str, PoolPlaneParams), Refusal> {
    let shape = Shape::of(problem)?;
    if shape.layout.vec == 1 {
        return Err(Refusal::new("takes channels that lie together, here columns do"));
    }
    let row = KERNELS.iter().find(|&&(_, dtype, side, stride)| dtype == shape.dx.dtype() && shape.is_of(side, stride));
    let Some(&(symbol, _, side, stride)) = row else { return Err(shape.refusal()) };
    let halo = i64::from(plane_halo(side, stride));
    // The more columns of a group are repeated, the more it takes; but longer pieces of memory are faster.
    let group = if halo > 1 && shape.owners(stride)[1] > 8 { 16 } else { 8 };
    let mut params = shape.params(problem, [side, stride], [group, WARP / group], |rows, per_strip| {
        // Rounds of resident warps times the rows of each.
        let cost = |&strips: &i64| {
            let rounds = (per_strip as u64).saturating_mul(strips as u64).div_ceil(RESIDENT_WARPS);
            let repeated = if strips > 1 { halo } else { 0 };
            rounds.saturating_mul((rows as u64).div_ceil(strips as u64) + repeated as u64)
        };
        (1..=rows.min(MAX_STRIPS)).min_by_key(cost).unwrap_or(1)
    })?;
    if problem.x().data_bytes() <= AHEAD_BYTES {
        params.ahead = POOL_MAX_AHEAD;
    }
    Ok((symbol, params))
}
