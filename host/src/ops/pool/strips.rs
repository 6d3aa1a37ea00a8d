//! Pooling at the speed of memory: a strip of outputs a thread, of 16 bytes of channels, or of one channel where columns
//! lie together.

use super::whole::MOST_TERMS;
use super::{PoolMode, PoolNan, PoolPass, PoolProblem, naive};
use crate::launch::{Aligned, ChannelLayout, KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem};
use kernel_abi::division::Divisor;
use kernel_abi::ops::pool::{MAX_EXTENT, PoolStripParams, WindowAxis};

const BLOCK: u32 = 256;
/// The longest strip: what is read twice at its ends is little then.
const MAX_STRIP: i64 = 8;
/// Threads of a multiprocessor that keep the memory busy.
const BUSY_THREADS: i64 = 1024;
/// Multiprocessors of the devices that this is made for, about.
const MULTIPROCESSORS: i64 = 132;
/// What addresses are multiples of where two columns are read at once.
const PAIR_BYTES: u64 = 4;
/// Symbol, action, element type, elements an access, side and row stride of the windows or 0 and 0 for any.
type Row = (&'static str, &'static str, DType, i64, i64, u32);

macro_rules! rows {
    ($(($symbol:ident, $action:ident, $dtype:ident, $vec:literal, $side:literal, $stride:literal)),* $(,)?) => {
        &[$((stringify!($symbol), stringify!($action), kernel_abi::dtype_of!($dtype), $vec, $side, $stride)),*]
    };
}
const KERNELS: &[Row] = kernel_abi::pool_strip_kernels!(rows);

/// Maxima and averages forward, averages backward; f32, f16 and bf16.
///
/// A run with addresses that are no multiples of 16 takes the naive kernel where channels are read 16 bytes at a time, and with
/// ones that are no multiples of 4 where two columns are read at once.
pub(super) struct Strips;

impl Algorithm<PoolProblem> for Strips {
    fn name(&self) -> &'static str {
        "strips"
    }

    fn configs(&self, problem: &PoolProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        Ok(Geometry::of(problem)?.rows(problem).map(|row| Config(row.0)).collect())
    }

    fn workspace_bytes(&self, _: &PoolProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PoolProblem, config: Config, context: &Context) -> f64 {
        /// What reading elements of several windows again costs, of the memory's time for each.
        const AGAIN: f64 = 0.05;
        let reads = problem.flops() / problem.x().n_elems() as f64;
        // Strips of 3 × 3 windows read a row once.
        let again = if config.0.contains("3x3") { 0.0 } else { AGAIN * (reads - 1.0).max(0.0) };
        // Shares of the memory's rate: single elements keep less of it under way, and divisions take longer than they.
        let row = KERNELS.iter().find(|row| row.0 == config.0);
        let share = match row.map_or(("", 1, 0), |row| (row.1, row.3, row.4)) {
            ("shares", 1, _) => 0.06,
            ("shares", ..) => 0.42,
            ("pairs", ..) => 0.6,
            (_, 1, 3) => 0.45,
            (_, 1, _) => 0.25,
            _ => 0.8,
        };
        /// What a thread waits for an element of its window, loads of some being under way together.
        const WAIT_US: f64 = 0.17;
        let waiting = if row.is_some_and(|row| row.4 == 3 || row.1 == "shares") {
            0.0
        } else {
            WAIT_US * problem.flops() / problem.y().n_elems() as f64
        };
        let rate = share * context.info().bytes_per_us;
        crate::select::cost::LAUNCH_US + (problem.bytes() / rate * (1.0 + again)).max(waiting)
    }

    fn prepare(&self, problem: &PoolProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let unsupported = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let geometry = Geometry::of(problem).map_err(unsupported)?;
        let Some(row) = KERNELS.iter().find(|row| row.0 == config.0) else {
            return Err(unsupported(Refusal::new(format!("has no kernel {}", config.0))));
        };
        let params = geometry.params(problem, row);
        let strips = KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig {
                grid: [params.n_threads.div_ceil(BLOCK), 1, 1],
                block: [BLOCK, 1, 1],
                ..LaunchConfig::default()
            },
            params,
            bind: |params, call| {
                (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
                (params.from.address, params.to.address) = (call.address(0), call.address(1));
            },
        };
        Ok(Box::new(Aligned {
            fast: strips,
            align: if row.1 == "pairs" { PAIR_BYTES } else { geometry.layout.align() },
            general: naive::launch(problem, context)?,
        }))
    }
}

/// Elements outside the image: such as change no maximum, or no sum.
pub(super) fn fill(dtype: DType, is_max: bool, nan: PoolNan) -> u32 {
    // Where NaNs are ignored they are ignored, and nothing else may win over one.
    let (lowest, not_a_number) = match dtype {
        DType::F16 => (0xfc00_fc00, 0x7e00_7e00),
        DType::BF16 => (0xff80_ff80, 0x7fc0_7fc0),
        _ => (f32::NEG_INFINITY.to_bits(), 0x7fc0_0000),
    };
    match (is_max, nan) {
        (false, _) => 0,
        (true, PoolNan::Propagate) => lowest,
        (true, PoolNan::Ignore) => not_a_number,
    }
}

/// The axes in 32 bits.
pub(super) fn window_axes(problem: &PoolProblem) -> Result<[WindowAxis; 3], Refusal> {
    let axes = problem.shape().axes;
    let [Some(d), Some(h), Some(w)] = axes.each_ref().map(WindowAxis::new) else {
        return Err(Refusal::new(format!(
            "takes windows without dilation, bins of equal size, extents up to {MAX_EXTENT}; given {axes:?}"
        )));
    };
    Ok([d, h, w])
}

struct Geometry {
    layout: ChannelLayout,
    axes: [WindowAxis; 3],
}

impl Geometry {
    fn of(problem: &PoolProblem) -> Result<Self, Refusal> {
        let forward = problem.pool_pass() == PoolPass::Forward;
        let average = matches!(problem.mode(), PoolMode::AverageIncludePadding | PoolMode::AverageExcludePadding);
        if problem.index().is_some() || !(average || (forward && problem.mode() == PoolMode::Max)) {
            let (pass, mode) = (problem.pass(), problem.mode());
            let index = if problem.index().is_some() { "an" } else { "no" };
            return Err(Refusal::new(format!(
                "computes averages, and maxima forward, without index; given {pass} of {mode} with {index} index"
            )));
        }
        let written = problem.dx().unwrap_or(problem.y());
        let read = if forward { problem.x() } else { problem.y() };
        let geometry = Geometry { layout: ChannelLayout::of(&[read, written])?, axes: window_axes(problem)? };
        let window: i64 = geometry.axes.iter().map(|axis| i64::from(axis.window)).product();
        if average && window > MOST_TERMS {
            return Err(Refusal::new(format!("adds windows of up to {MOST_TERMS} elements, given {window}")));
        }
        let n_threads = written.n_elems() / geometry.layout.vec;
        if n_threads > MAX_EXTENT {
            return Err(Refusal::new(format!(
                "takes up to {MAX_EXTENT} accesses to what is written, given {n_threads}"
            )));
        }
        Ok(geometry)
    }

    /// Whether two neighbouring columns are words of both tensors.
    fn in_pairs(problem: &PoolProblem) -> bool {
        [problem.x(), problem.y()].iter().all(|desc| {
            let last = desc.rank() - 1;
            let apart = (0..last).filter(|&i| desc.dims()[i] > 1);
            desc.dims()[last] % 2 == 0
                && desc.strides()[last] == 1
                && apart.map(|i| desc.strides()[i]).all(|stride| stride % 2 == 0)
        })
    }

    /// Kernels for the problem, best first.
    fn rows(&self, problem: &PoolProblem) -> impl Iterator<Item = &'static Row> {
        let action = match (problem.pool_pass(), problem.mode()) {
            (PoolPass::Backward, _) => "shares",
            (_, PoolMode::Max) => "maximum",
            _ => "average",
        };
        let [d, h, w] = self.axes;
        let of_three = d.window == 1 && h.window == 3 && w.window == 3;
        let (dtype, vec) = (problem.y().dtype(), self.layout.vec);
        let in_pairs = action == "maximum" && h.stride.divisor == w.stride.divisor && Self::in_pairs(problem);
        KERNELS.iter().filter(move |row| {
            (row.1 == action || (in_pairs && row.1 == "pairs"))
                && (row.2, row.3) == (dtype, vec)
                && (row.4 == 0 || (of_three && row.5 == h.stride.divisor))
        })
    }

    /// The launch parameters of a kernel.
    fn params(&self, problem: &PoolProblem, &(_, action, _, _, side, _): &Row) -> PoolStripParams {
        let forward = problem.pool_pass() == PoolPass::Forward;
        let [n, c] = [problem.x().dims()[0], problem.x().dims()[1]];
        let written = self.axes.map(|axis| i64::from(if forward { axis.output } else { axis.image }));
        let channels = c / self.layout.vec;
        let columns = if action == "pairs" { written[2] / 2 } else { written[2] };
        let per_row = n * channels * written[0] * columns;
        let strip = if side == 3 {
            // As long as enough threads are left.
            let wanted = per_row * written[1] / (MULTIPROCESSORS * BUSY_THREADS);
            wanted.clamp(1, MAX_STRIP)
        } else {
            1
        };
        let strips = div_ceil(written[1], strip);
        let (from, to) =
            if forward { (problem.x(), problem.y()) } else { (problem.y(), problem.dx().unwrap_or(problem.x())) };
        let divisor = |number: i64| Divisor::new(number as u32);
        PoolStripParams {
            n_threads: (per_row * strips) as u32,
            strip: strip as u32,
            channels: divisor(channels),
            columns: divisor(columns),
            strips: divisor(strips),
            planes: divisor(written[0]),
            axes: self.axes,
            with_padding: u32::from(problem.mode() == PoolMode::AverageIncludePadding),
            ignore_nan: u32::from(problem.nan() == PoolNan::Ignore),
            fill: fill(problem.y().dtype(), problem.mode() == PoolMode::Max, problem.nan()),
            alpha: 1.0,
            beta: 0.0,
            unused: 0,
            from: self.layout.tensor(from),
            to: self.layout.tensor(to),
        }
    }
}
