//! The gradient of maxima of small windows where columns lie together: a thread a column of windows, all in registers.

use super::strips::{fill, window_axes};
use super::{PoolMode, PoolNan, PoolProblem};
use crate::launch::{ChannelLayout, KernelLaunch, LaunchConfig};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
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
        if !context.is_gpu() {
            return Err(Refusal::new(format!("runs on a GPU, the device is {}", context.info().name)));
        }
        Ok(vec![Config(geometry(problem)?.0)])
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
        let (_, params) = geometry(problem).map_err(|Refusal(reason)| Error::Unsupported {
            problem: problem.to_string(),
            reasons: vec![(self.name().to_owned(), reason)],
        })?;
        let blocks = params.n_groups.div_ceil(PLANE_THREADS / params.group);
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig { grid: [blocks, 1, 1], block: [PLANE_THREADS, 1, 1], ..LaunchConfig::default() },
            params,
            bind: |params, call| {
                (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
                (params.x.address, params.dy.address) = (call.address(0), call.address(1));
                params.dx.address = call.address(2);
            },
        }))
    }
}

/// The kernel and its parameters.
fn geometry(problem: &PoolProblem) -> Result<(&'static str, PoolPlaneParams), Refusal> {
    let Some(dx) = problem.dx().filter(|_| problem.mode() == PoolMode::Max && problem.index().is_none()) else {
        let (pass, mode) = (problem.pass(), problem.mode());
        let index = if problem.index().is_some() { "an" } else { "no" };
        let reason = format!("computes backward of max from x, given {pass} of {mode} with {index} index");
        return Err(Refusal::new(reason));
    };
    let tensors = [problem.x(), problem.y(), dx];
    let layout = ChannelLayout::of(&tensors)?;
    let beside = |desc: &&kernel_abi::TensorDesc| {
        let last = desc.rank() - 1;
        desc.dims()[last] == 1 || desc.strides()[last] == 1
    };
    if layout.vec != 1 || !tensors.iter().all(beside) {
        return Err(Refusal::new("takes columns that lie together, here channels do"));
    }
    let [d, h, w] = window_axes(problem)?;
    let dtype = dx.dtype();
    let row = KERNELS.iter().find(|&&(_, of, side, stride)| {
        let along = |axis: &WindowAxis| (axis.window as u32, axis.stride.divisor) == (side, stride);
        of == dtype && along(&h) && along(&w) && (d.window, d.stride.divisor, d.padding) == (1, 1, 0)
    });
    let Some(&(symbol, _, side, stride)) = row else {
        let axes = [d, h, w].map(|axis| format!("{} of stride {}", axis.window, axis.stride.divisor));
        return Err(Refusal::new(format!(
            "takes windows of 1 x 3 x 3, 1 or 2 apart, and of 1 x 2 x 2, 2 apart, given {}",
            axes.join(", ")
        )));
    };
    let halo = i64::from(plane_halo(side, stride));
    // Windows, and what stands for them behind the last, until all elements have one that owns them.
    let owners = |axis: &WindowAxis| i64::from(axis.image - 1 + axis.padding) / i64::from(stride) + 1;
    let (rows, columns) = (owners(&h), owners(&w));
    let group = [8, 16].into_iter().find(|&group| group >= columns).unwrap_or(32);
    let beyond = (columns - group).max(0);
    let tiles = 1 + (beyond + group - halo - 1) / (group - halo);
    let [n, c] = [dx.dims()[0], dx.dims()[1]];
    let per_strip = n.saturating_mul(c).saturating_mul(i64::from(d.image)).saturating_mul(tiles);
    let wanted = BUSY_THREADS / per_strip.saturating_mul(group).max(1) + 1;
    let strips = wanted.max((rows + MAX_STEPS - 1) / MAX_STEPS).min((rows + MIN_STEPS - 1) / MIN_STEPS);
    let steps = (rows + strips - 1) / strips;
    let strips = (rows + steps - 1) / steps;
    let n_groups = per_strip.saturating_mul(strips);
    if n_groups.saturating_mul(group) > i64::from(i32::MAX) {
        return Err(Refusal::new(format!("takes up to {} threads, needs {group} for {n_groups} groups", i32::MAX)));
    }
    let divisor = |number: i64| Divisor::new(number as u32);
    Ok((
        symbol,
        PoolPlaneParams {
            n_groups: n_groups as u32,
            group: group as u32,
            steps: steps as u32,
            tiles: divisor(tiles),
            strips: divisor(strips),
            planes: divisor(i64::from(d.image)),
            channels: divisor(c),
            axes: [h, w],
            ignore_nan: u32::from(problem.nan() == PoolNan::Ignore),
            fill: fill(dtype, true, problem.nan()),
            alpha: 1.0,
            beta: 0.0,
            unused: 0,
            x: layout.tensor(problem.x()),
            dy: layout.tensor(problem.y()),
            dx: layout.tensor(dx),
        },
    ))
}
