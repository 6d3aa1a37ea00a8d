//! f32 convolution on tf32 tensor cores with the error of f32 arithmetic, and without a workspace: every element is the
//! sum of two tf32 numbers, and three of the four products of parts are summed. Channels last, any numbers of channels,
//! groups and taps; gathered as [`cp_async_mma`] gathers, whose geometry and parameters these are.
//!
//! A copy is of 4, 2 or 1 elements: the most that divides what a thread's copies run along and, in each run, the addresses.
//! Large tiles have copies of 4; in runs whose addresses do not allow them, small tiles take their place.
//! A strided `dgrad` is a product for each class of positions of dx that meet the same taps; with few channels the classes
//! are columns of one product, beside each other, with zeros where a class has no tap at a distance that another has.
//!
//! `wgrad` has few tiles and long sums. On compute capability 9.0 the blocks of a cluster share the sum of a tile
//! (`+cluster4`); elsewhere, and where there is a workspace, blocks leave partial sums there, which a second kernel adds up
//! in a fixed order (`+slabs`); without, a block adds up all positions.

mod cost;

use super::cp_async_mma::{self, geometry};
use super::grouped_mma::Partials;
use super::{ConvPass, ConvProblem};
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread, check_gpu};
use crate::{Context, DType, Error, Problem, Stream};
use kernel_abi::ops::conv::cp_async_mma::{CpAsyncMmaParams, CpAsyncTile};

/// Who adds up the sum over positions of `wgrad`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cut {
    /// One block, as in the other passes.
    Whole,
    /// The blocks of a cluster.
    Cluster(u32),
    /// A second kernel, from the workspace.
    Slabs,
}

/// A kernel, and how its sums are cut.
#[derive(Clone, Copy, Debug)]
struct Variant {
    name: &'static str,
    symbol: &'static str,
    pass: &'static str,
    tile: CpAsyncTile,
    cut: Cut,
}

macro_rules! variant {
    ($symbol:ident, $suffix:literal, $size:literal, $blocks:literal) => {
        Variant {
            // Two groups of warps share the terms of a small tile.
            tile: CpAsyncTile { depth: if $size == 64 { 2 } else { 1 }, ..CpAsyncTile::new($size, 4) },
            ..variant!($symbol, $suffix, "wgrad", $size, Cut::Cluster($blocks))
        }
    };
    ($symbol:ident, $suffix:literal, $pass:expr, $size:literal, $cut:expr) => {
        Variant {
            name: concat!(stringify!($symbol), $suffix),
            symbol: stringify!($symbol),
            pass: $pass,
            tile: CpAsyncTile::new($size, 4),
            cut: $cut,
        }
    };
}

macro_rules! rows {
    ($(($symbol:ident, $pass:ident, $size:literal)),* $(,)?) => {
        &[$([
            variant!($symbol, "", stringify!($pass), $size, Cut::Whole),
            variant!($symbol, "+slabs", stringify!($pass), $size, Cut::Slabs),
        ]),*]
    };
}

macro_rules! cluster_rows {
    ($(($symbol:ident, $size:literal)),* $(,)?) => {
        &[$([
            variant!($symbol, "+cluster2", $size, 2),
            variant!($symbol, "+cluster3", $size, 3),
            variant!($symbol, "+cluster4", $size, 4),
            variant!($symbol, "+cluster5", $size, 5),
            variant!($symbol, "+cluster6", $size, 6),
            variant!($symbol, "+cluster7", $size, 7),
            variant!($symbol, "+cluster8", $size, 8),
        ]),*]
    };
}

const VARIANTS: &[[Variant; 2]] = kernel_abi::conv_tf32x3_mma_kernels!(rows);
const CLUSTER_VARIANTS: &[[Variant; 7]] = kernel_abi::conv_tf32x3_cluster_kernels!(cluster_rows);

/// All of them; sums over anything but positions are never cut.
fn variants() -> impl Iterator<Item = &'static Variant> {
    let plain = VARIANTS.iter().flatten().filter(|variant| variant.cut == Cut::Whole || variant.pass == "wgrad");
    plain.chain(CLUSTER_VARIANTS.iter().flatten())
}

fn variant(config: Config) -> &'static Variant {
    variants().find(|variant| variant.name == config.0).expect("configs come from the kernel lists")
}

/// What computes the same with small tiles.
fn small(large: &Variant) -> &'static Variant {
    let alike = |variant: &&Variant| (variant.pass, variant.cut) == (large.pass, large.cut) && variant.tile.size == 64;
    variants().find(alike).expect("every pass and cut has small tiles")
}

/// The most dynamic shared memory that a block gets: that of every supported device, or of those with large tiles.
fn room(context: &Context) -> u32 {
    match context.info().compute_capability {
        (8, 0) | (9, 0) => LARGE_TILE.smem_bytes(geometry::MAX_TAPS as u32, ConvPass::Fprop),
        _ => cp_async_mma::MAX_SHARED_BYTES,
    }
}

const LARGE_TILE: CpAsyncTile = CpAsyncTile::new(128, 4);

/// All parameters but addresses and scalars, of a problem that the geometry lets pass.
fn params(problem: &ConvProblem, variant: &Variant) -> CpAsyncMmaParams {
    let params = geometry::params(problem, variant.tile);
    let params = match variant.cut {
        Cut::Whole if problem.conv_pass() == ConvPass::Wgrad => geometry::with_slabs(params, 1),
        Cut::Whole if problem.conv_pass() == ConvPass::Dgrad && variant.tile != LARGE_TILE => {
            geometry::with_spread_classes(params, variant.tile)
        }
        Cut::Cluster(blocks) => geometry::with_slabs(params, blocks),
        Cut::Whole | Cut::Slabs => params,
    };
    let length = params.taps() * params.source_group;
    let dividing = |extent: u32| [4, 2].into_iter().find(|&v| extent.is_multiple_of(v)).unwrap_or(1);
    let (other, written) = match problem.conv_pass() {
        ConvPass::Fprop => (length, params.target_group),
        ConvPass::Dgrad => (params.target_group, params.target_group),
        ConvPass::Wgrad => (params.target_group, length),
    };
    CpAsyncMmaParams {
        source_elems: dividing(params.source_group),
        other_elems: if params.spread_classes > 0 { 1 } else { dividing(other) },
        wide_stores: u32::from(written.is_multiple_of(4)),
        ..params
    }
}

/// f32, gathered into a ring of stages.
pub(super) struct Tf32x3Mma;

impl Algorithm<ConvProblem> for Tf32x3Mma {
    fn name(&self) -> &'static str {
        "tf32x3_mma"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        check(problem)?;
        let hopper = context.info().compute_capability == (9, 0);
        let fits = |variant: &&Variant| {
            let params = params(problem, variant);
            let shared = variant.tile.smem_bytes(params.taps(), problem.conv_pass());
            let copies = variant.tile != LARGE_TILE || (params.source_elems, params.other_elems) == (4, 4);
            // A cluster's blocks do what one would, in less time.
            let cut = match variant.cut {
                Cut::Cluster(_) => hopper,
                Cut::Whole => !hopper || problem.conv_pass() != ConvPass::Wgrad,
                Cut::Slabs => true,
            };
            variant.pass == problem.pass() && cut && copies && shared <= room(context)
        };
        let mut chosen: Vec<_> = variants().filter(fits).collect();
        for tile in [64, 128] {
            // Of the clusters of a tile, those that promise most.
            let estimate = |variant: &&Variant| self.estimate_us(problem, Config(variant.name), context);
            let is_cluster = |variant: &&&Variant| variant.tile.size == tile && matches!(variant.cut, Cut::Cluster(_));
            let best = chosen
                .iter()
                .copied()
                .filter(|variant| is_cluster(&variant))
                .min_by(|a, b| estimate(a).total_cmp(&estimate(b)));
            chosen.retain(|variant| !is_cluster(&variant) || best.is_some_and(|best| best.name == variant.name));
        }
        Ok(chosen.into_iter().map(|variant| Config(variant.name)).collect())
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        crate::ops::conv::algorithms::padding_spread(problem)
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        let variant = variant(config);
        match variant.cut {
            Cut::Slabs => u64::from(params(problem, variant).slabs) * problem.w().n_elems() as u64 * 4,
            Cut::Whole | Cut::Cluster(_) => 0,
        }
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let variant = variant(config);
        let partials = self.workspace_bytes(problem, config) as f64;
        cost::estimate_us(problem, &params(problem, variant), variant, partials, context)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let chosen = variant(config);
        let main_params = params(problem, chosen);
        let kernel = |variant: &Variant, params: CpAsyncMmaParams| -> Result<Kernel, Error> {
            let function = context.function(variant.symbol)?;
            // Not this problem's size: plans share the function.
            function.allow_dynamic_shared(room(context) as usize)?;
            let config = LaunchConfig {
                grid: [geometry::blocks(&params) as u32, 1, 1],
                block: [variant.tile.threads(), 1, 1],
                shared_bytes: variant.tile.smem_bytes(params.taps(), problem.conv_pass()),
                cluster: match variant.cut {
                    Cut::Cluster(blocks) => Some([blocks, 1, 1]),
                    Cut::Whole | Cut::Slabs => None,
                },
                ..LaunchConfig::default()
            };
            Ok(Kernel { function, config, params })
        };
        let small = small(chosen);
        let small_params = CpAsyncMmaParams {
            // The workspace is that of the chosen kernel.
            slabs: main_params.slabs,
            slab_pixels: main_params.slab_pixels,
            ..params(problem, small)
        };
        let partials = match chosen.cut {
            Cut::Slabs => Some(Partials::new(problem, main_params.slabs, context)?),
            Cut::Whole | Cut::Cluster(_) => None,
        };
        Ok(Box::new(Tf32x3Launch {
            least_elems: if chosen.tile == LARGE_TILE { 4 } else { 1 },
            main: kernel(chosen, main_params)?,
            small: kernel(small, small_params)?,
            pass: problem.conv_pass(),
            partials,
        }))
    }
}

/// Refuses types, layouts and sizes.
fn check(problem: &ConvProblem) -> Result<(), Refusal> {
    let dtype = problem.x().dtype();
    if dtype != DType::F32 {
        return Err(Refusal::new(format!("has kernels for f32, the element type is {dtype}")));
    }
    geometry::judge(problem).map_err(Refusal::new)
}

/// A kernel with its parameters, complete but for addresses and scalars.
struct Kernel {
    function: Function,
    config: LaunchConfig,
    params: CpAsyncMmaParams,
}

/// The chosen kernel, what its copies are at least, and the one that takes any addresses.
struct Tf32x3Launch {
    main: Kernel,
    least_elems: u32,
    small: Kernel,
    pass: ConvPass,
    partials: Option<Partials>,
}

impl Launch for Tf32x3Launch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        /// What four elements that are written as one ask of an address.
        const VECTOR_BYTES: u64 = 16;
        let [source, other, written] = [0, 1, 2].map(|operand| call.address(operand));
        let allowed = |elems: u32, address: u64| {
            let fits = |v: &u32| *v <= elems && address.is_multiple_of(4 * u64::from(*v));
            [4, 2].into_iter().find(fits).unwrap_or(1)
        };
        let elems =
            |kernel: &Kernel| [allowed(kernel.params.source_elems, source), allowed(kernel.params.other_elems, other)];
        let main = elems(&self.main).into_iter().all(|elems| elems >= self.least_elems);
        let kernel = if main { &self.main } else { &self.small };
        let name = kernel.function.name();
        let gpu_stream = stream.gpu_stream_for(name)?;
        let [source_elems, other_elems] = elems(kernel);
        let (alpha, beta) = (call.alpha as f32, call.beta as f32);
        let mut params = CpAsyncMmaParams { source, source_elems, other_elems, alpha, beta, ..kernel.params };
        let to = if self.pass == ConvPass::Wgrad {
            params.target = other;
            params.partials = written;
            if self.partials.is_some() {
                params.partials = call.workspace.range().0;
                (params.alpha, params.beta) = (1.0, 0.0);
            }
            params.partials
        } else {
            (params.filter, params.target) = (other, written);
            written
        };
        params.wide_stores &= u32::from(to.is_multiple_of(VECTOR_BYTES));
        launch(&kernel.function, &kernel.config, gpu_stream, &params)?;
        match &self.partials {
            Some(partials) => partials.launch(stream, call),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
