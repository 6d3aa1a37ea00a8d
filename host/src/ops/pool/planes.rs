//! The gradient of maxima of small windows where columns lie together: a thread a column of windows, all in registers.

use super::strips::{fill, window_axes};
use super::{PoolMode, PoolNan, PoolProblem};
use crate::launch::{ChannelLayout, KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem};
use kernel_abi::division::Divisor;
use kernel_abi::ops::pool::{PLANE_THREADS, PoolPlaneParams, WindowAxis, plane_halo};

/// Rows of windows of a group, at most: blocks end at different times then.
const MAX_STEPS: i64 = 32;
/// And at least, if there are as many: each group repeats some.
const MIN_STEPS: i64 = 8;
/// Threads that keep the memory of a large GPU busy.
const BUSY_THREADS: i64 = 132 * 2048;
/// Share of the memory's rate: accesses are of single elements.
const MEMORY_SHARE: f64 = 0.4;

/// Symbol, element type, side and stride of the windows.
type Row = (&'static str, DType, u32, u32);

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident, $side:literal, $stride:literal)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype), $side, $stride)),*]
    };
}
const KERNELS: &[Row] = kernel_abi::pool_plane_kernels!(rows);

/// Maxima backward, from x; windows of 3 × 3 or 2 × 2 in one plane; f32, f16 and bf16, NCHW.
pub(super) struct Planes;

impl Algorithm<PoolProblem> for Planes {
    fn name(&self) -> &'static str {
        "planes"
    }

    fn configs(&self, problem: &PoolProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        Ok(vec![Config(of_columns(problem)?.0)])
    }

    fn workspace_bytes(&self, _: &PoolProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PoolProblem, _: Config, context: &Context) -> f64 {
        /// What looking at an element once more costs, of the memory's time for it.
        const AGAIN: f64 = 0.03;
        let looks = problem.flops() / problem.x().n_elems() as f64;
        let rate = MEMORY_SHARE * context.info().bytes_per_us;
        crate::select::cost::LAUNCH_US + problem.bytes() / rate * (1.0 + AGAIN * (looks - 1.0).max(0.0))
    }

    fn prepare(&self, problem: &PoolProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (_, params) = of_columns(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let blocks = params.n_groups.div_ceil(PLANE_THREADS / params.group);
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig { grid: [blocks, 1, 1], block: [PLANE_THREADS, 1, 1], ..LaunchConfig::default() },
            params,
            bind,
        }))
    }
}

/// Puts addresses and scalars into the parameters.
pub(super) fn bind(params: &mut PoolPlaneParams, call: &Call<'_>) {
    (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
    (params.x.address, params.dy.address) = (call.address(0), call.address(1));
    params.dx.address = call.address(2);
}

/// The kernel and its parameters.
fn of_columns(problem: &PoolProblem) -> Result<(&'static str, PoolPlaneParams), Refusal> {
    let shape = Shape::of(problem)?;
    let beside = |desc: &&kernel_abi::TensorDesc| {
        let last = desc.rank() - 1;
        desc.dims()[last] == 1 || desc.strides()[last] == 1
    };
    if shape.layout.vec != 1 || ![problem.x(), problem.y(), shape.dx].iter().all(beside) {
        return Err(Refusal::new("takes columns that lie together, here channels do"));
    }
    let row = KERNELS.iter().find(|&&(_, dtype, side, stride)| dtype == shape.dx.dtype() && shape.is_of(side, stride));
    let Some(&(symbol, _, side, stride)) = row else { return Err(shape.refusal()) };
    let columns = shape.owners(stride)[1];
    let group = [8, 16].into_iter().find(|&group| group >= columns).unwrap_or(32);
    let spread = |rows: i64, per_strip: i64| {
        let wanted = BUSY_THREADS / per_strip.saturating_mul(group).max(1) + 1;
        wanted.max(div_ceil(rows, MAX_STEPS)).min(div_ceil(rows, MIN_STEPS))
    };
    Ok((symbol, shape.params(problem, [side, stride], [group, 1], spread)?))
}

/// Maxima backward from x, of windows of one plane.
pub(super) struct Shape<'a> {
    pub(super) dx: &'a kernel_abi::TensorDesc,
    pub(super) layout: ChannelLayout,
    pub(super) axes: [WindowAxis; 3],
}

impl<'a> Shape<'a> {
    pub(super) fn of(problem: &'a PoolProblem) -> Result<Self, Refusal> {
        let Some(dx) = problem.dx().filter(|_| problem.mode() == PoolMode::Max && problem.index().is_none()) else {
            let (pass, mode) = (problem.pass(), problem.mode());
            let index = if problem.index().is_some() { "an" } else { "no" };
            let reason = format!("computes backward of max from x, given {pass} of {mode} with {index} index");
            return Err(Refusal::new(reason));
        };
        let layout = ChannelLayout::of(&[problem.x(), problem.y(), dx])?;
        Ok(Shape { dx, layout, axes: window_axes(problem)? })
    }

    /// Whether windows have this side and stride.
    pub(super) fn is_of(&self, side: u32, stride: u32) -> bool {
        let [d, h, w] = &self.axes;
        let along = |axis: &WindowAxis| (axis.window as u32, axis.stride.divisor) == (side, stride);
        along(h) && along(w) && (d.window, d.stride.divisor, d.padding) == (1, 1, 0)
    }

    pub(super) fn refusal(&self) -> Refusal {
        let axes = self.axes.each_ref().map(|axis| format!("{} of stride {}", axis.window, axis.stride.divisor));
        Refusal::new(format!(
            "takes windows of 1 x 3 x 3, 1 or 2 apart, and of 1 x 2 x 2, 2 apart, given {}",
            axes.join(", ")
        ))
    }

    /// Rows and columns of windows, and of what stands for them behind the last, until all elements have one that owns
    /// them.
    pub(super) fn owners(&self, stride: u32) -> [i64; 2] {
        [1, 2].map(|i| i64::from(self.axes[i].image - 1 + self.axes[i].padding) / i64::from(stride) + 1)
    }

    /// The launch parameters for windows of this side and stride, and groups of so many columns of windows and vectors of
    /// channels. `strips` says how many groups stand above one another, of so many rows of windows, so many groups being
    /// beside one another.
    pub(super) fn params(
        &self,
        problem: &PoolProblem,
        [side, stride]: [u32; 2],
        [group, vectors]: [i64; 2],
        strips: impl FnOnce(i64, i64) -> i64,
    ) -> Result<PoolPlaneParams, Refusal> {
        let Shape { dx, layout, axes: [d, h, w] } = *self;
        let halo = i64::from(plane_halo(side, stride));
        let [rows, columns] = self.owners(stride);
        let beyond = (columns - group).max(0);
        let tiles = 1 + (beyond + group - halo - 1) / (group - halo);
        let [n, c] = [dx.dims()[0], dx.dims()[1] / layout.vec];
        let chunks = div_ceil(c, vectors);
        let per_strip = n.saturating_mul(chunks).saturating_mul(i64::from(d.image)).saturating_mul(tiles);
        let strips = strips(rows, per_strip);
        let steps = div_ceil(rows, strips);
        let strips = div_ceil(rows, steps);
        let n_groups = per_strip.saturating_mul(strips);
        let threads = group * vectors;
        if n_groups.saturating_mul(threads) > i64::from(i32::MAX) {
            let reason = format!("takes up to {} threads, needs {threads} for {n_groups} groups", i32::MAX);
            return Err(Refusal::new(reason));
        }
        let divisor = |number: i64| Divisor::new(number as u32);
        Ok(PoolPlaneParams {
            n_groups: n_groups as u32,
            group: group as u32,
            steps: steps as u32,
            ahead: 1,
            tiles: divisor(tiles),
            strips: divisor(strips),
            planes: divisor(i64::from(d.image)),
            channels: divisor(chunks),
            axes: [h, w],
            ignore_nan: u32::from(problem.nan() == PoolNan::Ignore),
            fill: fill(dx.dtype(), true, problem.nan()),
            alpha: 1.0,
            beta: 0.0,
            vectors: c as u32,
            x: layout.tensor(problem.x()),
            dy: layout.tensor(problem.y()),
            dx: layout.tensor(dx),
        })
    }
}
