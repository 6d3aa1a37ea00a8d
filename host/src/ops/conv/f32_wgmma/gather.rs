//! `fprop` and `dgrad`.

use super::images::Images;
use super::{
    ALIGN_BYTES, LAUNCH_US, check, check_address, check_groups, check_problem, launch_linear, read_name, side,
};
use crate::driver::{Function, GpuContext, Swizzle, TensorMap, Tiled, TmaType};
use crate::launch::{LaunchConfig, div_ceil, launch};
use crate::ops::conv::im2col_wgmma::{
    AxisClass, CYCLES_PER_US, Class, ENDS_US, Filter, Positions, View, check_window, classes, five, halves_cycles,
    parts_cycles, read_access,
};
use crate::ops::conv::spread_columns::Packing;
use crate::ops::conv::{ConvPass, ConvProblem};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread};
use crate::{Context, Error, Stream};
use kernel_abi::ops::conv::ConvPackSpreadParams;
use kernel_abi::ops::conv::f32_wgmma::{
    ConvFilterPartsParams, ConvFilterSource, ConvPartsDirectParams, ConvPartsGatherParams, PART_CHUNK, PARTS,
    PARTS_PANEL,
};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, MAX_CLASSES, access};

macro_rules! rows {
    ($(($symbol:ident, $tile:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::ops::conv::f32_wgmma::$tile)),*]
    };
}

const NAME: &str = "bf16x3_wgmma";

/// What strides of a tensor map stay below.
const MAX_PART_BYTES: u64 = 1 << 40;

const KERNELS: &[(&str, ConvTile)] = kernel_abi::conv_bf16x3_gather_kernels!(rows);

/// `fprop` and `dgrad` of f32.
pub(in crate::ops::conv) struct Gather;

fn tile_of(config: Config) -> ConvTile {
    KERNELS.iter().find(|row| row.0 == config.0).expect("configs come from the kernel list").1
}

impl Algorithm<ConvProblem> for Gather {
    fn name(&self) -> &'static str {
        NAME
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        if problem.conv_pass() == ConvPass::Wgrad {
            return Err(Refusal::new("computes fprop and dgrad, the pass is wgrad"));
        }
        check(problem, context)?;
        let view = PartsView::of(problem)?;
        Ok(KERNELS.iter().filter(|row| view.fits(row.1)).map(|row| Config(row.0)).collect())
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        crate::ops::conv::algorithms::padding_spread(problem)
    }

    fn workspace_bytes(&self, problem: &ConvProblem, _: Config) -> u64 {
        PartsView::of(problem).map_or(0, |view| view.workspace_bytes())
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let Ok(view) = PartsView::of(problem) else { return f64::INFINITY };
        let streaming = crate::select::cost::streaming_us(problem, context);
        // Of each element of the filter 4 bytes are read and 6 written.
        let filter_us = LAUNCH_US + view.filter_bytes() as f64 * (10.0 / 6.0) / (0.5 * context.info().bytes_per_us);
        filter_us + view.images.time_us(context) + streaming.max(view.products_us(tile_of(config), 0.0, context))
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let product = Product::new(problem, config, context)?;
        let (pack, filter_parts) = (context.function(side("pack"))?, context.function(product.view.filter.symbol())?);
        Ok(Box::new(PartsLaunch { pack, filter_parts, product, read_name: read_name(problem) }))
    }
}

/// A problem as the kernels see it.
#[derive(Debug)]
pub(super) struct PartsView {
    pub(super) images: Images,
    pub(super) view: View,
    pub(super) filter: FilterParts,
    /// Distance between channels of the tensor that is written.
    pub(super) channel_stride: i64,
}

/// How the filter is taken apart, but for addresses.
#[derive(Clone, Copy, Debug)]
pub(super) enum FilterParts {
    /// Rows and taps as they are.
    Plain(ConvFilterPartsParams),
    /// Of a strided `dgrad` of few channels: rows are positions of a step of the stride, with their channels.
    Spread(ConvPackSpreadParams),
}

impl FilterParts {
    /// The kernel that does it.
    fn symbol(&self) -> &'static str {
        match self {
            FilterParts::Plain(_) => side("filter_parts"),
            FilterParts::Spread(_) => side("spread_parts"),
        }
    }

    fn launch(&self, function: &Function, stream: &Stream, from: u64, to: u64) -> Result<(), Error> {
        match *self {
            FilterParts::Plain(params) => {
                let n_threads = params.rows * params.taps.iter().product::<i64>() * params.chunks;
                launch_linear(function, stream, n_threads, &ConvFilterPartsParams { from, to, ..params })
            }
            FilterParts::Spread(params) => {
                let n_threads = params.n_elems / i64::from(PART_CHUNK);
                launch_linear(function, stream, n_threads, &ConvPackSpreadParams { from, to, ..params })
            }
        }
    }
}

impl PartsView {
    pub(super) fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        check_problem(problem)?;
        PartsView::with(problem, Images::rows(problem))
    }

    /// With a filter's row and the channels as one in these images, if any.
    ///
    /// The problem is one that [`check_problem`] takes.
    pub(super) fn with(problem: &ConvProblem, rows: Option<Images>) -> Result<Self, Refusal> {
        let shape = problem.shape();
        let fprop = problem.conv_pass() == ConvPass::Fprop;
        let name = read_name(problem);
        if let Some(packing) = spread_packing(problem)
            && let Ok(view) = PartsView::spread(problem, &packing)
        {
            return Ok(view);
        }
        let (classes, step) = match &rows {
            Some(_) => row_classes(problem),
            None => classes(problem),
        };
        let (read_desc, written_desc) = if fprop { (problem.x(), problem.y()) } else { (problem.y(), problem.x()) };
        let images = match rows {
            Some(images) => images,
            None => Images::of(name, read_desc, false)?,
        };
        let (group_read, group_written) = match (&rows, fprop) {
            (Some(images), _) => (images.positions.channels, shape.k),
            (None, true) => (shape.group_c(), shape.group_k()),
            (None, false) => (shape.group_k(), shape.group_c()),
        };
        // A panel of 32 channels must not reach into the next group: zeros of the filter would not mask its infinities.
        check_groups(name, shape.groups, group_read, 32)?;
        let (read, written) = (images.positions, Positions::anyhow(written_desc));
        let a_access = read_access(name, (&classes, step), &read, &written, problem.axes().len())?;
        let filter = filter_params(problem, rows.and_then(|images| images.copy).map(|copy| copy.packed_c));
        let view = View {
            data_type: TmaType::F32,
            read,
            written,
            filter: Filter {
                k: filter.rows,
                group_c: group_read,
                taps: filter.taps,
                // Of the parts, whose map is made here.
                tap_stride: filter.chunks * i64::from(PART_CHUNK),
                k_stride: filter.taps.iter().product::<i64>() * filter.chunks * i64::from(PART_CHUNK),
            },
            classes,
            step,
            groups: shape.groups,
            group_read,
            group_written,
            a_access,
            out_access: access::LINEAR,
            sum_is_contiguous: true,
            planes: None,
            spread: None,
        };
        let filter = FilterParts::Plain(filter);
        PartsView { images, view, filter, channel_stride: written_desc.strides()[1] }.checked()
    }

    /// A strided `dgrad` of few channels, with the positions of a step of the stride and their channels as columns.
    fn spread(problem: &ConvProblem, packing: &Packing) -> Result<Self, Refusal> {
        let shape = problem.shape();
        let images = Images::of("dy", problem.y(), false)?;
        let written = packing.blocks(problem);
        let class = packing.class(&written);
        check_window("dy", &images.positions, &class.window([1; 3]), class.last_offset(), access::IM2COL_2D)?;
        let view = View {
            data_type: TmaType::F32,
            read: images.positions,
            written,
            filter: Filter {
                k: packing.columns,
                group_c: shape.k,
                taps: [1, packing.window[0], packing.window[1]],
                tap_stride: packing.packed_sums,
                k_stride: packing.window[0] * packing.window[1] * packing.packed_sums,
            },
            classes: vec![class],
            step: [1; 3],
            groups: 1,
            group_read: shape.k,
            group_written: packing.columns,
            a_access: access::IM2COL_2D,
            out_access: access::SPREAD,
            sum_is_contiguous: true,
            planes: None,
            spread: Some(packing.spread(problem)),
        };
        let filter = FilterParts::Spread(packing.params(problem));
        PartsView { images, view, filter, channel_stride: 1 }.checked()
    }

    /// Refuses more than kernels and maps can count.
    fn checked(self) -> Result<Self, Refusal> {
        let view = self;
        if view.part_bytes() >= MAX_PART_BYTES {
            let given = view.part_bytes();
            return Err(Refusal::new(format!(
                "takes filters whose parts are below {MAX_PART_BYTES} bytes, given {given}"
            )));
        }
        let n_tiles: u64 =
            view.view.classes.iter().map(|class| view.view.n_tiles(class, KERNELS[0].1)).max().unwrap_or(0);
        // Narrower tiles are at most twice as many.
        if n_tiles >= 1 << 29 {
            return Err(Refusal::new(format!("counts up to 2^29 tiles, given {n_tiles}")));
        }
        Ok(view)
    }

    /// Whether the tile is no wider than it needs to be.
    pub(super) fn fits(&self, tile: ConvTile) -> bool {
        let columns = self.view.group_written;
        let fits = match tile.gemm_n {
            16 => columns <= 32,
            64 => columns > 16,
            _ => columns > 64,
        };
        // Two tiles have the code that spreads columns.
        fits && (self.view.out_access != access::SPREAD || tile.gemm_m == 256)
    }

    /// Bytes of the filter's parts.
    pub(super) fn filter_bytes(&self) -> u64 {
        self.part_bytes() * u64::from(PARTS)
    }

    fn part_bytes(&self) -> u64 {
        2 * (self.view.filter.k * self.view.filter.k_stride) as u64
    }

    pub(super) fn workspace_bytes(&self) -> u64 {
        self.filter_bytes().next_multiple_of(ALIGN_BYTES) + self.images.bytes()
    }

    /// Time of the products, with the least cycles that a stage takes for other reasons.
    pub(super) fn products_us(&self, tile: ConvTile, least: f64, context: &Context) -> f64 {
        /// Cycles from a tile's last product to its last store, in which its consumers do not compute.
        const EPILOGUE: f64 = 700.0;
        let stage = if tile.converted > 0 { halves_cycles(tile) } else { parts_cycles(tile, tile.gemm_n) };
        let stage = stage.max(least);
        let epilogue = EPILOGUE + f64::from(tile.gemm_m * tile.gemm_n) / 32.0;
        let panels = (self.view.group_read as u64).div_ceil(PARTS_PANEL.into()) as i64;
        let of_tile = |class: &Class| (class.n_taps() * panels) as f64 * stage + epilogue;
        ENDS_US + self.view.rounds_cycles(tile, context, of_tile) / CYCLES_PER_US
    }

    /// Launches of up to [`MAX_CLASSES`] classes each.
    fn launches(&self, tile: ConvTile, n_units: u64) -> Vec<Part> {
        let part = |classes: &[Class]| {
            let n_tiles: u64 = classes.iter().map(|class| self.view.n_tiles(class, tile)).sum();
            // As few blocks as do it in the same number of rounds: the others would only draw power.
            let blocks = n_tiles.div_ceil(n_tiles.div_ceil(n_units));
            Part {
                config: LaunchConfig {
                    grid: [blocks as u32, 1, 1],
                    block: [tile.threads(), 1, 1],
                    shared_bytes: tile.smem_bytes(),
                    programmatic: true,
                    ..LaunchConfig::default()
                },
                params: ConvPartsGatherParams {
                    gather: self.view.params(classes, tile, n_tiles as u32),
                    channel_stride: self.channel_stride,
                    store_bytes: 4,
                    unused: 0,
                },
                classes: classes.to_vec(),
            }
        };
        self.view.classes.chunks(MAX_CLASSES).map(part).collect()
    }

    /// Whether a thread can store its two neighbouring sums at once.
    fn stores_pairs(&self, address: u64) -> bool {
        let written = &self.view.written;
        let all = written.strides.into_iter().chain([written.image_stride, self.view.group_written]);
        self.channel_stride == 1 && all.fold(address, |all, elems| all | (elems as u64 * 4)).is_multiple_of(8)
    }

    /// The map of the filter's parts: `[channels, taps, rows, parts]`.
    fn filter_map(&self, context: &GpuContext, address: u64, tile: ConvTile) -> Result<[u64; 16], Error> {
        let filter = &self.view.filter;
        let tiled = Tiled {
            data_type: TmaType::BF16,
            address,
            dims: &[filter.tap_stride as u64, filter.n_taps() as u64, filter.k as u64, u64::from(PARTS)],
            strides_bytes: &[2 * filter.tap_stride as u64, 2 * filter.k_stride as u64, self.part_bytes()],
            box_dims: &[PARTS_PANEL, 1, tile.gemm_n, PARTS],
            element_strides: &[],
            swizzle: Swizzle::B64,
        };
        Ok(TensorMap::tiled(context, &tiled)?.words())
    }
}

/// How the columns of a strided `dgrad` are spread, where that makes fewer columns that nobody needs.
fn spread_packing(problem: &ConvProblem) -> Option<Packing> {
    // The kernel that takes the filter apart knows two axes.
    let known = problem.axes().len() == 2 && problem.conv_pass() == ConvPass::Dgrad;
    let packing = Packing::by(problem, PARTS_PANEL.into(), [1; 2]).ok().filter(|_| known)?;
    (packing.columns > problem.shape().c).then_some(packing)
}

/// The only class, where a filter's row and the channels are one.
fn row_classes(problem: &ConvProblem) -> (Vec<Class>, [i64; 3]) {
    let shape = problem.shape();
    let (mut classes, mut step) = classes(problem);
    classes[0].axes[2] = AxisClass::plain(shape.output[2]);
    step[2] = 1;
    (classes, step)
}

/// How the filter is taken apart; with `packed_c`, taps along w are channels, so many of each.
fn filter_params(problem: &ConvProblem, packed_c: Option<i64>) -> ConvFilterPartsParams {
    let shape = problem.shape();
    let [k, c, t, r, s] = five(problem.w());
    let panels = |channels: i64| {
        let panel = i64::from(PARTS_PANEL);
        div_ceil(channels, panel) * panel
    };
    let params = |channels: i64| ConvFilterPartsParams {
        from: 0,
        to: 0,
        rows: shape.k,
        group_rows: shape.k,
        group_stride: 0,
        row_stride: k,
        taps: shape.filter,
        tap_strides: [t, r, s],
        chunks: panels(channels) / i64::from(PART_CHUNK),
        inner: panels(channels),
        counts: [1, channels],
        strides: [0, c],
        rows_first: 0,
        unused: 0,
    };
    let params = match packed_c {
        Some(packed_c) => ConvFilterPartsParams {
            taps: [shape.filter[0], shape.filter[1], 1],
            tap_strides: [t, r, 0],
            inner: packed_c,
            counts: [shape.filter[2], shape.c],
            strides: [s, c],
            ..params(shape.filter[2] * packed_c)
        },
        None if problem.conv_pass() == ConvPass::Fprop => params(shape.group_c()),
        None => ConvFilterPartsParams {
            rows: shape.c,
            group_rows: shape.group_c(),
            group_stride: shape.group_k() * k,
            row_stride: c,
            strides: [0, k],
            ..params(shape.group_k())
        },
    };
    ConvFilterPartsParams { rows_first: u32::from(params.row_stride < params.strides[1]), ..params }
}

/// Up to [`MAX_CLASSES`] classes.
struct Part {
    config: LaunchConfig,
    params: ConvPartsGatherParams,
    classes: Vec<Class>,
}

/// The products of images that can be gathered as they lie, with a filter whose parts are there.
pub(in crate::ops::conv) struct Product {
    function: Function,
    tile: ConvTile,
    parts: Vec<Part>,
    view: PartsView,
    filter: FilterRead,
}

/// How a kernel reads the filter, but for its address.
#[derive(Clone, Copy, Debug)]
pub(super) enum FilterRead {
    /// Its parts, taken apart before.
    Parts,
    /// By threads, which take it apart.
    Threads(ConvFilterSource),
    /// By the copy engine, as f32; threads take it apart then.
    CopyEngine(FilterMap),
}

/// A filter as the copy engine loads it: dimensions and strides, in elements, of channels that lie side by side, taps, and
/// the other channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilterMap {
    pub(super) dims: [i64; 3],
    pub(super) strides: [i64; 2],
    /// Whether the channels side by side are those that are written, else those of the sum.
    pub(super) side_by_side: bool,
}

impl FilterMap {
    fn encode(&self, context: &GpuContext, address: u64, tile: ConvTile) -> Result<[u64; 16], Error> {
        let dims = self.dims.map(|dim| dim as u64);
        // Where there is one of them, any stride does that the engine takes.
        let stride = |i: usize| if dims[i + 1] == 1 { 16 } else { 4 * self.strides[i] as u64 };
        let tiled = Tiled {
            data_type: TmaType::F32,
            address,
            dims: &[dims[0], dims[1], dims[2], 1],
            strides_bytes: &[stride(0), stride(1), 16],
            box_dims: &[PARTS_PANEL, 1, if self.side_by_side { PARTS_PANEL } else { tile.gemm_n }, 1],
            element_strides: &[],
            swizzle: Swizzle::B128,
        };
        Ok(TensorMap::tiled(context, &tiled)?.words())
    }
}

impl Product {
    /// The product of a problem that [`Gather`] takes.
    pub(in crate::ops::conv) fn new(problem: &ConvProblem, config: Config, context: &Context) -> Result<Self, Error> {
        let view = PartsView::of(problem).map_err(|refusal| refusal.into_error(NAME, problem))?;
        Product::of(view, FilterRead::Parts, (config.0, tile_of(config)), context)
    }

    /// The product of a view by this kernel.
    pub(super) fn of(
        view: PartsView,
        filter: FilterRead,
        (symbol, tile): (&'static str, ConvTile),
        context: &Context,
    ) -> Result<Self, Error> {
        let function = context.function(symbol)?;
        function.allow_dynamic_shared(tile.smem_bytes() as usize)?;
        let n_units = (context.info().n_units as u64).max(1);
        let parts = view.launches(tile, n_units);
        Ok(Product { function, tile, parts, view, filter })
    }

    /// Time of a problem's products, and the bytes of its filter's parts.
    pub(in crate::ops::conv) fn cost(problem: &ConvProblem, config: Config, context: &Context) -> Option<(f64, u64)> {
        let view = PartsView::of(problem).ok()?;
        Some((view.products_us(tile_of(config), 0.0, context), view.filter_bytes()))
    }

    /// Queues the products: `[read, filter, written]` are where the operands lie, of the filter its parts where the kernel
    /// does not take it apart itself.
    pub(in crate::ops::conv) fn launch(
        &self,
        stream: &Stream,
        [read, filter, written]: [u64; 3],
        [alpha, beta]: [f64; 2],
    ) -> Result<(), Error> {
        let gpu_stream = stream.gpu_stream_for(self.function.name())?;
        let context = gpu_stream.context();
        let view = &self.view;
        let b_map = match &self.filter {
            FilterRead::Parts => Some(view.filter_map(context, filter, self.tile)?),
            FilterRead::CopyEngine(map) => {
                check_address("w", filter)?;
                Some(map.encode(context, filter, self.tile)?)
            }
            FilterRead::Threads(_) => None,
        };
        for part in &self.parts {
            let mut params = part.params;
            for (map, class) in params.gather.a_maps.iter_mut().zip(&part.classes) {
                *map = view.view.a_map(context, class, self.tile, read)?;
            }
            params.gather.b_map = b_map.unwrap_or(params.gather.b_map);
            params.gather.out = written;
            (params.gather.alpha, params.gather.beta) = (alpha as f32, beta as f32);
            params.store_bytes = if view.stores_pairs(written) { 8 } else { 4 };
            let launched = match self.filter {
                FilterRead::Parts | FilterRead::CopyEngine(_) => {
                    launch(&self.function, &part.config, gpu_stream, &params)
                }
                FilterRead::Threads(source) => {
                    let load_bytes = if filter.is_multiple_of(16) { source.load_bytes } else { 4 };
                    let filter = ConvFilterSource { from: filter, load_bytes, ..source };
                    let params = ConvPartsDirectParams { gather: params, filter };
                    launch(&self.function, &part.config, gpu_stream, &params)
                }
            };
            launched?;
        }
        Ok(())
    }
}

/// Launches whose parameters are complete but for addresses, and so maps, and scalars.
struct PartsLaunch {
    product: Product,
    pack: Function,
    filter_parts: Function,
    read_name: &'static str,
}

impl Launch for PartsLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let [read, filter, written] = [0, 1, 2].map(|operand| call.address(operand));
        let view = &self.product.view;
        let parts_at = call.workspace_address();
        let images_at = parts_at + view.filter_bytes().next_multiple_of(ALIGN_BYTES);
        let read = view.images.make((self.read_name, &self.pack), stream, read, images_at)?;
        view.filter.launch(&self.filter_parts, stream, filter, parts_at)?;
        self.product.launch(stream, [read, parts_at, written], [call.alpha, call.beta])
    }
}
