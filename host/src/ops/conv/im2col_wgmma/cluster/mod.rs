//! Few tiles, as at small batches: the blocks of a cluster share the sum of a tile.

mod cost;
mod launch;

use super::ELEMENT_BYTES;
use super::gather::View;
use super::tensors::Positions;
use super::wgrad::WgradView;
use crate::ops::conv::{ConvPass, ConvProblem};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, Spread, check_hopper};
use crate::{Context, DType, Error, Problem};
use cost::{Room, Shape, Work, misaligned};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, access};
use launch::{GatherLaunch, WgradLaunch};

/// A kernel, and how many blocks share a sum.
#[derive(Clone, Copy, Debug)]
struct Variant {
    name: &'static str,
    symbol: &'static str,
    pass: &'static str,
    dtype: DType,
    tile: ConvTile,
    splits: u32,
}

macro_rules! gather_rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $tile:ident)),* $(,)?) => {
        &[$(variants!($symbol, stringify!($pass), $dtype, $tile)),*]
    };
}

macro_rules! wgrad_rows {
    ($(($symbol:ident, $dtype:ident, $tile:ident)),* $(,)?) => {
        &[$(variants!($symbol, "wgrad", $dtype, $tile)),*]
    };
}

macro_rules! variants {
    ($symbol:ident, $pass:expr, $dtype:ident, $tile:ident) => {
        [
            variant!(stringify!($symbol), 1, $symbol, $pass, $dtype, $tile),
            variant!(concat!(stringify!($symbol), "+cluster2"), 2, $symbol, $pass, $dtype, $tile),
            variant!(concat!(stringify!($symbol), "+cluster4"), 4, $symbol, $pass, $dtype, $tile),
            variant!(concat!(stringify!($symbol), "+cluster8"), 8, $symbol, $pass, $dtype, $tile),
        ]
    };
}

macro_rules! variant {
    ($name:expr, $splits:literal, $symbol:ident, $pass:expr, $dtype:ident, $tile:ident) => {
        Variant {
            name: $name,
            symbol: stringify!($symbol),
            pass: $pass,
            dtype: kernel_abi::dtype_of!($dtype),
            tile: kernel_abi::ops::conv::im2col_cluster::$tile,
            splits: $splits,
        }
    };
}

const GATHER_VARIANTS: &[[Variant; 4]] = kernel_abi::conv_cluster_gather_kernels!(gather_rows);
const WGRAD_VARIANTS: &[[Variant; 4]] = kernel_abi::conv_cluster_wgrad_kernels!(wgrad_rows);

fn variants() -> impl Iterator<Item = &'static Variant> {
    GATHER_VARIANTS.iter().chain(WGRAD_VARIANTS).flatten()
}

fn variant(config: Config) -> &'static Variant {
    variants().find(|variant| variant.name == config.0).expect("configs come from the kernel lists")
}

/// All passes of channels-last tensors of 16-bit types.
pub(in crate::ops::conv) struct Cluster;

impl Algorithm<ConvProblem> for Cluster {
    fn name(&self) -> &'static str {
        "im2col_wgmma_cluster"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        let operation = Operation::of(problem)?;
        let (n_units, dtype) = (context.info().n_units as u64, problem.x().dtype());
        let of_pass = |variant: &&Variant| variant.pass == problem.pass() && variant.dtype == dtype;
        let fitting: Vec<_> = variants().filter(of_pass).filter(|variant| operation.fits(variant.tile)).collect();
        if fitting.is_empty() {
            let shape = problem.shape();
            let (k, c) = (shape.group_k(), shape.group_c());
            return Err(Refusal::new(format!("takes groups of multiples of 64 channels, given {k} and {c}")));
        }
        let works = fitting.iter().map(|variant| (variant, operation.work(variant)));
        let configs: Vec<_> = works
            .clone()
            .filter(|(_, work)| work.is_sensible(n_units))
            .map(|(variant, _)| Config(variant.name))
            .collect();
        if configs.is_empty() {
            let tiles = works.map(|(_, work)| work.blocks).min().unwrap_or(0);
            let most = Work::most_tiles(n_units);
            return Err(Refusal::new(format!("is for up to {most} tiles, given {tiles}")));
        }
        Ok(configs)
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        crate::ops::conv::algorithms::padding_spread(problem)
    }

    fn workspace_bytes(&self, _: &ConvProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let Ok(operation) = Operation::of(problem) else { return f64::INFINITY };
        let variant = variant(config);
        let room = Room { n_units: context.info().n_units as u64, clusters: context.active_clusters(variant.splits) };
        operation.work(variant).time_us(room)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let operation = Operation::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let variant = variant(config);
        let function = context.function(variant.symbol)?;
        function.allow_dynamic_shared(variant.tile.cluster_smem_bytes(variant.tile.stages) as usize)?;
        Ok(match operation {
            Operation::Gather { view, fprop } => Box::new(GatherLaunch::new(function, variant, view, fprop)),
            Operation::Wgrad(view) => Box::new(WgradLaunch::new(function, variant, view)),
        })
    }
}

/// A problem as the kernels see it.
#[derive(Debug)]
enum Operation {
    Gather { view: View, fprop: bool },
    Wgrad(WgradView),
}

impl Operation {
    fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        if problem.conv_pass() != ConvPass::Wgrad {
            let fprop = problem.conv_pass() == ConvPass::Fprop;
            let view = View::of(problem)?;
            if view.out_access == access::PLANES {
                let name = if fprop { "y" } else { "dx" };
                return Err(Refusal::new(format!("writes {name} channels-last, its channels are planes")));
            }
            if let Some(planes) = view.planes.filter(|planes| planes.store_bytes < 8) {
                let (name, given) = (if fprop { "y" } else { "dx" }, planes.store_bytes);
                let reason =
                    format!("writes channels by 4, channels and strides of {name} allow {given} bytes at a time");
                return Err(Refusal::new(reason));
            }
            return Ok(Operation::Gather { view, fprop });
        }
        let group_c = problem.shape().group_c();
        let view = WgradView::of(problem)?;
        if (group_c | view.dw.tap_stride | view.dw.k_stride) % 4 != 0 {
            let (tap, k) = (view.dw.tap_stride, view.dw.k_stride);
            let reason = format!("writes channels by 4, a group of dw has {group_c}, its strides are {tap} and {k}");
            return Err(Refusal::new(reason));
        }
        Ok(Operation::Wgrad(view))
    }

    fn fits(&self, tile: ConvTile) -> bool {
        match self {
            Operation::Gather { view, .. } => view.fits(tile),
            Operation::Wgrad(view) => view.fits(tile),
        }
    }

    /// Tiles of each class, and how many panels each has.
    fn tiles(&self, tile: ConvTile) -> Vec<(u64, u64)> {
        match self {
            Operation::Gather { view, .. } => view.classes.iter().map(|class| view.tiles_of(class, tile)).collect(),
            Operation::Wgrad(view) => vec![(view.tiles(tile), view.k_blocks())],
        }
    }

    fn work(&self, variant: &Variant) -> Work {
        Work::new(variant.tile, variant.splits, &self.tiles(variant.tile), self.shape(variant.tile))
    }

    fn shape(&self, tile: ConvTile) -> Shape {
        let of = |positions: &Positions| (positions.image_stride.max(1) * positions.images) as f64;
        match self {
            Operation::Gather { view, .. } => {
                let filter = view.filter.n_taps() * view.filter.k * view.filter.group_c;
                Shape {
                    wgrad: false,
                    bytes: ELEMENT_BYTES as f64 * (of(&view.read) + of(&view.written) + filter as f64),
                    misaligned: [misaligned(&view.read), 0.0],
                    empty_columns: view.group_written * 2 <= i64::from(tile.gemm_n),
                }
            }
            Operation::Wgrad(view) => Shape {
                wgrad: true,
                bytes: ELEMENT_BYTES as f64 * (of(&view.x) + of(&view.dy)),
                misaligned: [misaligned(&view.dy), misaligned(&view.x)],
                empty_columns: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_variants() {
        for each in variants() {
            let found = variant(Config(each.name));
            assert_eq!((found.symbol, found.splits), (each.symbol, each.splits));
            let (m, n) = (each.tile.gemm_m, each.tile.gemm_n);
            let deep = if each.tile.is_alone() { format!("_s{}", each.tile.stages) } else { String::new() };
            assert_eq!(each.symbol, format!("convcluster_{}_wgmma_{}_{m}x{n}{deep}_sm90", each.pass, each.dtype));
            assert!(each.splits <= each.tile.units());
        }
    }
}
