//! `fprop` of 8-bit numbers, and of f32 where tf32 is allowed, on Hopper's tensor cores.
//!
//! The kernels take x and w channels-last, positions at multiples of 16 bytes; others are copied into the workspace
//! first. y lies anyhow. Built on the views of `im2col_wgmma`.

use super::im2col_wgmma::{
    CYCLES_PER_US, Class, ENDS_US, Filter, Positions, View, check_address, check_device, check_window, classes,
    unsupported,
};
use super::nchw_transposed::channels_last;
use super::{ConvPass, ConvProblem};
use crate::driver::{Function, GpuContext, Swizzle, TensorMap, Tiled, TmaType};
use crate::launch::{LaunchConfig, launch, store_params};
use crate::ops::transform::Copying;
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, DType, Error, Math, Stream, TensorDesc};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, MAX_CLASSES, THREADS, access};
use kernel_abi::ops::conv::kmajor_wgmma::ConvKMajorParams;
use kernel_abi::store::StoreParams;

/// A row of the kernel list.
struct Row {
    symbol: &'static str,
    dtype: DType,
    tile: ConvTile,
}

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident, $tile:ident)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            dtype: read_type!($dtype),
            tile: kernel_abi::ops::conv::kmajor_wgmma::$tile,
        }),*]
    };
}

macro_rules! read_type {
    (tf32) => {
        DType::F32
    };
    ($dtype:ident) => {
        kernel_abi::dtype_of!($dtype)
    };
}

const KERNELS: &[Row] = kernel_abi::conv_kmajor_wgmma_kernels!(rows);

/// What copies in the workspace are aligned to.
const GRAIN: u64 = 256;

/// Bytes of a row of shared memory.
const ROW_BYTES: i64 = 128;

/// `fprop` of channels-last tensors.
pub(super) struct KMajorWgmma;

fn row(config: Config) -> &'static Row {
    KERNELS.iter().find(|row| row.symbol == config.0).expect("configs come from the kernel list")
}

impl Algorithm<ConvProblem> for KMajorWgmma {
    fn name(&self) -> &'static str {
        "kmajor_wgmma"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_device(context)?;
        let view = KMajorView::of(problem)?;
        let fits = |row: &&Row| row.dtype == problem.x().dtype() && view.fits(row.tile);
        Ok(KERNELS.iter().filter(fits).map(|row| Config(row.symbol)).collect())
    }

    fn workspace_bytes(&self, problem: &ConvProblem, _: Config) -> u64 {
        KMajorView::of(problem).map_or(0, |view| view.layout()[2])
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        let Ok(view) = KMajorView::of(problem) else { return f64::INFINITY };
        let streaming = crate::select::cost::streaming_us(problem, context);
        let copies = view.copies.iter().flatten();
        let copies_us: f64 = copies.map(|copy| Copying::estimate_us(&copy.from, &copy.to, context)).sum();
        copies_us + streaming.max(view.products_us(row(config).tile, context))
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let view = KMajorView::of(problem).map_err(|refusal| unsupported(problem, refusal))?;
        let tile = row(config).tile;
        let function = context.function(config.0)?;
        function.set_max_dynamic_shared(tile.smem_bytes() as usize)?;
        let parts = view.launches(tile, (context.info().n_units as u64).max(1));
        let mut copies = [None, None];
        for (copying, copy) in copies.iter_mut().zip(&view.copies) {
            if let Some(copy) = copy {
                *copying = Some(Copying::new(&copy.from, &copy.to, context)?);
            }
        }
        Ok(Box::new(KMajorLaunch { function, tile, parts, view, copies }))
    }
}

/// A problem as the kernels see it.
#[derive(Debug)]
struct KMajorView {
    view: View,
    /// Size of an element that is read.
    element_bytes: i64,
    store: StoreParams,
    /// Of x and w, where no map can describe them as they are.
    copies: [Option<Copy>; 2],
}

/// A channels-last copy in the workspace.
#[derive(Debug)]
struct Copy {
    from: TensorDesc,
    to: TensorDesc,
}

impl KMajorView {
    fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        let dtype = problem.x().dtype();
        let data_type = match dtype {
            DType::I8 | DType::F8E4M3 | DType::F8E5M2 => TmaType::U8,
            DType::F32 if problem.math() == Math::Tf32 => TmaType::TF32,
            DType::F32 => return Err(Refusal::new("reads f32 as tf32, which takes math=tf32")),
            other => {
                let reason = format!("has kernels for i8, f8e4m3, f8e5m2 and tf32, the element type is {other}");
                return Err(Refusal::new(reason));
            }
        };
        if problem.conv_pass() != ConvPass::Fprop {
            return Err(Refusal::new(format!("computes fprop, the pass is {}", problem.conv_pass())));
        }
        let shape = problem.shape();
        let element_bytes = dtype.size_bytes() as i64;
        let group_c = shape.group_c();
        // A row of shared memory must not reach into the next group: the filter's zeros would not mask its NaNs.
        if shape.groups > 1 && group_c * element_bytes % ROW_BYTES != 0 {
            let by = ROW_BYTES / element_bytes;
            return Err(Refusal::new(format!("takes groups of multiples of {by} channels, given {group_c}")));
        }
        let relaid = |desc: &TensorDesc| channels_last(desc, true).map_err(|e| Refusal::new(e.to_string()));
        let mut copies = [None, None];
        let read = match Positions::of("x", problem.x(), false) {
            Ok(read) => read,
            Err(_) => {
                let to = relaid(problem.x())?;
                copies[0] = Some(Copy { from: *problem.x(), to });
                Positions::of("x", &to, false)?
            }
        };
        let filter = match Filter::of("w", problem.w()) {
            Ok(filter) => filter,
            Err(_) => {
                let to = relaid(problem.w())?;
                copies[1] = Some(Copy { from: *problem.w(), to });
                Filter::of("w", &to)?
            }
        };
        let written = Positions::anyhow(problem.y());
        let (classes, step) = classes(problem);
        let one = &classes[0];
        // One tap that reads where it writes: a plain product.
        let same_place = one.n_taps() == 1
            && step == [1; 3]
            && one.axes.iter().all(|axis| axis.base == 0)
            && read.extents == written.extents;
        let im2col = if problem.axes().len() < 3 { access::IM2COL_2D } else { access::IM2COL_3D };
        let a_access = if same_place && read.linear_stride().is_some() { access::LINEAR } else { im2col };
        if a_access != access::LINEAR {
            check_window("x", &read, &one.window(step), one.last_offset(), a_access)?;
        }
        let positions = written.count();
        if positions > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("counts up to {} positions, y has {positions}", i32::MAX)));
        }
        let view = View {
            data_type,
            read,
            written,
            filter,
            classes,
            step,
            groups: shape.groups,
            group_read: group_c,
            group_written: shape.group_k(),
            a_access,
            out_access: access::LINEAR,
            sum_is_contiguous: true,
            planes: None,
            spread: None,
        };
        let n_tiles = view.n_tiles(&view.classes[0], KERNELS[0].tile);
        // Narrower tiles are at most four times as many.
        if n_tiles >= 1 << 28 {
            return Err(Refusal::new(format!("counts up to 2^28 tiles, given {n_tiles}")));
        }
        let store = store_params(problem.y().dtype(), problem.y().strides()[1]);
        Ok(KMajorView { view, element_bytes, store, copies })
    }

    /// Where the copies of x and w begin, and where they end.
    fn layout(&self) -> [u64; 3] {
        let bytes = |copy: &Option<Copy>| copy.as_ref().map_or(0, |copy| copy.to.span_bytes().next_multiple_of(GRAIN));
        let [x, w] = &self.copies;
        [0, bytes(x), bytes(x) + bytes(w)]
    }

    /// Whether the tile is no wider than it needs to be.
    fn fits(&self, tile: ConvTile) -> bool {
        tile.gemm_n <= 64 || self.view.group_written > i64::from(tile.gemm_n) / 2
    }

    /// Channels of a group that are read, in units of 2 bytes.
    fn channels(&self) -> u32 {
        ((self.view.group_read * self.element_bytes) as u64).div_ceil(2) as u32
    }

    /// Elements of a row of shared memory.
    fn row_elems(&self) -> u32 {
        (ROW_BYTES / self.element_bytes) as u32
    }

    /// Time of the products: those of 2 bytes, since a row takes as long whatever it holds.
    fn products_us(&self, tile: ConvTile, context: &Context) -> f64 {
        /// Multiply-adds of 2 bytes of a multiprocessor's tensor cores in a cycle.
        const RATE: f64 = 2048.0;
        /// Bytes that the second-level cache delivers to a multiprocessor in a cycle.
        const CACHE: f64 = 56.0;
        /// Cycles from a tile's last product to its last store, in which its consumers do not compute.
        const EPILOGUE: f64 = 800.0;
        let products = f64::from(tile.gemm_m * tile.gemm_n * 64) / RATE;
        let stage = products.max(f64::from(tile.stage_bytes()) / CACHE) / 0.9;
        let class = &self.view.classes[0];
        let stages = class.n_taps() as f64 * f64::from(self.channels().div_ceil(64));
        let n_units = (context.info().n_units as u64).max(1);
        let epilogue = EPILOGUE + f64::from(tile.gemm_m * tile.gemm_n) / 16.0;
        let rounds = self.view.n_tiles(class, tile).div_ceil(n_units) as f64;
        ENDS_US + rounds * (stages * stage + epilogue) / CYCLES_PER_US
    }

    /// Launches of up to [`MAX_CLASSES`] classes each.
    fn launches(&self, tile: ConvTile, n_units: u64) -> Vec<Part> {
        let part = |classes: &[Class]| {
            let n_tiles: u64 = classes.iter().map(|class| self.view.n_tiles(class, tile)).sum();
            // As few blocks as do it in the same number of rounds: the others would only draw power.
            let blocks = n_tiles.div_ceil(n_tiles.div_ceil(n_units));
            let mut gather = self.view.params(classes, tile, n_tiles as u32);
            gather.channels = self.channels();
            Part {
                config: LaunchConfig {
                    grid: [blocks as u32, 1, 1],
                    block: [THREADS, 1, 1],
                    shared_bytes: tile.smem_bytes(),
                    programmatic: true,
                    ..LaunchConfig::default()
                },
                params: ConvKMajorParams { gather, store: self.store },
                classes: classes.to_vec(),
            }
        };
        self.view.classes.chunks(MAX_CLASSES).map(part).collect()
    }

    /// Whether every access of the kernel's stores is whole and aligned.
    fn stores_whole(&self, address: u64) -> bool {
        let written = &self.view.written;
        let bytes = StoreParams::access_bytes(self.store.element_bytes);
        let all = written.strides.into_iter().chain([written.image_stride, self.view.group_written]);
        let element_bytes = u64::from(self.store.element_bytes);
        self.store.col_stride == 1
            && all.fold(address, |all, elems| all | (elems as u64 * element_bytes)).is_multiple_of(bytes.into())
    }

    /// The map of the filter, for tiles of so many rows.
    fn filter_map(&self, context: &GpuContext, address: u64, rows: u32) -> Result<[u64; 16], Error> {
        let filter = &self.view.filter;
        let tiled = Tiled {
            data_type: self.view.data_type,
            address,
            dims: &[filter.group_c as u64, filter.n_taps() as u64, filter.k as u64],
            strides_bytes: &[
                (filter.tap_stride * self.element_bytes) as u64,
                (filter.k_stride * self.element_bytes) as u64,
            ],
            box_dims: &[self.row_elems(), 1, rows],
            swizzle: Swizzle::B128,
        };
        Ok(TensorMap::tiled(context, &tiled)?.words())
    }
}

/// Up to [`MAX_CLASSES`] classes.
struct Part {
    config: LaunchConfig,
    params: ConvKMajorParams,
    classes: Vec<Class>,
}

/// Launches whose parameters are complete but for addresses, and so maps, and scalars.
struct KMajorLaunch {
    function: Function,
    tile: ConvTile,
    parts: Vec<Part>,
    view: KMajorView,
    copies: [Option<Copying>; 2],
}

impl Launch for KMajorLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let (mut inputs, written) = ([call.address(0), call.address(1)], call.address(2));
        let (Some(gpu_stream), Some(context)) = (stream.gpu_stream(), stream.context().gpu_context()) else {
            return Err(Error::NoDevice { reason: format!("{} needs a GPU's stream", self.function.name()) });
        };
        let view = &self.view;
        for (i, copy) in self.copies.iter().enumerate() {
            match copy {
                Some(copy) => {
                    let to = call.workspace_address() + view.layout()[i];
                    copy.launch(gpu_stream, inputs[i], to)?;
                    inputs[i] = to;
                }
                None => check_address(["x", "w"][i], inputs[i])?,
            }
        }
        let [read, filter] = inputs;
        let b_map = view.filter_map(context, filter, self.tile.gemm_n)?;
        // Rows of 128 bytes, whatever they hold.
        let tile = ConvTile { panel_k: view.row_elems(), ..self.tile };
        for part in &self.parts {
            let mut params = part.params;
            for (map, class) in params.gather.a_maps.iter_mut().zip(&part.classes) {
                *map = view.view.a_map(context, class, tile, read)?;
            }
            params.gather.b_map = b_map;
            params.gather.out = written;
            (params.store.alpha, params.store.beta) = (call.alpha, call.beta);
            params.store.whole = u32::from(view.stores_whole(written));
            launch(&self.function, &part.config, gpu_stream, &params)
                .map_err(|source| Error::Launch { kernel: self.function.name().to_owned(), source })?;
        }
        Ok(())
    }
}
