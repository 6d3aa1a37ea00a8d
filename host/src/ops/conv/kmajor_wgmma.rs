//! `fprop` of 8-bit numbers, and `fprop` and `dgrad` of f32 where tf32 is allowed, on Hopper's tensor cores.
//!
//! The kernels take the images that are read and w channels-last (`dgrad`: w with k contiguous), positions at multiples of 16 bytes; others are copied into the workspace
//! first. The result lies anyhow. Built on the views of `im2col_wgmma`.

use super::im2col_wgmma::{
    CYCLES_PER_US, Class, ENDS_US, Filter, Positions, View, check_address, classes, five, read_access,
};
use super::nchw_transposed::channels_last;
use super::{ConvPass, ConvProblem};
use crate::driver::{Function, GpuContext, Swizzle, TensorMap, Tiled, TmaType};
use crate::launch::{LaunchConfig, div_ceil, launch, scales_only, store_params};
use crate::ops::transform::Copying;
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread, check_hopper};
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

/// `fprop` and `dgrad`.
pub(super) struct KMajorWgmma;

fn row(config: Config) -> &'static Row {
    KERNELS.iter().find(|row| row.symbol == config.0).expect("configs come from the kernel list")
}

impl Algorithm<ConvProblem> for KMajorWgmma {
    fn name(&self) -> &'static str {
        "kmajor_wgmma"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        let view = KMajorView::of(problem)?;
        let fits = |row: &&Row| row.dtype == problem.x().dtype() && view.fits(row.tile);
        Ok(KERNELS.iter().filter(fits).map(|row| Config(row.symbol)).collect())
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        crate::ops::conv::algorithms::padding_spread(problem)
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
        let view = KMajorView::of(problem).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let tile = row(config).tile;
        let function = context.function(config.0)?;
        function.allow_dynamic_shared(tile.smem_bytes() as usize)?;
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
    read_name: &'static str,
    /// Size of an element that is read.
    element_bytes: i64,
    store: StoreParams,
    /// Of the operands that are read, where no map can describe them as they are.
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
        let fprop = match problem.conv_pass() {
            ConvPass::Fprop => true,
            ConvPass::Dgrad => false,
            ConvPass::Wgrad => return Err(Refusal::new("computes fprop and dgrad, the pass is wgrad")),
        };
        let shape = problem.shape();
        let (group_read, group_written) =
            if fprop { (shape.group_c(), shape.group_k()) } else { (shape.group_k(), shape.group_c()) };
        let (name, read_desc, written_desc) =
            if fprop { ("x", problem.x(), problem.y()) } else { ("dy", problem.y(), problem.x()) };
        let element_bytes = dtype.size_bytes() as i64;
        // A row of shared memory must not reach into the next group: the filter's zeros would not mask its NaNs, which
        // integers do not have. The copy engine begins at multiples of 16 bytes.
        let by = if dtype == DType::I8 { 16 } else { ROW_BYTES / element_bytes };
        if shape.groups > 1 && group_read % by != 0 {
            return Err(Refusal::new(format!("takes groups of multiples of {by} channels, given {group_read}")));
        }
        let mut copies = [None, None];
        let read = match Positions::of(name, read_desc, false) {
            Ok(read) => read,
            Err(_) => {
                let to = channels_last(read_desc, true).map_err(Refusal::from)?;
                copies[0] = Some(Copy { from: *read_desc, to });
                Positions::of(name, &to, false)?
            }
        };
        let filter = match Filter::of("w", problem.w()) {
            Ok(filter) if fprop => filter,
            _ if fprop => {
                let to = channels_last(problem.w(), true).map_err(Refusal::from)?;
                copies[1] = Some(Copy { from: *problem.w(), to });
                Filter::of("w", &to)?
            }
            _ => {
                let (copy, filter) = turned(problem).map_err(Refusal::from)?;
                copies[1] = Some(copy);
                filter
            }
        };
        let written = Positions::anyhow(written_desc);
        let (classes, step) = classes(problem);
        let a_access = read_access(name, (&classes, step), &read, &written, problem.axes().len())?;
        let positions = written.count();
        if positions > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("counts up to {} positions, the result has {positions}", i32::MAX)));
        }
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
            out_access: access::LINEAR,
            sum_is_contiguous: true,
            planes: None,
            spread: None,
        };
        let n_tiles: u64 = view.classes.iter().map(|class| view.n_tiles(class, KERNELS[0].tile)).sum();
        // Narrower tiles are at most four times as many.
        if n_tiles >= 1 << 28 {
            return Err(Refusal::new(format!("counts up to 2^28 tiles, given {n_tiles}")));
        }
        let store = store_params(written_desc.dtype(), written_desc.strides()[1]);
        Ok(KMajorView { view, read_name: name, element_bytes, store, copies })
    }

    /// Where the copies begin, and where they end.
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
        let epilogue = EPILOGUE + f64::from(tile.gemm_m * tile.gemm_n) / 16.0;
        let of_tile =
            |class: &Class| class.n_taps() as f64 * f64::from(self.channels().div_ceil(64)) * stage + epilogue;
        ENDS_US + self.view.rounds_cycles(tile, context, of_tile) / CYCLES_PER_US
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
            element_strides: &[],
            swizzle: Swizzle::B128,
        };
        Ok(TensorMap::tiled(context, &tiled)?.words())
    }
}

/// The filter of `dgrad` with the sum's channels contiguous, `[C][taps][K of a group]`: its copy, and the copy as the
/// kernels see it.
fn turned(problem: &ConvProblem) -> Result<(Copy, Filter), kernel_abi::BadDescriptor> {
    let (shape, w) = (problem.shape(), problem.w());
    let [k, c, t, r, s] = five(w);
    let (groups, group_c, group_k) = (shape.groups, shape.group_c(), shape.group_k());
    let [n_t, n_r, n_s] = shape.filter;
    let run = 16 / w.dtype().size_bytes() as i64;
    let tap_stride = div_ceil(group_k, run) * run;
    let row_stride = (n_t * n_r * n_s).saturating_mul(tap_stride);
    let dims = [groups, group_k, group_c, n_t, n_r, n_s];
    let from = TensorDesc::strided(w.dtype(), &dims, &[group_k * k, k, c, t, r, s])?;
    let to_strides =
        [group_c.saturating_mul(row_stride), 1, row_stride, n_r * n_s * tap_stride, n_s * tap_stride, tap_stride];
    let to = TensorDesc::strided(w.dtype(), &dims, &to_strides)?;
    let filter = Filter { k: shape.c, group_c: group_k, taps: shape.filter, tap_stride, k_stride: row_stride };
    Ok((Copy { from, to }, filter))
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
        let gpu_stream = stream.gpu_stream_for(self.function.name())?;
        let context = gpu_stream.context();
        let view = &self.view;
        for (i, copy) in self.copies.iter().enumerate() {
            match copy {
                Some(copy) => {
                    let to = call.workspace_address() + view.layout()[i];
                    copy.launch(gpu_stream, inputs[i], to)?;
                    inputs[i] = to;
                }
                None => check_address([view.read_name, "w"][i], inputs[i])?,
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
            params.store.whole = u32::from(scales_only(&params.store) && view.stores_whole(written));
            launch(&self.function, &part.config, gpu_stream, &params)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(text: &str) -> Result<KMajorView, String> {
        let problem: ConvProblem = format!("conv:{text}").parse().unwrap();
        KMajorView::of(&problem).map_err(|Refusal(reason)| reason)
    }

    #[test]
    fn channels_are_counted_in_units_of_2_bytes() {
        let units = |text: &str| {
            let view = view(text).unwrap();
            (view.channels(), view.row_elems(), view.copies.iter().flatten().count())
        };
        assert_eq!(units("fprop x=1x64x4x4:i8:nhwc w=8x64x1x1:i8:nhwc"), (32, 128, 0));
        assert_eq!(units("fprop x=1x48x4x4:f8e4m3:nhwc w=8x48x3x3:f8e4m3:nhwc"), (24, 128, 0));
        assert_eq!(units("fprop math=tf32 x=1x36x4x4:f32:nhwc w=8x36x1x1:f32:nhwc"), (72, 32, 0));
        // Channels that are no multiple of 16 bytes, or not contiguous, are copied, and so is their filter.
        assert_eq!(units("fprop x=1x67x4x4:i8:nhwc w=8x67x1x1:i8:nhwc"), (34, 128, 2));
        assert_eq!(units("fprop math=tf32 x=1x32x4x4:f32 w=8x32x3x3:f32"), (64, 32, 2));
    }

    #[test]
    fn copies_lie_as_the_maps_want_them() {
        let [x, w] = view("fprop x=2x3x4x5:i8 w=8x3x1x2:i8").unwrap().copies.map(|copy| copy.unwrap().to);
        assert_eq!(x.to_string(), "2x3x4x5:i8:s320x1x80x16");
        assert_eq!(w.to_string(), "8x3x1x2:i8:s32x1x32x16");
        // The filter of dgrad: [group][c][taps][k], k filled up to 16 bytes.
        let dgrad = view("dgrad math=tf32 dx=2x5x4x4:f32:nhwc w=6x5x3x3:f32:nhwc dy=2x6x2x2:f32:nhwc").unwrap();
        let copy = dgrad.copies[1].as_ref().unwrap();
        assert_eq!(copy.from.to_string(), "1x6x5x1x3x3:f32:s270x45x1x0x15x5");
        assert_eq!(copy.to.to_string(), "1x6x5x1x3x3:f32:s360x1x72x72x24x8");
        let filter = &dgrad.view.filter;
        assert_eq!((filter.k, filter.group_c, filter.tap_stride, filter.k_stride), (5, 6, 8, 72));
    }

    #[test]
    fn stores_are_whole_where_all_of_them_are() {
        let whole = |text: &str, address: u64| view(text).unwrap().stores_whole(address);
        let x = "fprop x=1x16x4x4:i8:nhwc";
        assert!(whole(&format!("{x} w=32x16x1x1:i8:nhwc"), 256));
        assert!(!whole(&format!("{x} w=32x16x1x1:i8:nhwc"), 264));
        assert!(!whole(&format!("{x} w=24x16x1x1:i8:nhwc"), 256));
        assert!(whole(&format!("{x} w=6x16x1x1:i8:nhwc y=1x6x4x4:i32:nhwc"), 264));
        assert!(!whole(&format!("{x} w=32x16x1x1:i8:nhwc y=1x32x4x4:i8"), 256));
    }

    #[test]
    fn refusals_name_the_numbers() {
        let refusal = |text: &str| view(text).map(|_| ()).unwrap_err();
        assert!(refusal("fprop x=1x8x4x4:bf16:nhwc w=8x8x1x1:bf16:nhwc").contains("the element type is bf16"));
        assert!(refusal("fprop x=1x8x4x4:f32:nhwc w=8x8x1x1:f32:nhwc").contains("takes math=tf32"));
        assert!(refusal("wgrad math=tf32 x=1x8x4x4:f32:nhwc dw=8x8x1x1:f32:nhwc").contains("the pass is wgrad"));
        let groups = refusal("fprop groups=2 x=1x64x4x4:f8e4m3:nhwc w=8x32x1x1:f8e4m3:nhwc");
        assert_eq!(groups, "takes groups of multiples of 128 channels, given 32");
        let groups = refusal("fprop groups=2 x=1x6x4x4:i8 w=8x3x1x1:i8");
        assert_eq!(groups, "takes groups of multiples of 16 channels, given 3");
    }
}
