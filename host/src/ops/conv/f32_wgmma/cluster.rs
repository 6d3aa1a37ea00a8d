//! `wgrad` without a workspace: the blocks of a cluster share the sum of a tile.

use super::wgrad::Sides;
use super::windows::Windows;
use super::{check, check_address, check_problem};
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch};
use crate::ops::conv::im2col_wgmma::{CYCLES_PER_US, Cut, ENDS_US, Positions, WgradView, halves_cycles};
use crate::ops::conv::{ConvPass, ConvProblem};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread};
use crate::{Context, Error, Problem, Stream};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, ConvWgradParams};

/// A kernel, and how many blocks share a sum.
#[derive(Clone, Copy, Debug)]
struct Variant {
    name: &'static str,
    symbol: &'static str,
    tile: ConvTile,
    /// Whether threads read x.
    windows: bool,
    blocks: u32,
}

macro_rules! variants {
    ($symbol:ident, $tile:ident, $windows:literal) => {
        [
            variants!(@$symbol, "", 1, $tile, $windows),
            variants!(@$symbol, "+cluster2", 2, $tile, $windows),
            variants!(@$symbol, "+cluster3", 3, $tile, $windows),
            variants!(@$symbol, "+cluster4", 4, $tile, $windows),
            variants!(@$symbol, "+cluster5", 5, $tile, $windows),
            variants!(@$symbol, "+cluster6", 6, $tile, $windows),
            variants!(@$symbol, "+cluster7", 7, $tile, $windows),
            variants!(@$symbol, "+cluster8", 8, $tile, $windows),
            variants!(@$symbol, "+cluster16", 16, $tile, $windows),
        ]
    };
    (@$symbol:ident, $suffix:literal, $blocks:literal, $tile:ident, $windows:literal) => {
        Variant {
            name: concat!(stringify!($symbol), $suffix),
            symbol: stringify!($symbol),
            tile: kernel_abi::ops::conv::f32_wgmma::$tile,
            windows: $windows,
            blocks: $blocks,
        }
    };
}

macro_rules! rows {
    ($(($symbol:ident, $tile:ident)),* $(,)?) => { &[$(variants!($symbol, $tile, false)),*] };
}

macro_rules! windows_rows {
    ($(($symbol:ident, $tile:ident)),* $(,)?) => { &[$(variants!($symbol, $tile, true)),*] };
}

const KERNELS: &[[Variant; 9]] = kernel_abi::conv_f16x2_cluster_kernels!(rows);
const WINDOWS: &[[Variant; 9]] = kernel_abi::conv_f16x2_windows_kernels!(windows_rows);

/// Numbers of blocks of a tile that are offered: those that promise most.
const OFFERED: usize = 2;

fn variant(config: Config) -> &'static Variant {
    let all = KERNELS.iter().chain(WINDOWS).flatten();
    all.into_iter().find(|variant| variant.name == config.0).expect("configs come from the kernel lists")
}

/// `wgrad` of f32 without copies and partial sums.
pub(in crate::ops::conv) struct Cluster;

impl Algorithm<ConvProblem> for Cluster {
    fn name(&self) -> &'static str {
        "f16x2_wgmma_cluster"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        if problem.conv_pass() != ConvPass::Wgrad {
            return Err(Refusal::new(format!("computes wgrad, the pass is {}", problem.conv_pass())));
        }
        check(problem, context)?;
        let ways = Ways::of(problem)?;
        let kernels = ways.gathered.iter().flat_map(|_| KERNELS).chain(ways.windows.iter().flat_map(|_| WINDOWS));
        let mut configs = Vec::new();
        for variants in kernels {
            let view = ways.view(&variants[0]);
            if !fits(view, &variants[0]) {
                continue;
            }
            let mut sensible: Vec<_> = variants
                .iter()
                .filter(|variant| u64::from(variant.blocks) <= view.k_blocks())
                .filter(|variant| variant.blocks == 1 || context.active_clusters(variant.blocks) > 0)
                .map(|variant| (time_us(view, variant, context), variant.name))
                .collect();
            sensible.sort_by(|a, b| a.0.total_cmp(&b.0));
            configs.extend(sensible.into_iter().take(OFFERED).map(|(_, name)| Config(name)));
        }
        if configs.is_empty() {
            let shape = problem.shape();
            let (groups, k, c) = (shape.groups, shape.group_k(), shape.group_c());
            return Err(Refusal::new(format!(
                "counts up to 2^24 tiles, given {groups} groups of {k} and {c} channels"
            )));
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
        let variant = variant(config);
        Ways::of(problem).map_or(f64::INFINITY, |ways| time_us(ways.view(variant), variant, context))
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let variant = variant(config);
        let ways = Ways::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let tile = variant.tile;
        let shared_bytes = if variant.windows { tile.windows_smem_bytes() } else { tile.smem_bytes() };
        let function = context.function(variant.symbol)?;
        function.allow_dynamic_shared(shared_bytes as usize)?;
        function.allow_large_clusters()?;
        let view = ways.view(variant);
        Ok(Box::new(ClusterLaunch {
            function,
            config: LaunchConfig {
                grid: [view.tiles(tile) as u32 * variant.blocks, 1, 1],
                block: [tile.threads(), 1, 1],
                shared_bytes,
                cluster: Some([variant.blocks, 1, 1]),
                programmatic: true,
                ..LaunchConfig::default()
            },
            params: view.params(tile, Cut::Splits(variant.blocks.into())),
            windows: variant.windows,
            ways,
        }))
    }
}

/// How a problem's x can be read: at least one of the two.
#[derive(Debug)]
pub(super) struct Ways {
    /// By the copy engine.
    pub(super) gathered: Option<WgradView>,
    /// By threads: where the copy engine cannot, or would fill up few channels to many.
    pub(super) windows: Option<Windows>,
}

impl Ways {
    pub(super) fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        /// Channels of a panel, which the copy engine fills up to.
        const FEW: i64 = 32;
        check_problem(problem)?;
        let dy = Positions::of("dy", problem.y(), false)?;
        if dy.linear_stride().is_none() {
            let given = problem.y().strides();
            let reason = format!("needs dy with positions one behind the other, its strides are {given:?}");
            return Err(Refusal::new(reason));
        }
        let gathered =
            Positions::of("x", problem.x(), false).and_then(|_| Sides::with(problem, None)).map(|sides| sides.view);
        let few = problem.shape().group_c() < FEW;
        let windows = if few || gathered.is_err() { Some(Windows::of(problem, dy)) } else { None };
        match (gathered, windows) {
            (Err(gathered), Some(Err(windows))) => Err(Refusal::new(format!("{}; {}", gathered.0, windows.0))),
            (gathered, windows) => Ok(Ways { gathered: gathered.ok(), windows: windows.and_then(Result::ok) }),
        }
    }

    fn view(&self, variant: &Variant) -> &WgradView {
        let windows = self.windows.as_ref().filter(|_| variant.windows).map(|windows| &windows.view);
        windows.or(self.gathered.as_ref()).expect("there is a view for every kernel that is offered")
    }
}

/// Whether a tile is no larger than it needs to be.
fn fits(view: &WgradView, variant: &Variant) -> bool {
    let tile = variant.tile;
    let columns = u64::from(tile.gemm_n / tile.panel_k);
    let rows = tile.gemm_m == 64 || view.group_k > 64;
    rows && (columns <= 2 || view.n_panels(tile) > 2) && view.tiles(tile) < 1 << 24
}

/// Time of a run.
fn time_us(view: &WgradView, variant: &Variant, context: &Context) -> f64 {
    /// Instructions of a thread for what it takes apart: of an element by the copy engine, of one that it reads itself,
    /// and of a stage besides.
    const GATHERED: f64 = 10.0;
    const READ: f64 = 20.0;
    const OF_STAGE: f64 = 80.0;
    /// Instructions of a consumer on a scheduler for a stage.
    const OF_CONSUMER: f64 = 200.0;
    /// Instructions of a scheduler in a cycle.
    const ISSUED: f64 = 0.7;
    /// Cycles from a tile's first load to its first product, and from its last product to its last store.
    const ENDS: f64 = 3000.0;
    /// Cycles for a meeting of a cluster, and for a column of its sums that others send.
    const MEETING: f64 = 1500.0;
    const SENT: f64 = 20.0;
    /// Bytes from memory in a microsecond, and those that a block at work loads of them.
    const MEMORY: f64 = 4.0e6;
    const OF_BLOCK: f64 = 56e3;
    let tile = variant.tile;
    let blocks = u64::from(variant.blocks);
    let of_element = if variant.windows { READ } else { GATHERED };
    let converter = f64::from(tile.gemm_n * 32 / 128) * of_element + OF_STAGE / f64::from(tile.filter_teams());
    let instructions = converter + OF_CONSUMER * f64::from(tile.sharers());
    let stage = halves_cycles(tile).max(instructions / ISSUED);
    let active = if blocks > 1 { context.active_clusters(variant.blocks) } else { context.info().n_units as u64 };
    let rounds = view.tiles(tile).div_ceil(active.max(1)) as f64;
    let exchange = if blocks > 1 { MEETING + SENT * f64::from(tile.gemm_n) } else { 0.0 };
    let each = view.k_blocks().div_ceil(blocks) as f64 * stage + ENDS + exchange;
    let at_work = (active.min(view.tiles(tile)) * blocks) as f64;
    let elements = view.x.count() * view.x.channels + view.dy.count() * view.dy.channels;
    let bytes = 4.0 * elements as f64;
    ENDS_US + (rounds * each / CYCLES_PER_US).max(bytes / MEMORY.min(at_work * OF_BLOCK))
}

/// A launch that is complete but for addresses, and so maps, and scalars.
struct ClusterLaunch {
    function: Function,
    config: LaunchConfig,
    params: ConvWgradParams,
    windows: bool,
    ways: Ways,
}

impl Launch for ClusterLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let gpu_stream = stream.gpu_stream_for(self.function.name())?;
        let context = gpu_stream.context();
        let [x, dy, dw] = [0, 1, 2].map(|operand| call.address(operand));
        check_address("dy", dy)?;
        let (alpha, beta) = (call.alpha as f32, call.beta as f32);
        let params = ConvWgradParams { dw, alpha, beta, ..self.params };
        let windows = self.ways.windows.as_ref().filter(|_| self.windows);
        match (windows, &self.ways.gathered) {
            (Some(windows), _) => {
                launch(&self.function, &self.config, gpu_stream, &windows.params(context, params, [x, dy])?)
            }
            (None, Some(view)) => {
                check_address("x", x)?;
                let [dy_map, x_map] = view.maps(context, view.width(), x, dy)?;
                launch(&self.function, &self.config, gpu_stream, &ConvWgradParams { dy_map, x_map, ..params })
            }
            (None, None) => {
                let reason = format!("a view for {}", self.function.name());
                Err(Error::bad(ConvProblem::OP, "x", reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_variants() {
        for each in KERNELS.iter().chain(WINDOWS).flatten() {
            let found = variant(Config(each.name));
            assert_eq!((found.symbol, found.blocks, found.windows), (each.symbol, each.blocks, each.windows));
            let (m, n) = (each.tile.gemm_m, each.tile.gemm_n);
            let what = if each.windows { "windows" } else { "cluster" };
            assert_eq!(each.symbol, format!("convf16x2_{what}_f32_{m}x{n}_sm90"));
            // The sums lie where the stages were.
            assert!(each.tile.partials() * 4 <= each.tile.panels_at());
        }
    }
}
