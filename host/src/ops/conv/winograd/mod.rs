//! f32 convolution with 3 × 3 taps by minimal filtering, see [`kernel_abi::ops::conv::winograd`]: tiles and filter are
//! transformed into the workspace, multiplied as a convolution of one tap whose groups are the elements of a transformed
//! tile, and the sums transformed into results; for `wgrad` images and gradients are, and the sums are the filter's.
//!
//! F(2 × 2) multiplies 4/9 as often as a direct method and has none of error more, F(4 × 4) a quarter as often and has two
//! to three times the error: that is for problems that permit it. The transforms are bound by memory: it pays where there are many channels. So that the workspace
//! stays small, tiles are taken in turns (`+chunks`), each of which goes all the way to the results.

mod forward;
mod geometry;
mod variants;
mod wgrad;

pub(super) use variants::{NCHW_NAMES, Tile};

use super::f32_wgmma::{Gather, Product};
use super::ffma::Ffma;
use super::{ConvPass, ConvProblem};
use crate::driver::Function;
use crate::launch::{KernelParams, LaunchConfig, launch, linear_grid};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, Spread, check_gpu, check_hopper};
use crate::{Context, Error, Math, Stream};
use forward::Forward;
use geometry::Geometry;
use variants::{Method, Variant};
use wgrad::Gradient;

macro_rules! symbols {
    ($(($symbol:ident, $what:ident, $params:ident, $tile:ident)),* $(,)?) => {
        &[$((stringify!($symbol), stringify!($what), Tile::$tile)),*]
    };
}

/// Symbol, what it does, of which tile.
const CHAINED: &[(&str, &str, Tile)] = kernel_abi::conv_winograd_sm90_kernels!(symbols);
const ALONE: &[(&str, &str, Tile)] = kernel_abi::conv_winograd_kernels!(symbols);

/// Threads of a block.
const BLOCK: u32 = 128;

/// Bytes of the transformed tiles of a turn, at most: one config is offered for each, since callers limit the workspace.
const BOUNDS: [u64; 4] = [1 << 30, 256 << 20, 32 << 20, 4 << 20];

/// Minimal filtering in tiles of one size, for f32.
pub(super) struct Winograd(pub(super) Tile);

impl Algorithm<ConvProblem> for Winograd {
    fn name(&self) -> &'static str {
        match self.0 {
            Tile::F2 => "winograd",
            Tile::F4 => "winograd_4x4",
        }
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let scalar = Geometry::of(problem, self.0, Method::Ffma)?;
        check_math(problem, self.0)?;
        let hopper = check_hopper(context).is_ok();
        let mut configs = Vec::new();
        if hopper {
            let geometry = Geometry::of(problem, self.0, Method::Parts)?;
            configs.extend(offered(&geometry, products(problem, Method::Parts), &BOUNDS, context)?);
        }
        let bounds = if hopper { &BOUNDS[..1] } else { &BOUNDS[..] };
        configs.extend(offered(&scalar, products(problem, Method::Ffma), bounds, context)?);
        if configs.is_empty() {
            let most = BOUNDS[0];
            return Err(Refusal::new(format!("takes tiles in turns of less than {most} bytes, 128 tiles have more")));
        }
        Ok(configs)
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        match problem.conv_pass() {
            // Transforms mix all positions of a tile.
            ConvPass::Fprop | ConvPass::Dgrad => Spread::Tile,
            // And the sum over tiles all taps of a channel.
            ConvPass::Wgrad => Spread::Channel,
        }
    }

    /// Where the larger tiles are permitted, it is by name.
    fn is_asked_for(&self, _: &ConvProblem, _: Config) -> bool {
        self.0 == Tile::F4
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        let variant = variants::chosen(config);
        let Ok(geometry) = Geometry::of(problem, variant.tile, variant.method) else { return 0 };
        let tiles_end = geometry.layout(geometry.chunk_tiles(variant.chunks))[2];
        if geometry.wgrad { tiles_end + wgrad::product_bytes(&geometry, variant) } else { tiles_end }
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let variant = variants::chosen(config);
        Geometry::of(problem, variant.tile, variant.method)
            .map_or(f64::INFINITY, |geometry| estimate_us(&geometry, variant, context))
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let variant = variants::chosen(config);
        let geometry = Geometry::of(problem, variant.tile, variant.method);
        let geometry = geometry.map_err(|refusal| refusal.into_error(self.name(), problem))?;
        Ok(if geometry.wgrad {
            Box::new(Gradient::new(geometry, variant, context)?)
        } else {
            Box::new(Forward::new(geometry, variant, context)?)
        })
    }
}

/// Refuses a tile whose error the problem does not permit.
fn check_math(problem: &ConvProblem, tile: Tile) -> Result<(), Refusal> {
    let math = problem.math();
    if tile == Tile::F4 && math < Math::Winograd4x4 {
        return Err(Refusal::new(format!(
            "has two to three times the error of sums of products, which takes math={} or math={}, given math={math}",
            Math::Winograd4x4,
            Math::Tf32
        )));
    }
    Ok(())
}

/// Whose kernels multiply.
fn products(problem: &ConvProblem, method: Method) -> &'static dyn Algorithm<ConvProblem> {
    match (problem.conv_pass(), method) {
        (ConvPass::Wgrad, _) => wgrad::products(method),
        (_, Method::Parts) => &Gather,
        (_, Method::Ffma) => &Ffma,
    }
}

/// A kernel that transforms.
struct Transform {
    function: Function,
    /// Whether it may start before those in front of it have ended.
    chained: bool,
}

impl Transform {
    fn new(what: &str, variant: &Variant, context: &Context) -> Result<Self, Error> {
        let chained = variant.method == Method::Parts;
        let rows = if chained { CHAINED } else { ALONE };
        let fits = |row: &&(&'static str, &str, Tile)| row.1 == what && row.2 == variant.tile;
        let symbol = rows.iter().find(fits).expect("the kernel list has a row for each").0;
        Ok(Transform { function: context.function(symbol)?, chained })
    }

    /// Queues it for so many pairs of channels.
    fn queue<P: KernelParams>(&self, n: u32, stream: &Stream, params: &P) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.function.name())?;
        let config = LaunchConfig { programmatic: self.chained, ..linear_grid(n.into(), BLOCK) };
        launch(&self.function, &config, stream, params)
    }
}

/// The variants of a tile that are worth a look: of the best kernel, one for each bound of the workspace.
fn offered(
    geometry: &Geometry,
    products: &dyn Algorithm<ConvProblem>,
    bounds: &[u64],
    context: &Context,
) -> Result<Vec<Config>, Refusal> {
    // A problem whose products can be counted.
    let most = geometry.chunk_tiles(128);
    let mut inner = products.configs(&geometry.product(most)?, context)?;
    let first = |inner: Config| variants::of(inner, geometry.tile).next();
    let whole_us = |inner: &Config| first(*inner).map_or(f64::INFINITY, |one| estimate_us(geometry, one, context));
    inner.sort_by(|a, b| whole_us(a).total_cmp(&whole_us(b)));
    let mut configs: Vec<Config> = Vec::new();
    for &bound in bounds {
        let fits = |variant: &&Variant| {
            let tiles = geometry.chunk_tiles(variant.chunks);
            let [images, sums] = geometry.tile_bytes(tiles);
            images.saturating_add(sums) <= bound
                && geometry.product(tiles).is_ok_and(|product| products.configs(&product, context).is_ok())
        };
        if let Some(variant) = inner.first().and_then(|&inner| variants::of(inner, geometry.tile).find(fits))
            && configs.last() != Some(&Config(variant.name))
        {
            configs.push(Config(variant.name));
        }
    }
    Ok(configs)
}

/// Time of all kernels, one after the other.
fn estimate_us(geometry: &Geometry, variant: &Variant, context: &Context) -> f64 {
    /// Launching and ending a kernel within a chain.
    const LAUNCH_US: f64 = 2.0;
    /// Share of the memory's rate that the transforms reach.
    const MEMORY_SHARE: f64 = 0.85;
    const FILTER_SHARE: f64 = 0.5;
    /// What stays in the second-level cache, and how much faster it is than the memory.
    const CACHED_BYTES: f64 = 24e6;
    const CACHE_RATE: f64 = 1.5;
    let (chunk, all) = (geometry.chunk_tiles(variant.chunks), geometry.n_tiles());
    let Ok(product) = geometry.product(chunk) else { return f64::INFINITY };
    let [images, sums] = geometry.tile_bytes(chunk).map(|bytes| bytes as f64);
    let rate = context.info().bytes_per_us;
    let scratch_rate = if images + sums < CACHED_BYTES { CACHE_RATE * rate } else { rate };
    let products_us = match variant.method {
        _ if geometry.wgrad => wgrad::products(variant.method).estimate_us(&product, Config(variant.inner), context),
        Method::Parts => match Product::cost(&product, Config(variant.inner), context) {
            Some((us, _)) => us,
            None => return f64::INFINITY,
        },
        Method::Ffma => Ffma.estimate_us(&product, Config(variant.inner), context),
    };
    // Products hide most of the memory traffic, or the other way around.
    let traffic_us = (images + sums) / scratch_rate;
    let multiplied_us = products_us.max(traffic_us) + 0.2 * products_us.min(traffic_us);
    let turns = all as f64 / chunk as f64;
    let transformed_us = turns * (images + sums) / scratch_rate + geometry.image_bytes.iter().sum::<f64>() / rate;
    let filter_bytes = 4.0 * geometry.filter_elems as f64 + geometry.filter_bytes() as f64;
    let filter_us = LAUNCH_US + filter_bytes / (FILTER_SHARE * rate);
    filter_us + turns * multiplied_us + turns.ceil() * 2.0 * LAUNCH_US + transformed_us / MEMORY_SHARE
}

#[cfg(test)]
mod tests;
