//! Convolutions of narrow groups on the portable tensor cores: 3 × 3 taps, f16 and bf16, channels last.
//!
//! Groups of 4 to 32 channels, as in ResNeXt, multiply each element so seldom that memory bounds them. The kernels read
//! every pixel once into shared memory and take all taps from there. Groups narrower than 8 channels are padded with
//! zeros, so an infinity or NaN in one of them also reaches its neighbours within 8 channels.
//!
//! `wgrad` is two kernels: blocks add up their share of the positions in f32, and a second kernel adds the shares in a
//! fixed order.

mod geometry;

use super::{ConvPass, ConvProblem};
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread, check_gpu};
use crate::{Context, DType, Error, Problem, Stream};
use geometry::{Device, Geometry};
pub(super) use geometry::{check_copies, judge};
use kernel_abi::ops::conv::grouped_mma::{
    GROUPED_THREADS, GroupedMmaParams, REDUCE_ELEMS, REDUCE_ROWS, SplitReduceParams,
};

/// A row of the kernel list.
struct Row {
    symbol: &'static str,
    pass: &'static str,
    dtype: DType,
    width: u32,
}

macro_rules! rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $width:literal)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            width: $width,
        }),*]
    };
}

const KERNELS: &[Row] = kernel_abi::conv_grouped_mma_kernels!(rows);

macro_rules! partials_rows {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype))),*]
    };
}

const PARTIALS_KERNELS: &[(&str, DType)] = kernel_abi::conv_partials_kernels!(partials_rows);

/// Tiles of pixels in shared memory, for groups of at most 32 channels.
pub(super) struct GroupedMma;

impl Algorithm<ConvProblem> for GroupedMma {
    fn name(&self) -> &'static str {
        "grouped_mma"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let geometry = Geometry::of(problem, device(context)).map_err(Refusal::new)?;
        let dtype = problem.x().dtype();
        KERNELS
            .iter()
            .find(|row| (row.pass, row.dtype, row.width) == (geometry.kernel_pass, dtype, geometry.kernel_width))
            .map(|row| vec![Config(row.symbol)])
            .ok_or_else(|| Refusal::new(format!("has no kernel for {} with {dtype}", geometry.kernel_pass)))
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        /// Channels that are multiplied together.
        const TOGETHER: i64 = 8;
        let groups = problem.groups();
        let narrow = [problem.x(), problem.y()].into_iter().any(|desc| desc.dims()[1] / groups < TOGETHER);
        // Narrower groups have zeros between them.
        if narrow { Spread::Group } else { crate::ops::conv::algorithms::padding_spread(problem) }
    }

    fn workspace_bytes(&self, problem: &ConvProblem, _: Config) -> u64 {
        match problem.conv_pass() {
            ConvPass::Wgrad => geometry::partials_bytes(problem),
            _ => 0,
        }
    }

    fn estimate_us(&self, problem: &ConvProblem, _: Config, context: &Context) -> f64 {
        /// Launch, tables and filters, and the last tile's way out; with the second kernel of `wgrad`.
        const ENDS_US: f64 = 3.5;
        const WGRAD_ENDS_US: f64 = 6.6;
        /// Share of the memory's rate that the tiles' turns of loading and computing leave.
        const MEMORY_SHARE: f64 = 0.63;
        const WGRAD_MEMORY_SHARE: f64 = 0.88;
        /// What blocks that are few wait for, up to so much.
        const WAITING_BYTES: f64 = 6e6;
        const WAITING_US: f64 = 2.5;
        /// Channels of a tile: those that are missing take most of their time.
        const SLICE: f64 = 64.0;
        const MISSING: f64 = 0.85;
        /// Multiply-adds of one multiprocessor in a microsecond, padding with zeros counted; those of `fprop` and `dgrad`
        /// with 32 channels of a group, and of a strided `dgrad` with as many.
        const RATE: f64 = 600_000.0;
        const RATE_OF_32: f64 = 430_000.0;
        const STRIDED_RATE_OF_32: f64 = 290_000.0;
        /// Partial sums are read from the second-level cache.
        const PARTIALS_SHARE: f64 = 2.0;
        // Fitted to times on an H200 (mobilenet's filters a channel, resnext50).
        let info = context.info();
        let wgrad = problem.conv_pass() == ConvPass::Wgrad;
        let group = problem.shape().group_c() as f64;
        let products = problem.flops() / 2.0 * (8.0 / group).max(1.0);
        let (ends, share) = if wgrad { (WGRAD_ENDS_US, WGRAD_MEMORY_SHARE) } else { (ENDS_US, MEMORY_SHARE) };
        let channels = problem.shape().c as f64;
        let missing = (channels / SLICE).ceil() * SLICE / channels - 1.0;
        let memory = problem.bytes() * (1.0 + MISSING * missing) / (info.bytes_per_us * share);
        let strided = problem.conv_pass() == ConvPass::Dgrad && problem.axes().iter().any(|axis| axis.stride > 1);
        let rate = match group as i64 {
            ..=16 => RATE,
            _ if wgrad => RATE,
            _ if strided => STRIDED_RATE_OF_32,
            _ => RATE_OF_32,
        };
        let mut us = memory.max(products / (rate * info.n_units as f64));
        us += (problem.bytes() / WAITING_BYTES).min(WAITING_US);
        if wgrad {
            us += 2.0 * geometry::partials_bytes(problem) as f64 / (PARTIALS_SHARE * info.bytes_per_us);
        }
        ends + us
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let device = device(context);
        let geometry = Geometry::of(problem, device).map_err(|reason| Error::Unsupported {
            problem: problem.to_string(),
            reasons: vec![(self.name().to_owned(), reason)],
        })?;
        let function = context.function(config.0)?;
        // Not this problem's size: plans share the function.
        function.allow_dynamic_shared(device.block_bytes() as usize)?;
        let partials = match problem.conv_pass() {
            ConvPass::Wgrad => Some(Partials::new(problem, geometry.n_partials(), context)?),
            _ => None,
        };
        Ok(Box::new(GroupedLaunch {
            function,
            config: LaunchConfig {
                grid: [geometry.params.slabs * geometry.params.slices, 1, 1],
                block: [GROUPED_THREADS, 1, 1],
                shared_bytes: geometry.smem_bytes,
                ..LaunchConfig::default()
            },
            params: geometry.params,
            pass: problem.conv_pass(),
            partials,
        }))
    }
}

fn device(context: &Context) -> Device {
    let info = context.info();
    Device::new(info.n_units, info.compute_capability)
}

/// A launch whose parameters are complete but for addresses and scalars.
struct GroupedLaunch {
    function: Function,
    config: LaunchConfig,
    params: GroupedMmaParams,
    pass: ConvPass,
    partials: Option<Partials>,
}

impl Launch for GroupedLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let gpu_stream = stream.gpu_stream_for(self.function.name())?;
        let names = match self.pass {
            ConvPass::Fprop => ["x", "w", "y"],
            ConvPass::Dgrad => ["dy", "w", "dx"],
            ConvPass::Wgrad => ["x", "dy", "dw"],
        };
        check_aligned(call, "grouped_mma", "cp_async_mma", names.into_iter().enumerate())?;
        let mut params = self.params;
        params.source = call.address(0);
        (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
        match self.pass {
            ConvPass::Wgrad => {
                params.target = call.address(1);
                params.partials = call.workspace.range().0;
            }
            _ => {
                params.filter = call.address(1);
                params.target = call.address(2);
            }
        }
        launch(&self.function, &self.config, gpu_stream, &params)?;
        match &self.partials {
            Some(partials) => partials.launch(stream, call),
            None => Ok(()),
        }
    }
}

/// Refuses operands whose addresses the copies of an algorithm cannot take; `other` takes any.
pub(super) fn check_aligned(
    call: &Call<'_>,
    algorithm: &str,
    other: &str,
    operands: impl IntoIterator<Item = (usize, &'static str)>,
) -> Result<(), Error> {
    /// What the copies ask of addresses.
    const ALIGN_BYTES: u64 = 16;
    for (operand, name) in operands {
        let address = call.address(operand);
        if !address.is_multiple_of(ALIGN_BYTES) {
            let reason = format!(
                "expected an address that is a multiple of {ALIGN_BYTES} for the algorithm {algorithm} \
                 ({other} takes any), given {address:#x}"
            );
            return Err(Error::bad(ConvProblem::OP, name, reason));
        }
    }
    Ok(())
}

/// The kernel that adds up slabs of partial sums, from the begin of the workspace, to dw.
pub(super) struct Partials {
    function: Function,
    config: LaunchConfig,
    params: SplitReduceParams,
}

impl Partials {
    /// For `slabs` slabs of the elements of a problem's dw, which lies densely.
    pub(super) fn new(problem: &ConvProblem, slabs: u32, context: &Context) -> Result<Self, Error> {
        /// Blocks stride over what is left.
        const MAX_BLOCKS: u64 = 1 << 20;
        let (dtype, n_elems) = (problem.w().dtype(), problem.w().n_elems() as u64);
        let symbol = PARTIALS_KERNELS.iter().find(|row| row.1 == dtype).map(|row| row.0).ok_or_else(|| {
            let reason = format!("has no kernel that adds up partial sums of {dtype}");
            Error::Unsupported { problem: problem.to_string(), reasons: vec![("partials".to_owned(), reason)] }
        })?;
        Ok(Partials {
            function: context.function(symbol)?,
            config: LaunchConfig {
                grid: [n_elems.div_ceil(u64::from(REDUCE_ELEMS)).min(MAX_BLOCKS) as u32, 1, 1],
                block: [REDUCE_ELEMS * REDUCE_ROWS, 1, 1],
                ..LaunchConfig::default()
            },
            params: SplitReduceParams { partials: 0, target: 0, n_elems, slabs, alpha: 1.0, beta: 0.0, unused: 0 },
        })
    }

    /// Queues it, for a call of `wgrad`.
    pub(super) fn launch(&self, stream: &Stream, call: &Call<'_>) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.function.name())?;
        let mut params = self.params;
        params.partials = call.workspace.range().0;
        params.target = call.address(2);
        (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
        launch(&self.function, &self.config, stream, &params)
    }
}
