//! Global pooling at the speed of memory: one window that is the whole image.

use super::strips::fill;
use super::{PoolMode, PoolNan, PoolPass, PoolProblem, naive};
use crate::launch::{ACCESS_BYTES, Aligned, ChannelLayout, KernelLaunch, LaunchConfig};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, DType, Error, Problem};
use kernel_abi::MAX_RANK;
use kernel_abi::desc::collapse_dims;
use kernel_abi::division::Divisor;
use kernel_abi::ops::pool::{PoolWholeParams, WHOLE_LANES, WHOLE_PLANES, WHOLE_THREADS};

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

/// Maxima and averages of whole images forward; f32, f16 and bf16.
///
/// A run with addresses that are no multiples of 16 takes the naive kernel where 16 bytes are read at a time.
pub(super) struct Whole;

impl Algorithm<PoolProblem> for Whole {
    fn name(&self) -> &'static str {
        "whole"
    }

    fn configs(&self, problem: &PoolProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        if !context.is_gpu() {
            return Err(Refusal::new(format!("runs on a GPU, the device is {}", context.info().name)));
        }
        Ok(vec![Config(Geometry::of(problem)?.row.0)])
    }

    fn workspace_bytes(&self, _: &PoolProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PoolProblem, _: Config, context: &Context) -> f64 {
        /// Joining what the threads of a block have, which takes as long for small images.
        const JOINED_PER_US: f64 = 2000.0;
        let rate = MEMORY_SHARE * context.info().bytes_per_us;
        let blocks = Geometry::of(problem).map_or(0, |geometry| geometry.blocks);
        crate::select::cost::LAUNCH_US + (problem.bytes() / rate).max(f64::from(blocks) / JOINED_PER_US)
    }

    fn prepare(&self, problem: &PoolProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let unsupported = |Refusal(reason)| Error::Unsupported {
            problem: problem.to_string(),
            reasons: vec![(self.name().to_owned(), reason)],
        };
        let geometry = Geometry::of(problem).map_err(unsupported)?;
        let whole = KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig {
                grid: [geometry.blocks, 1, 1],
                block: [WHOLE_THREADS, 1, 1],
                ..LaunchConfig::default()
            },
            params: geometry.params,
            bind: |params, call| {
                (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
                (params.x, params.y) = (call.address(0), call.address(1));
            },
        };
        let align = if geometry.row.4 > 1 { ACCESS_BYTES } else { 1 };
        Ok(Box::new(Aligned { fast: whole, align, general: naive::launch(problem, context)? }))
    }
}

struct Geometry {
    row: &'static Row,
    params: PoolWholeParams,
    blocks: u32,
}

impl Geometry {
    fn of(problem: &PoolProblem) -> Result<Self, Refusal> {
        let (x, y, shape) = (problem.x(), problem.y(), problem.shape());
        let whole = shape.axes.iter().all(|axis| {
            axis.output == 1 && axis.dilation == 1 && axis.window(0) == (0, axis.image) && axis.padded(0) == axis.image
        });
        let action = match problem.mode() {
            PoolMode::Max => "maximum",
            PoolMode::AverageIncludePadding | PoolMode::AverageExcludePadding => "average",
            PoolMode::Lp => "norm",
        };
        if problem.pool_pass() != PoolPass::Forward || !whole || action == "norm" || problem.index().is_some() {
            let reason = "computes maxima and averages of whole images forward, without padding and index; given ";
            return Err(Refusal::new(format!("{reason}{problem}")));
        }
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
        // Where positions lie together, several of them an access if all planes begin at multiples of one.
        let several = ACCESS_BYTES as i64 / x.dtype().size_bytes() as i64;
        let aligned = [x.strides()[0] * i64::from(n > 1), x.strides()[1] * i64::from(c > 1), positions];
        let (together, vec) = if layout.vec > 1 {
            ("columns", layout.vec)
        } else if step == 1 && aligned.into_iter().all(|number| number % several == 0) {
            ("rows", several)
        } else {
            ("rows", 1)
        };
        let wanted = (action, together, x.dtype(), vec);
        let row = KERNELS.iter().find(|row| (row.1, row.2, row.3, row.4) == wanted);
        let row = row.ok_or_else(|| Refusal::new(format!("has no kernel for {wanted:?}")))?;
        let (channels, chunks, blocks) = if together == "columns" {
            let channels = c / vec;
            let chunks = (channels + i64::from(WHOLE_LANES) - 1) / i64::from(WHOLE_LANES);
            (channels, chunks, n * chunks)
        } else {
            (n * c, c, (n * c + i64::from(WHOLE_PLANES) - 1) / i64::from(WHOLE_PLANES))
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
            unused: 0,
            x: 0,
            y: 0,
            x_strides: [x_tensor.strides[0], x_tensor.strides[1], if together == "rows" { step * vec } else { step }],
            y_strides: [y_tensor.strides[0], y_tensor.strides[1]],
        };
        Ok(Geometry { row, params, blocks: blocks as u32 })
    }
}
