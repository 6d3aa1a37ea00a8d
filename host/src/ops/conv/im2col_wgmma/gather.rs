//! `fprop` and `dgrad`.

use super::classes::{Class, classes, read_access};
use super::epilogue::Fused;
use super::stream_k::Sharing;
use super::tensors::{Filter, Planes, Positions, Window};
use super::{ELEMENT_BYTES, NAME, check_address, tma_type};
use crate::driver::{Function, GpuContext, TmaType};
use crate::epilogue::bind_fused;
use crate::launch::{BEYOND_CACHE_BYTES, LaunchConfig, launch, memory_counts, tag};
use crate::ops::conv::{ConvPass, ConvProblem};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_hopper};
use crate::{Context, DType, Error, Problem, Stream};
use kernel_abi::division::Divisor;
use kernel_abi::epilogue::FusedEpilogueParam;
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvClass, ConvGatherParams, ConvStreamKParams, ConvTile, Evenly, MAX_CLASSES, OUT_ROWS, PANEL, THREADS, access,
};

/// A row of the kernel list.
pub(in crate::ops::conv) struct Row {
    pub(in crate::ops::conv) symbol: &'static str,
    pub(in crate::ops::conv) pass: &'static str,
    pub(in crate::ops::conv) dtype: DType,
    pub(in crate::ops::conv) tile: ConvTile,
}

macro_rules! rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $tile:ident, $cluster:literal)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            tile: kernel_abi::ops::conv::im2col_wgmma::$tile,
        }),*]
    };
}

pub(in crate::ops::conv) const KERNELS: &[Row] = kernel_abi::conv_im2col_gather_kernels!(rows);

/// `fprop` and `dgrad` of channels-last tensors of 16-bit types.
pub(in crate::ops::conv) struct Gather;

impl Algorithm<ConvProblem> for Gather {
    fn name(&self) -> &'static str {
        NAME
    }

    fn takes_epilogues(&self) -> bool {
        true
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        if problem.conv_pass() == ConvPass::Wgrad {
            return Err(Refusal::new("computes fprop and dgrad, the pass is wgrad"));
        }
        check_hopper(context)?;
        let view = View::of(problem)?;
        let fuses = Fused::of(problem)?.is_some();
        let dtype = problem.x().dtype();
        let fits = |row: &&Row| {
            row.pass == problem.pass()
                && row.dtype == dtype
                && view.fits(row.tile)
                && (!fuses || row.tile.has_epilogues())
        };
        let configs: Vec<_> = KERNELS.iter().filter(fits).map(|row| Config(row.symbol)).collect();
        if configs.is_empty() {
            let (k, c) = (view.group_written, view.group_read);
            return Err(Refusal::new(format!("takes groups of multiples of 64 channels, given {k} and {c}")));
        }
        Ok(configs)
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> crate::select::Spread {
        crate::ops::conv::algorithms::padding_spread(problem)
    }

    fn workspace_bytes(&self, _: &ConvProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let Ok(view) = View::of(problem) else { return f64::INFINITY };
        view.time_us(row(config).tile, problem.bytes(), context)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let view = View::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let tile = row(config).tile;
        let function = context.function(config.0)?;
        function.allow_dynamic_shared(tile.smem_bytes() as usize)?;
        let mut product = Product::new(view, function, tile, context);
        product.epilogue = Fused::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        Ok(Box::new(GatherLaunch { product, pass: problem.conv_pass() }))
    }
}

impl Product {
    /// The launches of a view.
    pub(in crate::ops::conv) fn new(view: View, function: Function, tile: ConvTile, context: &Context) -> Self {
        let n_clusters = (context.info().n_units as u64 / u64::from(tile.cluster)).max(1);
        let parts = view
            .classes
            .chunks(MAX_CLASSES)
            .map(|classes| {
                let n_tiles: u64 = classes.iter().map(|class| view.n_tiles(class, tile)).sum();
                // As few blocks as do it in the same number of rounds: the others would only draw power.
                let clusters = n_tiles.div_ceil(n_tiles.div_ceil(n_clusters));
                Part {
                    config: LaunchConfig {
                        grid: [clusters as u32 * tile.cluster, 1, 1],
                        block: [THREADS, 1, 1],
                        shared_bytes: tile.smem_bytes(),
                        cluster: (tile.cluster > 1).then_some([tile.cluster, 1, 1]),
                        programmatic: true,
                        ..LaunchConfig::default()
                    },
                    params: view.params(classes, tile, n_tiles as u32),
                    classes: classes.to_vec(),
                }
            })
            .collect();
        Product { function, tile, parts, view, epilogue: None, shared: None }
    }
}

impl Product {
    /// The launch of a view of one class, whose stages workers share: they leave parts of sums in the workspace.
    pub(super) fn stream_k(
        view: View,
        function: Function,
        tile: ConvTile,
        sharing: Sharing,
        context: &Context,
    ) -> Self {
        let (tiles, tile_stages) = view.tiles_of(&view.classes[0], tile);
        let Sharing { workers, whole_tiles, sharers, parts } = sharing;
        let (tiles, among) = if parts > 0 { (1, parts) } else { (tiles - whole_tiles, sharers) };
        let mut product = Product::new(view, function, tile, context);
        for part in &mut product.parts {
            part.config.grid = [workers as u32 * tile.cluster, 1, 1];
            part.config.cooperative = parts > 0;
        }
        product.shared = Some(Shared {
            tile_stages: Divisor::new(tile_stages as u32),
            whole_tiles: whole_tiles as u32,
            sharers: sharers as u32,
            evenly: Evenly::new((tiles * tile_stages) as u32, among as u32),
            parts: parts as u32,
            flags_at: sharing.partials_bytes(tile),
            tag: tag(),
        });
        product
    }
}

pub(in crate::ops::conv) fn row(config: Config) -> &'static Row {
    KERNELS.iter().find(|row| row.symbol == config.0).expect("configs come from the kernel list")
}

/// A problem as the kernels see it.
#[derive(Debug)]
pub(in crate::ops::conv) struct View {
    pub(in crate::ops::conv) data_type: TmaType,
    pub(in crate::ops::conv) read: Positions,
    pub(in crate::ops::conv) written: Positions,
    pub(in crate::ops::conv) filter: Filter,
    pub(in crate::ops::conv) classes: Vec<Class>,
    /// Distance between what neighbours read.
    pub(in crate::ops::conv) step: [i64; 3],
    pub(in crate::ops::conv) groups: i64,
    /// Channels of a group that are read, and that are written.
    pub(in crate::ops::conv) group_read: i64,
    pub(in crate::ops::conv) group_written: i64,
    pub(in crate::ops::conv) a_access: u32,
    pub(in crate::ops::conv) out_access: u32,
    /// Whether the filter lies with the dimension of the sum contiguous, as in `fprop`.
    pub(in crate::ops::conv) sum_is_contiguous: bool,
    /// Where columns go that are positions and channels.
    pub(in crate::ops::conv) spread: Option<Spread>,
    /// How the written tensor lies, where its channels are not contiguous.
    pub(in crate::ops::conv) planes: Option<Planes>,
}

/// Columns that are positions and channels of the written tensor.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops::conv) struct Spread {
    /// Positions along H and W, and channels.
    pub(in crate::ops::conv) counts: [i64; 3],
    /// H and W.
    pub(in crate::ops::conv) extents: [i64; 2],
    /// Distances along H and W and between channels.
    pub(in crate::ops::conv) strides: [i64; 3],
}

impl View {
    pub(super) fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        let data_type = tma_type(problem.x().dtype())?;
        let shape = problem.shape();
        let (group_read, group_written, read, (written, planes)) = if problem.conv_pass() == ConvPass::Fprop {
            let (x, y) = (Positions::of("x", problem.x(), false)?, Positions::written("y", problem.y())?);
            (shape.group_c(), shape.group_k(), x, y)
        } else {
            let (dy, dx) = (Positions::of("dy", problem.y(), false)?, Positions::written("dx", problem.x())?);
            (shape.group_k(), shape.group_c(), dy, dx)
        };
        let filter = Filter::of("w", problem.w())?;
        let (classes, step) = classes(problem);
        let read_name = if problem.conv_pass() == ConvPass::Fprop { "x" } else { "dy" };
        let a_access = read_access(read_name, (&classes, step), &read, &written, problem.axes().len())?;
        let by_threads = planes.map(|planes| planes.access());
        if by_threads == Some(access::PLANES) && classes.len() > 1 {
            // Positions of a class are apart: runs of 2 bytes, in sectors that other classes write too.
            let n = classes.len();
            return Err(Refusal::new(format!(
                "writes dx with contiguous channels where there is a stride, given {n} steps"
            )));
        }
        let out_access = by_threads.unwrap_or_else(|| written.access(classes.len() == 1, problem.axes().len()));
        let view = View {
            data_type,
            read,
            written,
            filter,
            classes,
            step,
            groups: shape.groups,
            group_read,
            group_written,
            a_access,
            out_access,
            sum_is_contiguous: problem.conv_pass() == ConvPass::Fprop,
            spread: None,
            planes,
        };
        Ok(view)
    }

    /// Whether a tile's panels do not reach into other groups.
    pub(in crate::ops::conv) fn fits(&self, tile: ConvTile) -> bool {
        // Where a panel holds 32 elements, wider ones would only make more of them. A stage then has two: behind the last
        // one of an odd number lie the channels of the next group.
        let panels = tile.panel_k == 64 || self.group_read <= 32 && self.groups == 1;
        let alone = self.groups == 1
            || (self.group_read % i64::from(tile.panel_k) == 0 && self.group_written % i64::from(tile.gemm_n) == 0);
        // Columns that nobody needs cost as much as others.
        let unused = self.n_blocks(tile) as i64 * i64::from(tile.gemm_n) - self.group_written;
        let wasteful = tile.gemm_n > 64 && self.group_written <= i64::from(tile.gemm_n) / 2
            || tile.narrow_columns().is_some_and(|columns| unused >= columns.into());
        let writes = self.out_access != access::ROWS || tile.writes_rows();
        panels && alone && !wasteful && writes
    }

    /// Cycles of all rounds of tiles, given those of a tile of a class: whole rounds where all tiles are alike; the classes
    /// of a strided dgrad fill each other's gaps.
    pub(in crate::ops::conv) fn rounds_cycles(
        &self,
        tile: ConvTile,
        context: &Context,
        of_tile: impl Fn(&Class) -> f64,
    ) -> f64 {
        let n_units = (context.info().n_units as u64).max(1) as f64;
        let (mut cycles, mut longest) = (0.0, 0.0f64);
        for class in &self.classes {
            let of_tile = of_tile(class);
            cycles += self.n_tiles(class, tile) as f64 * of_tile;
            longest = longest.max(of_tile);
        }
        if self.classes.len() == 1 {
            (cycles / longest / n_units).ceil() * longest
        } else {
            cycles / n_units + longest / 2.0
        }
    }

    pub(in crate::ops::conv) fn n_tiles(&self, class: &Class, tile: ConvTile) -> u64 {
        let gemm_m = class.positions(&self.written).count() as u64;
        gemm_m.div_ceil(tile.cluster_rows().into()) * self.n_blocks(tile) * self.groups as u64
    }

    /// Tiles of a class, and how many panels of the sum each has.
    pub(super) fn tiles_of(&self, class: &Class, tile: ConvTile) -> (u64, u64) {
        let panels = class.n_taps() as u64 * (self.group_read as u64).div_ceil(tile.panel_k.into());
        (self.n_tiles(class, tile), panels)
    }

    fn n_blocks(&self, tile: ConvTile) -> u64 {
        (self.group_written as u64).div_ceil(tile.gemm_n.into())
    }

    pub(in crate::ops::conv) fn params(&self, classes: &[Class], tile: ConvTile, n_tiles: u32) -> ConvGatherParams {
        let mut params = ConvGatherParams {
            a_maps: [[0; 16]; MAX_CLASSES],
            out_maps: [[0; 16]; MAX_CLASSES],
            b_map: [0; 16],
            classes: [ConvClass::default(); MAX_CLASSES],
            n_classes: classes.len() as u32,
            n_tiles,
            a_access: self.a_access,
            out_access: self.out_access,
            step: self.step.map(|step| step as u32),
            gemm_n: self.group_written as u32,
            n_blocks: Divisor::new(self.n_blocks(tile) as u32),
            channels: self.group_read as u32,
            groups: Divisor::new(self.groups as u32),
            group_k: (self.filter.k / self.groups) as u32,
            spread: self.spread.map_or([0; 3], |spread| spread.counts).map(|count| Divisor::new(count as u32)),
            spread_extents: self.spread.map_or([0; 2], |spread| spread.extents).map(|extent| extent as u32),
            store_bytes: self.store_bytes(),
            spread_strides: self.spread.map_or([0; 3], |spread| spread.strides),
            out: 0,
            image_stride: self.written.image_stride,
            channel_stride: self.planes.map_or(1, |planes| planes.channel_stride),
            alpha: 1.0,
            beta: 0.0,
            keep: u32::from(self.reads_are_kept()),
            epilogue: FusedEpilogueParam::NONE,
            z_image_stride: 0,
            z_strides: [0; 3],
        };
        let mut first_tile = 0;
        let [_, r, s] = self.filter.taps;
        for (to, class) in params.classes.iter_mut().zip(classes) {
            let positions = class.positions(&self.written);
            let linear = [r * s, s, 1];
            *to = ConvClass {
                first_tile,
                gemm_m: positions.count() as u32,
                extents: positions.extents.map(|extent| Divisor::new(extent as u32)),
                taps: class.axes.map(|axis| axis.n_taps as u32),
                base: class.axes.map(|axis| axis.base as i32),
                tap_offset: class.axes.map(|axis| axis.tap_offset as u32),
                first_tap: (0..3).map(|i| class.axes[i].first_tap * linear[i]).sum::<i64>() as i32,
                tap_step: std::array::from_fn(|i| (class.axes[i].tap_step * linear[i]) as i32),
                offset: (0..3).map(|i| class.axes[i].first * self.written.strides[i]).sum(),
                strides: positions.strides,
            };
            first_tile += self.n_tiles(class, tile) as u32;
        }
        params
    }

    /// Whether the second-level cache is asked to give up last what is read, which one tap meets once: where that is more than
    /// the cache holds, and the memory is at least as much in the way as products are.
    fn reads_are_kept(&self) -> bool {
        let [read, written] = [self.group_read, self.group_written].map(|channels| channels as f64);
        self.a_access == access::LINEAR
            && memory_counts(read * written, read + written)
            && self.read.count() * self.read.channels * ELEMENT_BYTES >= BEYOND_CACHE_BYTES
    }

    /// Bytes that are stored at a time, where the tensor's address is a multiple of as many.
    fn store_bytes(&self) -> u32 {
        match (self.spread, self.planes) {
            (Some(Spread { counts: [.., channels], strides: [h, w, c], .. }), _) => {
                // Two neighbouring channels of a position, or one.
                let all = channels | h | w | self.written.strides[0] | self.written.image_stride;
                if c == 1 && all % 2 == 0 { 4 } else { 2 }
            }
            (None, Some(planes)) => planes.store_bytes,
            (None, None) => 16,
        }
    }

    /// The map of what a class reads.
    pub(in crate::ops::conv) fn a_map(
        &self,
        context: &GpuContext,
        class: &Class,
        tile: ConvTile,
        read: u64,
    ) -> Result<[u64; 16], Error> {
        if self.a_access == access::LINEAR {
            return self.read.linear_map(context, self.data_type, read, tile.gemm_m, tile.panel_k);
        }
        // A class without taps reads nothing, but has a map like the others, with corners that a map can have.
        let window = if class.n_taps() > 0 { class.window(self.step) } else { Window::all(&self.read) };
        self.read.im2col_map(context, self.data_type, read, self.a_access, &window, tile.gemm_m, tile.panel_k)
    }

    /// The map of what a class writes, in panels of so many columns.
    fn out_map(&self, context: &GpuContext, class: &Class, written: u64, columns: u32) -> Result<[u64; 16], Error> {
        let positions = class.positions(&self.written);
        if self.out_access == access::LINEAR {
            return positions.linear_map(context, self.data_type, written, OUT_ROWS, columns);
        }
        let offset: i64 = (0..3).map(|i| class.axes[i].first * self.written.strides[i]).sum();
        let all = Window::all(&positions);
        let address = written + (offset * ELEMENT_BYTES) as u64;
        positions.im2col_map(context, self.data_type, address, self.out_access, &all, OUT_ROWS, columns)
    }
}

/// Up to [`MAX_CLASSES`] classes.
struct Part {
    config: LaunchConfig,
    params: ConvGatherParams,
    classes: Vec<Class>,
}

/// Launches whose parameters are complete but for addresses, and so maps, and scalars.
pub(in crate::ops::conv) struct Product {
    function: Function,
    tile: ConvTile,
    parts: Vec<Part>,
    view: View,
    /// What becomes of the sums.
    pub(super) epilogue: Option<Fused>,
    /// How workers share the stages of all tiles, where they do.
    shared: Option<Shared>,
}

/// What [`ConvStreamKParams`] have beside what all kernels are given.
#[derive(Clone, Copy)]
struct Shared {
    tile_stages: Divisor,
    whole_tiles: u32,
    sharers: u32,
    evenly: Evenly,
    parts: u32,
    /// How far behind the workspace's begin flags lie.
    flags_at: u64,
    tag: u64,
}

impl Product {
    /// Whether the address of the written tensor must be one that a map can hold.
    pub(in crate::ops::conv) fn writes_by_map(&self) -> bool {
        !matches!(self.view.out_access, access::SPREAD | access::PLANES | access::ROWS)
    }

    /// Queues the product of what lies at these addresses: the tensor that is read, the filter, the tensor that is
    /// written.
    pub(in crate::ops::conv) fn launch(
        &self,
        stream: &Stream,
        [read, filter, written]: [u64; 3],
        alpha: f64,
        beta: f64,
    ) -> Result<(), Error> {
        self.launch_with(stream, [read, filter, written, 0], (alpha, beta), None)
    }

    /// The same with an epilogue whose addresses are known, and a workspace where sums are shared.
    fn launch_with(
        &self,
        stream: &Stream,
        [read, filter, written, workspace]: [u64; 4],
        (alpha, beta): (f64, f64),
        epilogue: Option<Fused>,
    ) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.function.name())?;
        let context = stream.context();
        // Rows of the filter's box: of the columns where the sum is contiguous, else of the sum.
        let (rows, columns) = match self.view.sum_is_contiguous {
            true => (self.tile.b_part(), self.tile.panel_k),
            false => (self.tile.panel_k, PANEL),
        };
        let b_map = self.view.filter.map(context, self.view.data_type, filter, rows, columns)?;
        for part in &self.parts {
            let mut params = part.params;
            for (i, class) in part.classes.iter().enumerate() {
                params.a_maps[i] = self.view.a_map(context, class, self.tile, read)?;
                params.out_maps[i] = if !self.writes_by_map() {
                    // Written without a map, but the kernel fetches one.
                    params.a_maps[i]
                } else {
                    self.view.out_map(context, class, written, PANEL)?
                };
            }
            if let (Some(columns), true) = (self.tile.narrow_columns(), self.writes_by_map()) {
                // Such tiles are of launches of one class.
                params.out_maps[1] = self.view.out_map(context, &part.classes[0], written, columns)?;
            }
            params.b_map = b_map;
            params.out = written;
            while !written.is_multiple_of(params.store_bytes.into()) {
                params.store_bytes /= 2;
            }
            (params.alpha, params.beta) = (alpha as f32, beta as f32);
            if let Some(Fused { param, z_image_stride, z_strides }) = epilogue {
                params.epilogue = param;
                (params.z_image_stride, params.z_strides) = (z_image_stride, z_strides);
            }
            let launched = match self.shared {
                None => launch(&self.function, &part.config, stream, &params),
                Some(Shared { tile_stages, whole_tiles, sharers, evenly, parts, flags_at, tag }) => {
                    let params = ConvStreamKParams {
                        gather: params,
                        partials: workspace,
                        flags: workspace + flags_at,
                        tag,
                        tile_stages,
                        whole_tiles,
                        sharers,
                        evenly,
                        parts,
                    };
                    launch(&self.function, &part.config, stream, &params)
                }
            };
            launched?;
        }
        Ok(())
    }
}

/// One product between the operands as they are.
pub(super) struct GatherLaunch {
    pub(super) product: Product,
    pub(super) pass: ConvPass,
}

impl Launch for GatherLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let names = if self.pass == ConvPass::Fprop { ["x", "w", "y"] } else { ["dy", "w", "dx"] };
        check_address(names[0], call.address(0))?;
        check_address(names[1], call.address(1))?;
        if self.product.writes_by_map() {
            check_address(names[2], call.address(2))?;
        }
        let mut epilogue = self.product.epilogue;
        if let Some(epilogue) = &mut epilogue {
            bind_fused(&mut epilogue.param, ConvProblem::OP, call)?;
        }
        let [read, filter, written] = [0, 1, 2].map(|operand| call.address(operand));
        let addresses = [read, filter, written, call.workspace_address()];
        self.product.launch_with(stream, addresses, (call.alpha, call.beta), epilogue)
    }
}
