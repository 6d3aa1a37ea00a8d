//! Global pooling at the speed of memory: one window that is the whole image.

use super::strips::fill;
use super::{PoolMode, PoolNan, PoolPass, PoolProblem, naive};
use crate::launch::{ACCESS_BYTES, Aligned, ChannelLayout, KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem, TensorDesc};
use kernel_abi::MAX_RANK;
use kernel_abi::desc::collapse_dims;
use kernel_abi::division::Divisor;
use kernel_abi::ops::pool::{PoolWholeParams, WHOLE_LANES, WHOLE_THREADS};

/// Loads that a thread has under way together.
const AHEAD: i64 = 4;
/// The most terms that a thread adds one after the other.
pub(super) const MOST_TERMS: i64 = 4096;
/// Share of the memory's rate.
const MEMORY_SHARE: f64 = 0.85;

/// Symbol, action, what lies together, element type, elements an access.
type Row = (&'static str, &'static str, &'static str, DType, i64);

macro_rules! rows {
    ($(($symbol:ident, $action:ident, $together:ident, $dtype:ident, $vec:literal)),* $(,)?) => {
        &[$((stringify!($symbol), stringify!($action), stringify!($together), kernel_abi::dtype_of!($dtype), $vec)),*]
    };
}
const KERNELS: &[Row] = kernel_abi::pool_whole_kernels!(rows);

/// Maxima and averages of whole images forward, averages backward where planes lie together; f32, f16 and bf16.
///
/// A run with addresses that are no multiples of 16 takes the naive kernel, but for planes forward.
pub(super) struct Whole;

impl Algorithm<PoolProblem> for Whole {
    fn name(&self) -> &'static str {
        "whole"
    }

    fn configs(&self, problem: &PoolProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        Ok(vec![Config(Geometry::of(problem)?.row.0)])
    }

    fn workspace_bytes(&self, _: &PoolProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PoolProblem, _: Config, context: &Context) -> f64 {
        /// Blocks that join what the threads of columns have, which takes as long for small images.
        const JOINED_PER_US: f64 = 340.0;
        let rate = MEMORY_SHARE * context.info().bytes_per_us;
        let joining = match Geometry::of(problem) {
            Ok(geometry) if geometry.row.2 == "columns" => f64::from(geometry.blocks) / JOINED_PER_US,
            _ => 0.0,
        };
        crate::select::cost::LAUNCH_US + (problem.bytes() / rate).max(joining)
    }

    fn prepare(&self, problem: &PoolProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let unsupported = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let geometry = Geometry::of(problem).map_err(unsupported)?;
        let whole = KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig {
                grid: [geometry.blocks, 1, 1],
                block: [WHOLE_THREADS, 1, 1],
                ..LaunchConfig::default()
            },
            params: geometry.params,
            bind: if geometry.is_backward() { bind_backward } else { bind_forward },
        };
        // Planes are cut wherever they begin.
        let align = if geometry.is_backward() || geometry.row.2 == "columns" { ACCESS_BYTES } else { 1 };
        Ok(Box::new(Aligned { fast: whole, align, general: naive::launch(problem, context)? }))
    }
}

fn bind_forward(params: &mut PoolWholeParams, call: &Call<'_>) {
    (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
    (params.x, params.y) = (call.address(0), call.address(1));
    params.x_end += params.x;
}

fn bind_backward(params: &mut PoolWholeParams, call: &Call<'_>) {
    (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
    (params.y, params.x) = (call.address(0), call.address(1));
    params.x_end += params.x;
}

/// Whether the one window is the image, without padding.
pub(super) fn is_whole(problem: &PoolProblem) -> bool {
    problem.shape().axes.iter().all(|axis| {
        axis.output == 1 && axis.dilation == 1 && axis.window(0) == (0, axis.image) && axis.padded(0) == axis.image
    })
}

/// Whether [`Whole`] computes a problem.
pub(super) fn takes(problem: &PoolProblem) -> bool {
    Geometry::of(problem).is_ok()
}

struct Geometry {
    row: &'static Row,
    params: PoolWholeParams,
    blocks: u32,
}

impl Geometry {
    fn is_backward(&self) -> bool {
        self.row.1 == "shares"
    }

    fn of(problem: &PoolProblem) -> Result<Self, Refusal> {
        let (x, y, shape) = (problem.dx().unwrap_or(problem.x()), problem.y(), problem.shape());
        let forward = problem.pool_pass() == PoolPass::Forward;
        let action = match (problem.mode(), forward) {
            (PoolMode::Max, true) => Some("maximum"),
            (PoolMode::AverageIncludePadding | PoolMode::AverageExcludePadding, true) => Some("average"),
            (PoolMode::AverageIncludePadding | PoolMode::AverageExcludePadding, false) => Some("shares"),
            _ => None,
        };
        let Some(action) = action.filter(|_| is_whole(problem) && problem.index().is_none()) else {
            let reason =
                "computes maxima and averages of whole images, averages backward, no padding, no index; given ";
            return Err(Refusal::new(format!("{reason}{problem}")));
        };
        let positions: i64 = x.dims()[2..].iter().product();
        let [flat] = collapse_dims([x], &(2..x.rank()).collect::<Vec<_>>());
        let last = MAX_RANK - 1;
        if flat.dims[last] != positions || positions.max(x.n_elems()) > i64::from(i32::MAX) {
            let reason = "takes images whose positions are equally far apart, of up to 2^31 elements in all, given ";
            return Err(Refusal::new(format!("{reason}{x}")));
        }
        let step = flat.strides[last];
        let layout = ChannelLayout::of(&[x, y])?;
        let [n, c] = [shape.n, shape.c];
        let several = ACCESS_BYTES as i64 / x.dtype().size_bytes() as i64;
        let together = if layout.vec > 1 { "columns" } else { "rows" };
        if layout.vec == 1 && positions > 1 && step != 1 {
            return Err(Refusal::new(format!("takes positions that lie together, given {x}")));
        }
        let vec = several;
        if !forward {
            let packed = |desc: &TensorDesc, each: i64| {
                (n == 1 || desc.strides()[0] == c * each) && (c == 1 || desc.strides()[1] == each)
            };
            if layout.vec > 1 || positions < vec || !packed(x, positions) || !packed(y, 1) {
                return Err(Refusal::new(format!(
                    "takes, backward, packed planes of at least {vec} elements, given {y} and {x}"
                )));
            }
        }
        let wanted = (action, together, x.dtype(), vec);
        let row = KERNELS.iter().find(|row| (row.1, row.2, row.3, row.4) == wanted);
        let row = row.ok_or_else(|| Refusal::new(format!("has no kernel for {wanted:?}")))?;
        let pieces = (positions + vec - 2) / vec + 1;
        // A round of loads a thread.
        let lanes = div_ceil(pieces, AHEAD);
        let lanes = (lanes as u32).next_power_of_two().min(32);
        let terms = if together == "columns" {
            positions / i64::from(WHOLE_THREADS / WHOLE_LANES)
        } else {
            pieces / i64::from(lanes)
        };
        if action == "average" && terms > MOST_TERMS {
            return Err(Refusal::new(format!(
                "adds up to {MOST_TERMS} terms one after the other in a thread, given {terms} of {x}"
            )));
        }
        let threads = i64::from(WHOLE_THREADS);
        let (channels, chunks, blocks) = if !forward {
            (n * c, positions, div_ceil(x.n_elems(), threads * vec))
        } else if together == "columns" {
            let channels = c / vec;
            let chunks = div_ceil(channels, i64::from(WHOLE_LANES));
            (channels, chunks, n * chunks)
        } else {
            (n * c, c, div_ceil(n * c * i64::from(lanes), threads))
        };
        let (x_tensor, y_tensor) = (layout.tensor(x), layout.tensor(y));
        let params = PoolWholeParams {
            positions: positions as u32,
            channels: channels as u32,
            chunks: Divisor::new(chunks as u32),
            ignore_nan: u32::from(problem.nan() == PoolNan::Ignore),
            fill: fill(x.dtype(), problem.mode() == PoolMode::Max, problem.nan()),
            alpha: 1.0,
            beta: 0.0,
            lanes,
            x: 0,
            x_end: x.span_bytes(),
            y: 0,
            x_strides: [x_tensor.strides[0], x_tensor.strides[1], step],
            y_strides: [y_tensor.strides[0], y_tensor.strides[1]],
        };
        Ok(Geometry { row, params, blocks: blocks as u32 })
    }
}
