//! Convolution on Hopper's tensor cores that reads a tile of positions with its halo once for all taps.
//!
//! `fprop`, and `dgrad` of stride 1. Where [`im2col_wgmma`] copies a tile once for every tap, this kernel lets the
//! product instruction begin its positions wherever a tap has them, so that a filter of 3 × 3 taps reads a fifth of the
//! bytes from the caches; with few channels those are what limits the other one. What it computes for nothing are
//! positions behind the end of a row and of a plane: it wants wide images, or small ones of which a tile has several.
//!
//! A strided `dgrad` of few channels is one of stride 1 whose columns are positions and channels: [`spread_columns`]
//! uses the same launches.
//!
//! [`im2col_wgmma`]: super::im2col_wgmma
//! [`spread_columns`]: super::spread_columns

mod cut;
#[cfg(test)]
mod tests;

use super::im2col_wgmma::{Class, Filter, Positions, Spread, check_address, classes, tma_type};
use super::{ConvPass, ConvProblem, im2col_wgmma};
use crate::driver::{Function, GpuContext, Swizzle, TensorMap, Tiled, TmaType};
use crate::launch::{LaunchConfig, div_ceil, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_hopper};
use crate::{Context, DType, Error, Problem, Stream, TensorDesc};
use cut::Cut;
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::halo_wgmma::{
    ConvHaloParams, FEW_POSITIONS, MAX_SHARED_BYTES, SMALLER_TILE_M, STORES_QUADS, THREADS, TILE_M, position_bytes,
};

/// A row of the kernel list.
pub(super) struct Row {
    pub(super) symbol: &'static str,
    pub(super) pass: &'static str,
    pub(super) dtype: DType,
    pub(super) form: Form,
}

/// How a kernel is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    /// Positions of a tile.
    tile_m: u32,
    /// Columns of a tile: channels that are written.
    gemm_n: u32,
    /// Channels that are read at a time.
    depth: u32,
    /// How many of them are multiplied: where it is fewer, there are no others.
    multiplied: u32,
    /// Bytes that the product instructions read from shared memory for each tap and `depth` channels of a tile.
    operand_bytes: u32,
    /// Whether the filter is resident, and each consumer has tiles of its own.
    resident: bool,
}

impl Form {
    /// Columns of a tile.
    pub(super) fn gemm_n(self) -> u32 {
        self.gemm_n
    }

    /// Cycles of a multiprocessor for one tap and `depth` channels of a tile.
    fn product_cycles(self) -> f64 {
        /// Multiply-adds of its tensor cores in a cycle.
        const RATE: f64 = 2048.0;
        /// Bytes that product instructions were seen to read from shared memory in a cycle.
        const SHARED: f64 = 113.0;
        let products = f64::from(self.tile_m) * f64::from(self.gemm_n) * f64::from(self.multiplied);
        (products / RATE).max(f64::from(self.operand_bytes) / SHARED)
    }
}

macro_rules! rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $form:ident)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            form: $form,
        }),*]
    };
}

/// Four steps of four instructions with 64 positions as rows.
const P256_C16: Form =
    Form { tile_m: TILE_M, gemm_n: 16, depth: 64, multiplied: 64, operand_bytes: 16 * (64 + 16) * 32, resident: false };
const P256_C16_RESIDENT: Form = Form { resident: true, ..P256_C16 };
/// Four steps of an instruction with 64 channels as rows and 64 positions as columns, of each consumer for every other tap.
const C64_P64: Form = Form {
    tile_m: FEW_POSITIONS,
    gemm_n: 64,
    depth: 64,
    multiplied: 64,
    operand_bytes: 4 * (64 + 64) * 32,
    resident: false,
};
/// Four steps of two instructions with 64 channels as rows and half of the positions as columns.
const C64_P256: Form =
    Form { tile_m: TILE_M, gemm_n: 64, depth: 64, multiplied: 64, operand_bytes: 8 * (64 + 128) * 32, resident: false };
/// Two steps of them: for up to 32 channels to read, and others of which it leaves fewer over.
const C64_P256_D32: Form = Form { depth: 32, multiplied: 32, operand_bytes: 4 * (64 + 128) * 32, ..C64_P256 };
/// Three steps of them: for 33 to 48 channels to read.
const C64_P256_D48: Form = Form { multiplied: 48, operand_bytes: 6 * (64 + 128) * 32, ..C64_P256 };
/// Four steps of an instruction with all positions.
const C64_P256_RESIDENT: Form = Form { operand_bytes: 4 * (64 + 256) * 32, resident: true, ..C64_P256 };
/// Two steps of it.
const C64_P256_D32_RESIDENT: Form =
    Form { depth: 32, multiplied: 32, operand_bytes: 2 * (64 + 256) * 32, ..C64_P256_RESIDENT };
/// Four steps of two instructions with half of the channels and all positions.
const C128_P256: Form = Form { gemm_n: 128, operand_bytes: 8 * (64 + 256) * 32, ..C64_P256 };
/// The same with fewer positions, where rounds of those leave fewer multiprocessors idle.
const C128_P192: Form = Form { tile_m: SMALLER_TILE_M, operand_bytes: 8 * (64 + 192) * 32, ..C128_P256 };
const C128_P256_D48: Form = Form { multiplied: 48, operand_bytes: 6 * (64 + 256) * 32, ..C128_P256 };
const C128_P256_D32: Form = Form { depth: 32, multiplied: 32, operand_bytes: 4 * (64 + 256) * 32, ..C128_P256 };

pub(super) const KERNELS: &[Row] = kernel_abi::conv_halo_kernels!(rows);

/// Columns of a panel of the filter.
const PANEL: u32 = 64;
/// Size of an element.
const ELEMENT_BYTES: i64 = 2;
/// Bytes of a line of the caches.
const CACHE_LINE: i64 = 128;
/// The largest extent of a copy.
const MAX_BOX: i64 = 256;
/// The largest step of a copy.
const MAX_STEP: i64 = 8;
/// Stages of the filter's ring below which a block waits for it.
const MIN_STAGES: i64 = 3;
/// Cycles until a buffer is loaded anew.
const WAIT_CYCLES: f64 = 1600.0;
/// Stages of a resident filter that no shared memory holds.
const MAX_RESIDENT: i64 = 128;

/// `fprop` and `dgrad` with the halo in shared memory.
pub(super) struct HaloWgmma;

impl Algorithm<ConvProblem> for HaloWgmma {
    fn name(&self) -> &'static str {
        "halo_wgmma"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        let view = View::of(problem)?;
        let fits = |row: &&Row| row.pass == problem.pass() && row.dtype == problem.x().dtype() && view.fits(row.form);
        let configs: Vec<_> = KERNELS.iter().filter(fits).map(|row| Config(row.symbol)).collect();
        if configs.is_empty() {
            return Err(Refusal::new(format!(
                "needs rows whose halo fits in shared memory, given {} positions and {:?} taps",
                view.extents[2], view.filter.taps
            )));
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
        let us = view.time_us(row(config).form, problem.bytes(), context);
        us.max(crate::select::cost::streaming_us(problem, context))
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let view = View::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let names = if problem.conv_pass() == ConvPass::Fprop { ["x", "w"] } else { ["dy", "w"] };
        Ok(Box::new(HaloLaunch { product: Product::new(view, config, context)?, names }))
    }
}

pub(super) fn row(config: Config) -> &'static Row {
    KERNELS.iter().find(|row| row.symbol == config.0).expect("configs come from the kernel list")
}

/// A problem as the kernels see it.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) data_type: TmaType,
    pub(super) read: Positions,
    pub(super) filter: Filter,
    /// All positions that are written: they meet the same taps.
    pub(super) class: Class,
    /// D, H and W of the positions that are computed.
    pub(super) extents: [i64; 3],
    /// Distance between the positions that neighbours among them read, along each axis.
    pub(super) step: [i64; 3],
    pub(super) groups: i64,
    /// Channels of a group that are read.
    pub(super) channels: i64,
    /// Columns of a group.
    pub(super) columns: i64,
    /// Whether the filter lies with the dimension of the sum contiguous, as in `fprop`.
    pub(super) sum_is_contiguous: bool,
    /// Distances in the tensor that is written between images and along D, in elements.
    pub(super) strides: [i64; 2],
    /// What a column is, and the distances along H and W and between channels.
    pub(super) spread: Spread,
}

impl View {
    fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        let data_type = tma_type(problem.x().dtype())?;
        let shape = problem.shape();
        let fprop = match problem.conv_pass() {
            ConvPass::Fprop => true,
            ConvPass::Dgrad => false,
            ConvPass::Wgrad => return Err(Refusal::new("computes fprop and dgrad, the pass is wgrad")),
        };
        let strides = shape.axes.map(|axis| axis.stride);
        if !fprop && strides != [1; 3] {
            return Err(Refusal::new(format!("takes dgrad of stride 1, given {strides:?}")));
        }
        if let Some(stride) = strides[1..].iter().find(|&&stride| stride > MAX_STEP) {
            return Err(Refusal::new(format!("the copy engine takes steps of up to {MAX_STEP}, given {stride}")));
        }
        let (read, written) = if fprop { (problem.x(), problem.y()) } else { (problem.y(), problem.x()) };
        let read = Positions::of(if fprop { "x" } else { "dy" }, read, false)?;
        let (classes, step) = classes(problem);
        let class = classes[0];
        // One tap reads nothing twice; the tile of 16 channels is for few that are written.
        if class.n_taps() < 2 && written.dims()[1] > 16 {
            return Err(Refusal::new("takes filters of several taps, given one, or up to 16 channels to write"));
        }
        let [image, d, h, w] = spatial_strides(written);
        Ok(View {
            data_type,
            filter: Filter::of("w", problem.w())?,
            extents: class.axes.map(|axis| axis.extent),
            step,
            groups: shape.groups,
            channels: read.channels / shape.groups,
            columns: written.dims()[1] / shape.groups,
            sum_is_contiguous: fprop,
            strides: [image, d],
            spread: Spread {
                counts: [1, 1, written.dims()[1] / shape.groups],
                extents: [class.axes[1].extent, class.axes[2].extent],
                strides: [h, w, written.strides()[1]],
            },
            read,
            class,
        })
    }

    /// Whether a kernel takes it, without columns that nobody needs.
    pub(super) fn fits(&self, form: Form) -> bool {
        let too_wide = match form.gemm_n {
            16 => self.columns > 16,
            64 => self.columns <= 16,
            _ => self.columns <= 64,
        };
        let too_flat = form.depth < 64 && 2 * self.panels(64) <= self.panels(form.depth);
        // For fewer there are forms of half the depth.
        let other_channels = form.multiplied < form.depth
            && !(i64::from(form.depth / 2) + 1..=i64::from(form.multiplied)).contains(&self.channels);
        // With more tiles than that, each of more positions would do.
        const MANY_TILES: i64 = 1024;
        // The next group's channels may be no numbers, which times the filter's zeros are none either.
        let reaches_over = self.groups > 1 && self.channels % i64::from(form.depth) != 0;
        let most = if form.tile_m == FEW_POSITIONS { MANY_TILES } else { i64::from(i32::MAX) };
        let cut = self.cut(form).filter(|cut| self.groups * self.n_tiles(cut, form.gemm_n) <= most);
        !too_wide && !too_flat && !other_channels && !reaches_over && cut.is_some()
    }

    /// Panels of so many channels that are read.
    fn panels(&self, depth: u32) -> i64 {
        div_ceil(self.channels, i64::from(depth))
    }

    /// Products of a tile: one for each tap and panel.
    fn n_products(&self, form: Form) -> i64 {
        self.class.n_taps() * self.panels(form.depth)
    }

    /// Time of the products alone.
    ///
    /// The figures were fitted to 550 times on an H200 (deepbench_conv, densenet40, resnet50, vgg, unet3d and others, by
    /// `compare --verbose`); nine of ten estimates are within 10 % of the times.
    pub(super) fn products_us(&self, form: Form, context: &Context) -> f64 {
        /// From the end of the kernel before to the first product, and from the last store to the end.
        const ENDS_US: f64 = 2.75;
        /// The same until a resident filter is there.
        const RESIDENT_US: f64 = 1.4;
        /// Clock of few products, and with what the longer of both takes of it.
        const CYCLES_PER_US: f64 = 2000.0;
        /// Bytes that the second-level cache delivers to all blocks in a microsecond, and how much longer rows take that
        /// begin inside of a cache line.
        const CACHE: f64 = 36.6e6;
        const ACROSS_LINES: f64 = 0.5;
        /// From a tile's last product to its last store, in which its consumers do not compute: for the tile, and for 64
        /// columns, which take longer where rows begin inside of a cache line.
        const TILE_US: f64 = 0.63;
        const COLUMNS_US: f64 = 0.17;
        const COLUMNS_ACROSS_LINES: f64 = 0.7;
        let Some(cut) = self.cut(form) else { return f64::INFINITY };
        let n = f64::from(form.gemm_n);
        let parts = self.parts().map(|parts| parts.count).iter().product::<i64>() as f64;
        let taps = (self.class.axes[1].n_taps * self.class.axes[2].n_taps) as f64;
        let halo = f64::from(cut.shared.buffer_bytes) * parts / taps;
        let halo = halo * (1.0 + self.read.misalignment(ACROSS_LINES, 0.0));
        let loaded = halo + if form.resident { 0.0 } else { n * f64::from(position_bytes(form.depth)) };
        let n_units = context.info().n_units as i64;
        let (shares, rounds) = self.shares(&cut, form, n_units);
        let blocks = if form.resident { shares * self.groups } else { shares };
        let loads = blocks.min(n_units) as f64 * loaded / CACHE;
        let product = form.product_cycles() / CYCLES_PER_US + loads;
        let aligned = self.spread.strides[1] * ELEMENT_BYTES % CACHE_LINE == 0;
        let columns = COLUMNS_US * n / 64.0 * if aligned { 1.0 } else { 1.0 + COLUMNS_ACROSS_LINES };
        let sum = self.n_products(form) as f64 * product;
        let out = TILE_US + columns;
        let waits = self.waits(&cut, form) as f64 * WAIT_CYCLES / CYCLES_PER_US;
        if form.resident {
            // Each of two consumers has tiles of its own, which take twice as long.
            let rounds = rounds * div_ceil(self.groups, n_units);
            ENDS_US + RESIDENT_US + rounds as f64 * (2.17 * sum + out + waits)
        } else {
            ENDS_US + rounds as f64 * (sum + out)
        }
    }

    /// Time of a run with so many bytes of operands.
    fn time_us(&self, form: Form, bytes: f64, context: &Context) -> f64 {
        /// Bytes a microsecond of what all of it waits for the memory.
        const MEMORY: f64 = 10.0e6;
        self.products_us(form, context) + bytes / MEMORY
    }

    fn params(&self, cut: &Cut, form: Form) -> ConvHaloParams {
        let [_, r, s] = self.filter.taps;
        let linear = [r * s, s, 1];
        let axes = self.class.axes;
        let [row, column, channel] = self.spread.strides;
        let all = [self.strides[0], self.strides[1], row, column].iter().fold(self.columns, |all, stride| all | stride);
        let [_, block_w, channels] = self.spread.counts;
        let run = block_w * channels;
        let is_block = self.spread.counts[..2] != [1, 1];
        // Rows of a block whose fours of elements are four elements of a row of what is written, and all inside or outside.
        let fours = [self.strides[0], self.strides[1], row, run, self.spread.extents[1] * channels];
        let by_fours = form.gemm_n == PANEL && column == channels && fours.iter().all(|value| value % 4 == 0);
        let whole = match all {
            _ if channel != 1 => 0,
            _ if is_block && by_fours => STORES_QUADS,
            _ if is_block => 0,
            all if all % 8 == 0 => 16,
            all if all % 4 == 0 => 8,
            _ => 0,
        };
        let divisor = |value: i64| Divisor::new(value as u32);
        let parts = self.parts();
        // The rows of one image are never those of a next one.
        let image_rows = if cut.m_blocks == 1 && cut.strips == 1 { cut.image_rows } else { 1 << 30 };
        ConvHaloParams {
            a_map: [0; 16],
            b_map: [0; 16],
            shared: cut.shared,
            pitch: divisor(cut.pitch),
            rows: (cut.images * cut.image_rows) as u32,
            tail: cut.tail as u32,
            images: cut.images as u32,
            image_rows: divisor(image_rows),
            n_images: self.read.images as u32,
            n_tiles: self.n_tiles(cut, form.gemm_n) as u32,
            groups: divisor(self.groups),
            channels: self.channels as u32,
            group_k: if self.sum_is_contiguous { self.columns as u32 } else { self.channels as u32 },
            n_blocks: divisor(div_ceil(self.columns, i64::from(form.gemm_n))),
            m_blocks: divisor(cut.m_blocks),
            strips: divisor(cut.strips),
            strip_w: cut.strip_w as u32,
            extents: self.extents.map(|extent| extent as u32),
            planes: divisor(self.extents[0]),
            step: self.step.map(|step| step as u32),
            base: axes.map(|axis| axis.base as i32),
            taps: axes.map(|axis| axis.n_taps as u32),
            parts: parts.map(|parts| parts.count as u32),
            part_taps: parts.map(|parts| (parts.axis.n_taps / parts.count) as u32),
            longer_parts: parts.map(|parts| (parts.axis.n_taps % parts.count) as u32),
            shift: parts.map(|parts| parts.shift as u32),
            tap_offset: axes.map(|axis| axis.tap_offset as u32),
            first_tap: (0..3).map(|i| axes[i].first_tap * linear[i]).sum::<i64>() as i32,
            tap_step: std::array::from_fn(|i| (axes[i].tap_step * linear[i]) as i32),
            panels: self.panels(form.depth) as u32,
            gemm_n: self.columns as u32,
            spread: self.spread.counts.map(divisor),
            spread_extents: self.spread.extents.map(|extent| extent as u32),
            stores_whole: whole,
            run: divisor(run / 4),
            out: 0,
            strides: [self.strides[0], self.strides[1], row, column, channel],
            alpha: 1.0,
            beta: 0.0,
        }
    }

    /// A map of boxes of whole rows, with their padding.
    fn read_map(&self, context: &GpuContext, address: u64, cut: &Cut, depth: u32) -> Result<[u64; 16], Error> {
        let Positions { channels, extents: [d, h, w], strides: [sd, sh, sw], images, image_stride, .. } = self.read;
        let [_, step_h, step_w] = self.step.map(|step| step as u32);
        let span = |count: i64, step: u32| (count as u32 - 1) * step + 1;
        let tiled = Tiled {
            data_type: self.data_type,
            address,
            dims: &[channels, w, h, d, images].map(|dim| dim as u64),
            strides_bytes: &[sw, sh, sd, image_stride].map(|stride| (stride * ELEMENT_BYTES) as u64),
            box_dims: &[depth, span(cut.pitch, step_w), span(cut.image_rows, step_h), 1, cut.images as u32],
            element_strides: &[1, step_w, step_h, 1, 1],
            swizzle: if depth == 64 { Swizzle::B128 } else { Swizzle::B64 },
        };
        Ok(TensorMap::tiled(context, &tiled)?.words())
    }
}

/// Strides of images, D, H and W; 0 where there is no such axis.
pub(super) fn spatial_strides(desc: &TensorDesc) -> [i64; 4] {
    let strides = desc.strides();
    let absent = 5 - strides.len();
    std::array::from_fn(|i| match i {
        0 => strides[0],
        _ if i > absent => strides[1 + i - absent],
        _ => 0,
    })
}

/// Launches whose parameters are complete but for addresses, and so maps, and scalars.
pub(super) struct Product {
    function: Function,
    config: LaunchConfig,
    view: View,
    cut: Cut,
    form: Form,
    params: ConvHaloParams,
}

impl Product {
    /// The launches of a view by a kernel that [`View::fits`].
    pub(super) fn new(view: View, config: Config, context: &Context) -> Result<Self, Error> {
        let form = row(config).form;
        let cut = view.cut(form).expect("configs are those that fit");
        let params = view.params(&cut, form);
        let function = context.function(config.0)?;
        // Not this problem's size: plans share the function.
        function.allow_dynamic_shared(MAX_SHARED_BYTES as usize)?;
        let (shares, _) = view.shares(&cut, form, context.info().n_units as i64);
        let blocks = if form.resident { shares * view.groups } else { shares } as u32;
        let config = LaunchConfig {
            grid: [blocks, 1, 1],
            block: [THREADS, 1, 1],
            shared_bytes: cut.shared.bytes(),
            programmatic: true,
            ..LaunchConfig::default()
        };
        Ok(Product { function, config, view, cut, form, params })
    }

    /// Queues the product of what lies at these addresses: the tensor that is read, the filter, the tensor that is
    /// written.
    pub(super) fn launch(
        &self,
        stream: &Stream,
        [read, filter, written]: [u64; 3],
        alpha: f64,
        beta: f64,
    ) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.function.name())?;
        let context = stream.context();
        let Form { gemm_n, depth, .. } = self.form;
        // The filter's box: rows of the columns where the sum is contiguous, else of the sum.
        let (rows, columns) = if self.view.sum_is_contiguous { (gemm_n, depth) } else { (depth, PANEL) };
        let mut params = self.params;
        params.a_map = self.view.read_map(context, read, &self.cut, depth)?;
        params.b_map = self.view.filter.map(context, self.view.data_type, filter, rows, columns)?;
        params.out = written;
        if params.stores_whole == 16 && !written.is_multiple_of(16) {
            params.stores_whole = 8;
        }
        if !written.is_multiple_of(8) {
            params.stores_whole = 0;
        }
        (params.alpha, params.beta) = (alpha as f32, beta as f32);
        launch(&self.function, &self.config, stream, &params)
    }
}

/// A product by a kernel of this algorithm, or by one of [`im2col_wgmma`](super::im2col_wgmma) that gathers.
pub(super) enum EitherProduct {
    Gather(Box<im2col_wgmma::Product>),
    Halo(Box<Product>),
}

impl EitherProduct {
    /// The product of a view by the kernel of a config that gathers.
    pub(super) fn gather(view: im2col_wgmma::View, config: Config, context: &Context) -> Result<Self, Error> {
        let tile = im2col_wgmma::row(config).tile;
        let function = context.function(config.0)?;
        function.allow_dynamic_shared(tile.smem_bytes() as usize)?;
        Ok(EitherProduct::Gather(Box::new(im2col_wgmma::Product::new(view, function, tile, context))))
    }

    /// The product of a view by the kernel of a config that reads the halo once.
    pub(super) fn halo(view: View, config: Config, context: &Context) -> Result<Self, Error> {
        Ok(EitherProduct::Halo(Box::new(Product::new(view, config, context)?)))
    }

    /// Queues it: see [`Product::launch`].
    pub(super) fn launch(&self, stream: &Stream, addresses: [u64; 3], alpha: f64, beta: f64) -> Result<(), Error> {
        match self {
            EitherProduct::Gather(product) => product.launch(stream, addresses, alpha, beta),
            EitherProduct::Halo(product) => product.launch(stream, addresses, alpha, beta),
        }
    }
}

/// One product between the operands as they are.
struct HaloLaunch {
    product: Product,
    names: [&'static str; 2],
}

impl Launch for HaloLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let addresses = [0, 1, 2].map(|operand| call.address(operand));
        check_address(self.names[0], addresses[0])?;
        check_address(self.names[1], addresses[1])?;
        self.product.launch(stream, addresses, call.alpha, call.beta)
    }
}
