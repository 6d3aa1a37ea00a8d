//! Convolution as a matrix product on the portable tensor cores, gathered by `cp.async`: f16 and bf16, channels last,
//! any numbers of channels, groups and taps.
//!
//! A copy is of 8, 4, 2 or 1 elements: the most that divides the channels of a group and, in each run, the addresses.
//! `dgrad` with a stride computes each class of positions of dx with the taps that meet it, so that no product is with
//! an inserted zero. `wgrad` is two kernels: blocks add up a slab of pixels in f32, and a second kernel adds the slabs
//! in a fixed order.

mod cost;
pub(super) mod geometry;

use super::grouped_mma::Partials;
use super::{ConvPass, ConvProblem};
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread, check_gpu};
use crate::{Context, DType, Error, Problem, Stream};
use kernel_abi::ops::conv::cp_async_mma::{CpAsyncMmaParams, CpAsyncTile};

/// A row of the kernel list.
struct Row {
    symbol: &'static str,
    pass: &'static str,
    dtype: DType,
    tile: CpAsyncTile,
    copy_elems: u32,
}

macro_rules! rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $size:literal, $copy:literal)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            tile: CpAsyncTile::new($size, 2),
            copy_elems: $copy,
        }),*]
    };
}

const KERNELS: &[Row] = kernel_abi::conv_cp_async_mma_kernels!(rows);

fn row(config: Config) -> &'static Row {
    KERNELS.iter().find(|row| row.symbol == config.0).expect("configs come from the kernel list")
}

/// Gathered operands in a ring of stages.
pub(super) struct CpAsyncMma;

impl Algorithm<ConvProblem> for CpAsyncMma {
    fn name(&self) -> &'static str {
        "cp_async_mma"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let dtype = problem.x().dtype();
        if !matches!(dtype, DType::BF16 | DType::F16) {
            return Err(Refusal::new(format!("has kernels for f16 and bf16, the element type is {dtype}")));
        }
        geometry::judge(problem).map_err(Refusal::new)?;
        let copy_elems = geometry::copy_elems(problem);
        Ok(KERNELS
            .iter()
            .filter(|row| row.pass == problem.pass() && row.dtype == problem.x().dtype())
            .filter(|row| row.copy_elems == copy_elems)
            .map(|row| Config(row.symbol))
            .collect())
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        crate::ops::conv::algorithms::padding_spread(problem)
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        match problem.conv_pass() {
            ConvPass::Wgrad => {
                let slabs = geometry::params(problem, row(config).tile).slabs;
                u64::from(slabs) * problem.w().n_elems() as u64 * 4
            }
            _ => 0,
        }
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let row = row(config);
        let partials = self.workspace_bytes(problem, config) as f64;
        cost::estimate_us(problem, &geometry::params(problem, row.tile), row, partials, context.info())
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let row = row(config);
        let kernel = |row: &Row, params: CpAsyncMmaParams| -> Result<Kernel, Error> {
            let shared_bytes = row.tile.smem_bytes(params.taps(), problem.conv_pass());
            let function = context.function(row.symbol)?;
            // Not this problem's size: plans share the function.
            function.allow_dynamic_shared(MAX_SHARED_BYTES as usize)?;
            Ok(Kernel {
                function,
                config: LaunchConfig {
                    grid: [geometry::blocks(&params) as u32, 1, 1],
                    block: [row.tile.threads(), 1, 1],
                    shared_bytes,
                    ..LaunchConfig::default()
                },
                params,
                align_bytes: 2 * u64::from(row.copy_elems),
            })
        };
        let single = KERNELS
            .iter()
            .find(|other| (other.pass, other.dtype, other.copy_elems) == (row.pass, row.dtype, 1))
            .expect("every pass and type has a kernel that copies single elements");
        let main_params = geometry::params(problem, row.tile);
        let single_params = CpAsyncMmaParams {
            // The workspace is that of the chosen kernel.
            slabs: main_params.slabs,
            slab_pixels: main_params.slab_pixels,
            ..geometry::params(problem, single.tile)
        };
        let partials = match problem.conv_pass() {
            ConvPass::Wgrad => Some(Partials::new(problem, main_params.slabs, context)?),
            _ => None,
        };
        Ok(Box::new(CpAsyncLaunch {
            main: kernel(row, main_params)?,
            single: kernel(single, single_params)?,
            pass: problem.conv_pass(),
            partials,
        }))
    }
}

/// The most dynamic shared memory that a block may have on every supported device.
pub(super) const MAX_SHARED_BYTES: u32 = 99 * 1024;

/// A kernel with its parameters, complete but for addresses and scalars.
struct Kernel {
    function: Function,
    config: LaunchConfig,
    params: CpAsyncMmaParams,
    align_bytes: u64,
}

/// The chosen kernel, and the one that takes any addresses.
struct CpAsyncLaunch {
    main: Kernel,
    single: Kernel,
    pass: ConvPass,
    partials: Option<Partials>,
}

impl Launch for CpAsyncLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        /// What two elements that are written as one ask of an address.
        const PAIR_BYTES: u64 = 4;
        let addresses = [call.address(0), call.address(1), call.address(2)];
        let aligned = addresses.iter().all(|address| address.is_multiple_of(self.main.align_bytes));
        let kernel = if aligned { &self.main } else { &self.single };
        let name = kernel.function.name();
        let gpu_stream = stream.gpu_stream_for(name)?;
        let mut params = kernel.params;
        params.source = addresses[0];
        if self.pass == ConvPass::Wgrad {
            params.target = addresses[1];
            params.partials = call.workspace.range().0;
        } else {
            params.filter = addresses[1];
            params.target = addresses[2];
        }
        params.wide_stores &= u32::from(params.target.is_multiple_of(PAIR_BYTES));
        (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
        launch(&kernel.function, &kernel.config, gpu_stream, &params)?;
        match &self.partials {
            Some(partials) => partials.launch(stream, call),
            None => Ok(()),
        }
    }
}
