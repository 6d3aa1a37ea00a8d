//! `wgrad`.

use super::tensors::{Filter, Positions, Window, check_window};
use super::{CYCLES_PER_US, ENDS_US, check_addresses, check_device, parts_cycles, stage_cycles, tma_type, unsupported};
use crate::driver::{Function, GpuContext, TmaType};
use crate::launch::{LaunchConfig, launch, linear_grid};
use crate::ops::conv::{ConvMode, ConvPass, ConvProblem};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, DType, Error, Stream};
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvTile, ConvWgradParams, ConvWgradSumParams, PANEL, ROW_BYTES, SUM_THREADS, access,
};

/// A row of the kernel list.
pub(in crate::ops::conv) struct WgradRow {
    pub(in crate::ops::conv) symbol: &'static str,
    pub(in crate::ops::conv) dtype: DType,
    pub(in crate::ops::conv) tile: ConvTile,
}

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident, $tile:ident, $cluster:literal)),* $(,)?) => {
        &[$(WgradRow {
            symbol: stringify!($symbol),
            dtype: kernel_abi::dtype_of!($dtype),
            tile: kernel_abi::ops::conv::im2col_wgmma::$tile,
        }),*]
    };
}

macro_rules! sum_rows {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype))),*]
    };
}

pub(in crate::ops::conv) const WGRAD_KERNELS: &[WgradRow] = kernel_abi::conv_im2col_wgrad_kernels!(rows);

/// The kernels that add partial sums.
const SUMS: &[(&str, DType)] = kernel_abi::conv_im2col_sum_kernels!(sum_rows);

/// `wgrad` of channels-last tensors of 16-bit types.
pub(in crate::ops::conv) struct Wgrad;

impl Algorithm<ConvProblem> for Wgrad {
    fn name(&self) -> &'static str {
        "im2col_wgmma_split"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        if problem.conv_pass() != ConvPass::Wgrad {
            return Err(Refusal::new(format!("computes wgrad, the pass is {}", problem.conv_pass())));
        }
        check_device(context)?;
        let view = WgradView::of(problem)?;
        let dtype = problem.x().dtype();
        let fits = |row: &&WgradRow| row.dtype == dtype && view.fits(row.tile);
        Ok(WGRAD_KERNELS.iter().filter(fits).map(|row| Config(row.symbol)).collect())
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        let Ok(view) = WgradView::of(problem) else { return 0 };
        let tile = wgrad_row(config).tile;
        view.partials_bytes(tile)
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, _: &Context) -> f64 {
        let Ok(view) = WgradView::of(problem) else { return f64::INFINITY };
        let tile = wgrad_row(config).tile;
        view.time_us(tile, view.cut(tile))
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let view = WgradView::of(problem).map_err(|refusal| unsupported(problem, refusal))?;
        Ok(Box::new(WgradLaunch(SplitSum::of(problem, view, config, context)?)))
    }
}

/// How the sums of all tiles are shared out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::ops::conv) enum Cut {
    /// Every tile's sum is cut into so many parts.
    Splits(u64),
    /// So many workers take the same number of stages each, one tile after the other (stream-K: Osama et al.,
    /// "Stream-K", PPoPP 2023).
    Evenly {
        /// Clusters.
        workers: u64,
    },
}

/// Blocks at work at once on the devices the kernels run on: the splits, and so the order of the additions and the
/// workspace, are the same on all of them.
pub(in crate::ops::conv) const MULTIPROCESSORS: u64 = 132;

pub(in crate::ops::conv) fn wgrad_row(config: Config) -> &'static WgradRow {
    WGRAD_KERNELS.iter().find(|row| row.symbol == config.0).expect("configs come from the kernel list")
}

/// A problem as the kernels see it.
#[derive(Debug)]
pub(in crate::ops::conv) struct WgradView {
    pub(in crate::ops::conv) data_type: TmaType,
    pub(in crate::ops::conv) x: Positions,
    pub(in crate::ops::conv) dy: Positions,
    /// dw's taps as x has them, and its distances.
    pub(in crate::ops::conv) dw: Filter,
    pub(in crate::ops::conv) groups: i64,
    pub(in crate::ops::conv) group_c: i64,
    pub(in crate::ops::conv) group_k: i64,
    /// Distance in x between neighbouring taps.
    pub(in crate::ops::conv) tap_offset: [i64; 3],
    pub(in crate::ops::conv) flip: bool,
    pub(in crate::ops::conv) x_access: u32,
    pub(in crate::ops::conv) window: Window,
    /// How dw lies when x is packed: channels of a packed position, real ones, and the distances in dw between
    /// channels and between taps along w. Of f32, the distance between channels counts where nothing is packed too.
    pub(in crate::ops::conv) packed: Option<(i64, i64, i64, i64)>,
}

impl WgradView {
    pub(super) fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        let data_type = tma_type(problem.x().dtype())?;
        let shape = problem.shape();
        let x = Positions::of("x", problem.x(), false)?;
        let dy = Positions::of("dy", problem.y(), false)?;
        let dw = Filter::of("dw", problem.w())?;
        if dy.linear_stride().is_none() {
            let given = problem.y().strides();
            let reason = format!("needs dy with positions one behind the other, its strides are {given:?}");
            return Err(Refusal::new(reason));
        }
        // Two neighbouring channels of dw are written together.
        if shape.group_c() % 2 != 0 {
            return Err(Refusal::new(format!("writes channels by 2, a group of dw has {}", shape.group_c())));
        }
        let (c, k) = (shape.group_c(), shape.group_k());
        if shape.groups > 1 && (c % 64 != 0 || k % 64 != 0) {
            return Err(Refusal::new(format!("takes groups of multiples of 64 channels, given {k} and {c}")));
        }
        let window = Window {
            first: shape.axes.map(|axis| -axis.padding),
            last: std::array::from_fn(|i| (shape.output[i] - 1) * shape.axes[i].stride - shape.axes[i].padding),
            step: shape.axes.map(|axis| axis.stride),
        };
        let same_place =
            shape.filter == [1; 3] && window.first == [0; 3] && window.step == [1; 3] && x.extents == dy.extents;
        let im2col = if problem.axes().len() < 3 { access::IM2COL_2D } else { access::IM2COL_3D };
        let x_access = if same_place && x.linear_stride().is_some() { access::LINEAR } else { im2col };
        if x_access != access::LINEAR {
            let last_offset = std::array::from_fn(|i| (shape.filter[i] - 1) * shape.axes[i].dilation);
            check_window("x", &x, &window, last_offset, x_access)?;
        }
        Ok(WgradView {
            data_type,
            x,
            dy,
            dw,
            groups: shape.groups,
            group_c: shape.group_c(),
            group_k: shape.group_k(),
            tap_offset: shape.axes.map(|axis| axis.dilation),
            flip: problem.mode() == ConvMode::Convolution,
            x_access,
            window,
            packed: None,
        })
    }

    /// Elements in a row of shared memory: channels of a panel, and positions of a stage.
    fn width(&self) -> u32 {
        ROW_BYTES / self.x.element_bytes as u32
    }

    /// Panels of a group's filter.
    pub(in crate::ops::conv) fn n_panels(&self) -> u64 {
        self.dw.n_taps() as u64 * self.c_panels()
    }

    fn c_panels(&self) -> u64 {
        (self.group_c as u64).div_ceil(self.width().into())
    }

    fn m_blocks(&self, tile: ConvTile) -> u64 {
        (self.group_k as u64).div_ceil(tile.cluster_rows().into())
    }

    fn n_blocks(&self, tile: ConvTile) -> u64 {
        self.n_panels().div_ceil((tile.gemm_n / tile.panel_k).into())
    }

    /// Tiles, those of a cluster counted once.
    pub(in crate::ops::conv) fn tiles(&self, tile: ConvTile) -> u64 {
        self.m_blocks(tile) * self.n_blocks(tile) * self.groups as u64
    }

    pub(in crate::ops::conv) fn k_blocks(&self) -> u64 {
        (self.dy.count() as u64).div_ceil(self.width().into())
    }

    /// Whether the tile is no larger than it needs to be.
    pub(in crate::ops::conv) fn fits(&self, tile: ConvTile) -> bool {
        let rows = tile.gemm_m == 64 || self.group_k > 64 || tile.gemm_n == PANEL;
        let rows = rows && (tile.cluster == 1 || self.group_k > i64::from(tile.gemm_m));
        let columns = u64::from(tile.gemm_n / PANEL);
        rows && (columns == 1 || self.n_panels() > columns / 2) && self.tiles(tile) < 1 << 24
    }

    /// How the sum is cut: what is fastest by `time_us`.
    pub(in crate::ops::conv) fn cut(&self, tile: ConvTile) -> Cut {
        let (tiles, clusters) = (self.tiles(tile), MULTIPROCESSORS / u64::from(tile.cluster));
        // A part has some stages at least, and all parts are at work at once, or there is only one. Stages of parts take
        // six times as long, so that rounds that leave no multiprocessor idle are worth more partial sums.
        let (stages, rounds) = if tile.converted > 0 { (12, 16) } else { (4, 2) };
        let most = (self.k_blocks() / stages).min(rounds * clusters / tiles.max(1)).max(1);
        let evenly = tile.converted == 0
            && tiles * self.k_blocks() >= stages * clusters
            && tiles * self.k_blocks() < u64::from(u32::MAX);
        let cuts = (1..=most).map(Cut::Splits).chain(evenly.then_some(Cut::Evenly { workers: clusters }));
        let time = |cut: &Cut| self.time_us(tile, *cut);
        cuts.min_by(|a, b| time(a).total_cmp(&time(b))).unwrap_or(Cut::Splits(1))
    }

    /// Time with the given cut.
    pub(in crate::ops::conv) fn time_us(&self, tile: ConvTile, cut: Cut) -> f64 {
        /// Bytes of partial sums that are written or read in a microsecond, from and to the second-level cache.
        const PARTIALS: f64 = 3.0e6;
        /// From the end of the first kernel to that of the second, without its work.
        const SECOND_KERNEL_US: f64 = 2.5;
        /// Cycles from a tile's last product to its last store, when sums are stored as they are.
        const EPILOGUE: f64 = 1500.0;
        /// Cycles for a column of a tile that goes to dw by pairs of elements.
        const PAIRS: f64 = 20.0;
        /// Bytes from memory in a microsecond.
        const MEMORY: f64 = 4.0e6;
        /// Bytes of operands that stay in the second-level cache while workers at unlike places of the sum come by.
        const CACHED: f64 = 30e6;
        let stage = if tile.converted > 0 {
            parts_cycles(tile, tile.consumer_columns())
        } else {
            let shared = tile.a_bytes() + tile.b_bytes() / tile.cluster;
            stage_cycles(tile, tile.consumer_columns(), shared)
        };
        let (tiles, clusters) = (self.tiles(tile), MULTIPROCESSORS / u64::from(tile.cluster));
        let (rounds, stages) = match cut {
            Cut::Splits(splits) => {
                ((tiles * splits).div_ceil(clusters) as f64, self.k_blocks().div_ceil(splits) as f64)
            }
            // Every worker ends one tile and begins another.
            Cut::Evenly { workers } => {
                let stages = (tiles * self.k_blocks()).div_ceil(workers) as f64;
                let parts = 1.0 + (tiles as f64 / workers as f64).max(1.0);
                (parts, stages / parts)
            }
        };
        let pairs = if cut == Cut::Splits(1) { PAIRS * f64::from(tile.consumer_columns()) } else { 0.0 };
        let products = rounds * (stages * stage + EPILOGUE + pairs) / CYCLES_PER_US;
        let mut bytes = self.x.element_bytes as f64
            * (self.x.count() * self.x.channels + self.dy.count() * self.dy.channels) as f64;
        if matches!(cut, Cut::Evenly { .. }) && bytes > CACHED {
            // Tiles that read the same do so at other times.
            let each = f64::from(tile.a_bytes() * tile.cluster + tile.b_bytes());
            bytes = bytes.max(each * (tiles * self.k_blocks()) as f64);
        }
        let sums = match self.slots(tile, cut) {
            0 => 0.0,
            slots => {
                let bytes = (slots * u64::from(tile.partials()) * 4) as f64;
                SECOND_KERNEL_US + 2.0 * bytes / PARTIALS
            }
        };
        ENDS_US + products.max(bytes / MEMORY) + sums
    }

    /// Places for partial sums of a block's tile.
    fn slots(&self, tile: ConvTile, cut: Cut) -> u64 {
        let of_clusters = match cut {
            Cut::Splits(1) => 0,
            Cut::Splits(splits) => splits * self.tiles(tile),
            Cut::Evenly { workers } => 2 * workers,
        };
        of_clusters * u64::from(tile.cluster)
    }

    /// Workspace for the partial sums.
    pub(in crate::ops::conv) fn partials_bytes(&self, tile: ConvTile) -> u64 {
        self.slots(tile, self.cut(tile)) * u64::from(tile.partials()) * 4
    }

    pub(super) fn params(&self, tile: ConvTile, cut: Cut) -> ConvWgradParams {
        let (splits, workers) = match cut {
            Cut::Splits(splits) => (splits, 0),
            Cut::Evenly { workers } => (1, workers),
        };
        let (packed_c, real_c, c_stride, s_stride) = self.packed.unwrap_or_default();
        ConvWgradParams {
            dy_map: [0; 16],
            x_map: [0; 16],
            x_access: self.x_access,
            group_k: self.group_k as u32,
            group_c: self.group_c as u32,
            groups: self.groups as u32,
            c_panels: self.c_panels() as u32,
            taps: self.dw.taps.map(|extent| extent as u32),
            n_panels: self.n_panels() as u32,
            extents: self.dy.extents.map(|extent| Divisor::new(extent as u32)),
            base: self.window.first.map(|first| first as i32),
            step: self.window.step.map(|step| step as u32),
            tap_offset: self.tap_offset.map(|offset| offset as u32),
            k_blocks: self.k_blocks() as u32,
            splits: splits as u32,
            workers: workers as u32,
            m_blocks: self.m_blocks(tile) as u32,
            n_blocks: self.n_blocks(tile) as u32,
            flip: u32::from(self.flip),
            packed_c: packed_c as u32,
            real_c: real_c as u32,
            c_stride,
            s_stride,
            partials: 0,
            dw: 0,
            k_stride: self.dw.k_stride,
            tap_stride: self.dw.tap_stride,
            alpha: 1.0,
            beta: 0.0,
        }
    }
}

impl WgradView {
    /// The maps of dy and x.
    pub(super) fn maps(&self, context: &GpuContext, x: u64, dy: u64) -> Result<[[u64; 16]; 2], Error> {
        let width = self.width();
        let dy_map = self.dy.linear_map(context, self.data_type, dy, width, width)?;
        let x_map = if self.x_access == access::LINEAR {
            self.x.linear_map(context, self.data_type, x, width, width)?
        } else {
            self.x.im2col_map(context, self.data_type, x, self.x_access, &self.window, width, width)?
        };
        Ok([dy_map, x_map])
    }
}

/// Launches whose parameters are complete but for addresses, and so maps, and scalars.
pub(in crate::ops::conv) struct SplitSum {
    function: Function,
    config: LaunchConfig,
    params: ConvWgradParams,
    /// The kernel that adds the parts.
    sum: Option<(Function, LaunchConfig)>,
    /// See [`ConvWgradSumParams`].
    sharers: u32,
    tile: ConvTile,
    view: WgradView,
}

/// Threads that share the parts of a sum: each has a few, since what a part takes is its way from memory.
fn sharers(parts: u64) -> u32 {
    const EACH: u64 = 4;
    const MOST: u64 = 16;
    (parts / EACH).clamp(1, MOST).next_power_of_two() as u32
}

impl SplitSum {
    /// The launches of a view of 16-bit tensors.
    pub(in crate::ops::conv) fn of(
        problem: &ConvProblem,
        view: WgradView,
        config: Config,
        context: &Context,
    ) -> Result<Self, Error> {
        let dtype = problem.x().dtype();
        let (sum, _) = SUMS.iter().find(|(_, of)| *of == dtype).expect("configs are of the types of the list");
        SplitSum::new(view, wgrad_row(config).tile, [config.0, sum], context)
    }

    /// The launches of a view: by the kernel of a tile, and the one that adds its parts.
    pub(in crate::ops::conv) fn new(
        view: WgradView,
        tile: ConvTile,
        [symbol, sum]: [&'static str; 2],
        context: &Context,
    ) -> Result<Self, Error> {
        let function = context.function(symbol)?;
        function.set_max_dynamic_shared(tile.smem_bytes() as usize)?;
        let cut = view.cut(tile);
        let cluster = u64::from(tile.cluster);
        let (workers, parts) = match cut {
            Cut::Splits(splits) => {
                let most = context.info().n_units as u64 / cluster;
                ((view.tiles(tile) * splits).min(most), splits)
            }
            // How many parts most tiles have.
            Cut::Evenly { workers } => (workers, workers.div_ceil(view.tiles(tile)) + 1),
        };
        let sharers = sharers(parts);
        let sum = if view.slots(tile, cut) > 0 {
            let quads = view.tiles(tile) * cluster * u64::from(tile.partials() / 4);
            let config = linear_grid((quads * u64::from(sharers)) as i64, SUM_THREADS);
            Some((context.function(sum)?, LaunchConfig { programmatic: true, ..config }))
        } else {
            None
        };
        Ok(SplitSum {
            function,
            config: LaunchConfig {
                grid: [(workers * cluster) as u32, 1, 1],
                block: [tile.threads(), 1, 1],
                shared_bytes: tile.smem_bytes(),
                cluster: (tile.cluster > 1).then_some([tile.cluster, 1, 1]),
                programmatic: true,
            },
            params: view.params(tile, cut),
            sum,
            sharers,
            tile,
            view,
        })
    }

    /// Queues the product of what lies at these addresses: x, dy, dw and the partial sums.
    pub(in crate::ops::conv) fn launch(
        &self,
        stream: &Stream,
        [x, dy, dw, partials]: [u64; 4],
        alpha: f64,
        beta: f64,
    ) -> Result<(), Error> {
        let (Some(stream), Some(context)) = (stream.gpu_stream(), stream.context().gpu_context()) else {
            return Err(Error::NoDevice { reason: format!("{} needs a GPU's stream", self.function.name()) });
        };
        let mut params = self.params;
        [params.dy_map, params.x_map] = self.view.maps(context, x, dy)?;
        (params.alpha, params.beta) = (alpha as f32, beta as f32);
        params.dw = dw;
        params.partials = partials;
        launch(&self.function, &self.config, stream, &params)
            .map_err(|source| Error::Launch { kernel: self.function.name().to_owned(), source })?;
        if let Some((function, config)) = &self.sum {
            let sum = ConvWgradSumParams {
                wgrad: params,
                tile_m: self.tile.gemm_m,
                tile_n: self.tile.gemm_n,
                cluster: self.tile.cluster,
                sharers: self.sharers,
            };
            launch(function, config, stream, &sum)
                .map_err(|source| Error::Launch { kernel: function.name().to_owned(), source })?;
        }
        Ok(())
    }
}

/// One product between the operands as they are.
struct WgradLaunch(SplitSum);

impl Launch for WgradLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        check_addresses(["x", "dy", "dw"], call)?;
        let [x, dy, dw] = [0, 1, 2].map(|operand| call.address(operand));
        self.0.launch(stream, [x, dy, dw, call.workspace_address()], call.alpha, call.beta)
    }
}
