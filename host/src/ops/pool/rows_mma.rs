//! The gradient of maxima of 3 × 3 windows where channels lie together, on Hopper: the copy engine brings rows to shared memory,
//! and tensor cores add up what windows beside each other have for an element.

use super::columns::Columns;
use super::planes::Shape;
use super::{PoolNan, PoolProblem};
use crate::driver::{Function, GpuContext, Swizzle, TensorMap, Tiled, TmaType};
use crate::launch::{ACCESS_BYTES, KernelParams, LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_hopper};
use crate::{Context, DType, Error, Problem, Stream, TensorDesc};
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::halo_wgmma::MAX_SHARED_BYTES;
use kernel_abi::ops::pool::{
    PoolRowsMmaParams, ROWS_MMA_CHANNELS, ROWS_MMA_COLUMN_BYTES, ROWS_MMA_HALO, ROWS_MMA_MOVERS, ROWS_MMA_PARTS,
    ROWS_MMA_SLICE, ROWS_MMA_WARPS, RowsMmaTile,
};

/// What the kernel counts items to.
const MAX_ITEMS: u64 = 1 << 30;

/// Symbol, element type.
pub(super) type Row = (&'static str, DType);

macro_rules! rows {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype))),*]
    };
}
const KERNELS: &[Row] = kernel_abi::pool_rows_mma_kernels!(rows);

/// Maxima backward, from x; windows of 3 × 3, 1 apart, in one plane; f16 and bf16, channels last.
///
/// A run with addresses that are no multiples of 16, with alpha other than 1 or beta other than 0, is one of `columns`.
pub(super) struct RowsMma;

impl Algorithm<PoolProblem> for RowsMma {
    fn name(&self) -> &'static str {
        "rows_mma"
    }

    fn configs(&self, problem: &PoolProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        Ok(vec![Config(Cut::of(problem, context)?.symbol)])
    }

    fn workspace_bytes(&self, _: &PoolProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &PoolProblem, _: Config, context: &Context) -> f64 {
        Cut::of(problem, context).map_or(f64::INFINITY, |cut| crate::select::cost::LAUNCH_US + cut.us)
    }

    fn prepare(&self, problem: &PoolProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let cut = Cut::of(problem, context).map_err(|refusal| refusal.into_error(self.name(), problem))?;
        let tile = cut.params.tile;
        let config = MovedConfig {
            symbol: config.0,
            blocks: cut.blocks,
            warps: tile.warps() + ROWS_MMA_MOVERS,
            shared_bytes: tile.smem_bytes(),
            max_shared_bytes: MAX_SHARED_BYTES,
        };
        MovedRows::boxed(self.name(), problem, cut.params, config, context)
    }
}

impl MovedParams for PoolRowsMmaParams {
    fn boxes(&self) -> [[u32; 2]; 3] {
        let tile = self.tile;
        [[tile.image_columns, 1], [tile.output_columns, 1], [tile.image_columns, tile.images]]
    }

    fn maps(&mut self) -> [&mut [u64; 16]; 3] {
        [&mut self.x_map, &mut self.dy_map, &mut self.dx_map]
    }
}

/// How the kernel cuts a problem.
struct Cut {
    symbol: &'static str,
    /// All but addresses and scalars.
    params: PoolRowsMmaParams,
    blocks: u32,
    us: f64,
}

impl Cut {
    /// The one with the least time.
    fn of(problem: &PoolProblem, context: &Context) -> Result<Self, Refusal> {
        /// Bands of an image: more gain nothing.
        const MAX_BANDS: u32 = 16;
        let (shape, symbol) = moved_rows(problem, [3, 1], KERNELS)?;
        let [_, h, w] = shape.axes;
        for axis in [h, w] {
            let beyond = axis.output - 1 - axis.padding + 2 - axis.image;
            if axis.padding > 1 || beyond > 0 {
                return Err(Refusal::new(format!(
                    "takes windows that begin and end at most 1 beside the image, given {} before and {} behind",
                    axis.padding,
                    beyond + 1
                )));
            }
        }
        let spans = RowsMmaTile::spans_of(w.image as u32, w.padding as u32);
        let most_images = ROWS_MMA_WARPS / ROWS_MMA_PARTS / spans;
        if most_images == 0 {
            return Err(Refusal::new(format!(
                "takes rows of up to {} spans of windows, given {spans} for {} columns",
                ROWS_MMA_WARPS / ROWS_MMA_PARTS,
                w.image
            )));
        }
        let dims = shape.dx.dims();
        let [n, c, height] = [dims[0] as u32, dims[1] as u32, h.image as u32];
        let slices = c.div_ceil(ROWS_MMA_SLICE);
        let mut best: Option<Cut> = None;
        for images in 1..=most_images.min(n) {
            for bands in 1..=height.min(MAX_BANDS) {
                let rows = height.div_ceil(bands);
                let tile = RowsMmaTile {
                    images,
                    spans,
                    rows,
                    stages: 0,
                    image_columns: w.image as u32,
                    output_columns: w.output as u32,
                };
                let groups = u64::from(n.div_ceil(images));
                let items = groups * u64::from(slices) * u64::from(bands);
                if height.div_ceil(rows) != bands || items > MAX_ITEMS {
                    continue;
                }
                let cut = Cut::new(problem, &shape, symbol, tile, items as u32, context);
                if let Some(cut) = cut
                    && best.as_ref().is_none_or(|best| cut.us < best.us)
                {
                    best = Some(cut);
                }
            }
        }
        best.ok_or_else(|| Refusal::new(format!("counts up to {MAX_ITEMS} bands of images, {} have more", shape.dx)))
    }

    /// A tile's cut, unless its rows do not fit.
    fn new(
        problem: &PoolProblem,
        shape: &Shape<'_>,
        symbol: &'static str,
        mut tile: RowsMmaTile,
        items: u32,
        context: &Context,
    ) -> Option<Self> {
        /// Bytes that are under way, where there is room.
        const UNDER_WAY: u32 = 96 * 1024;
        /// Microseconds of a line that a warp waits for itself, and that a scheduler takes for one.
        const ALONE_US: f64 = 0.55;
        const WARP_US: f64 = 0.15;
        const SCHEDULERS: u32 = 4;
        /// Microseconds of a block before its first row and behind its last.
        const BLOCK_US: f64 = 1.5;
        /// Share of the memory's rate.
        const MEMORY_SHARE: f64 = 0.95;
        tile.stages = UNDER_WAY.div_ceil(tile.stage_bytes()).max(3);
        while tile.smem_bytes() > MAX_SHARED_BYTES {
            tile.stages -= 1;
            if tile.stages < 3 {
                return None;
            }
        }
        let [_, h, w] = shape.axes;
        let dims = shape.dx.dims();
        let c = dims[1] as u32;
        let units = context.info().n_units as u32;
        let rounds = items.div_ceil(units);
        // As few as do it in the same number of rounds.
        let blocks = items.div_ceil(rounds);
        let lines = f64::from(rounds) * f64::from(tile.rows + ROWS_MMA_HALO);
        let computing = lines * ALONE_US.max(WARP_US * f64::from(tile.warps().div_ceil(SCHEDULERS)));
        let bands = f64::from(h.image as u32) / f64::from(tile.rows);
        // Blocks without an item in the last round, channels of the last slice that are none, and rows that bands have in common.
        let slices = c.div_ceil(ROWS_MMA_SLICE);
        let idle = f64::from(rounds) * f64::from(blocks) / f64::from(items);
        let again = if bands > 1.0 { 0.2 * f64::from(ROWS_MMA_HALO) / f64::from(tile.rows) } else { 0.0 };
        let part = f64::from(c.next_multiple_of(ROWS_MMA_CHANNELS)) / f64::from(c);
        let moving = problem.bytes() * (idle + again) * part / (MEMORY_SHARE * context.info().bytes_per_us);
        // They overlap, but not wholly.
        let us = (computing.powi(3) + moving.powi(3)).cbrt() + BLOCK_US;
        let pair = |value: fn(&kernel_abi::ops::pool::WindowAxis) -> i32| [value(&h) as u32, value(&w) as u32];
        let params = PoolRowsMmaParams {
            x_map: [0; 16],
            dy_map: [0; 16],
            dx_map: [0; 16],
            image: pair(|axis| axis.image),
            output: pair(|axis| axis.output),
            padding: pair(|axis| axis.padding),
            tile,
            spans: Divisor::new(tile.spans),
            slices: Divisor::new(slices),
            bands: Divisor::new((h.image as u32).div_ceil(tile.rows)),
            n_items: items,
            unused: 0,
        };
        Some(Cut { symbol, params, blocks, us })
    }
}

/// A problem whose rows the copy engine moves, of square windows in one plane so large and so far apart, and the kernel for its
/// element type.
pub(super) fn moved_rows<'a>(
    problem: &'a PoolProblem,
    [side, stride]: [u32; 2],
    kernels: &[Row],
) -> Result<(Shape<'a>, &'static str), Refusal> {
    let shape = Shape::of(problem)?;
    if shape.layout.vec == 1 {
        return Err(Refusal::new("takes channels that lie together, here columns do"));
    }
    if !shape.is_of(side, stride) {
        return Err(shape.refusal());
    }
    RowMaps::check(problem, &shape)?;
    let dtype = shape.dx.dtype();
    let Some(&(symbol, _)) = kernels.iter().find(|(_, of)| *of == dtype) else {
        return Err(Refusal::new(format!("has kernels for f16 and bf16, the element type is {dtype}")));
    };
    if problem.nan() == PoolNan::Ignore {
        return Err(Refusal::new("takes NaNs as larger than any number, here they are ignored"));
    }
    Ok((shape, symbol))
}

/// Parameters of a kernel whose rows the copy engine moves.
pub(super) trait MovedParams: KernelParams {
    /// Columns and images of what is moved at a time of x, of dy and of dx.
    fn boxes(&self) -> [[u32; 2]; 3];

    /// Where their maps stand.
    fn maps(&mut self) -> [&mut [u64; 16]; 3];
}

/// What such a kernel is launched with.
pub(super) struct MovedConfig {
    pub(super) symbol: &'static str,
    pub(super) blocks: u32,
    pub(super) warps: u32,
    pub(super) shared_bytes: u32,
    /// Of any problem: plans share the function.
    pub(super) max_shared_bytes: u32,
}

/// A launch whose parameters are complete but for addresses, and so maps.
pub(super) struct MovedRows<P> {
    function: Function,
    config: LaunchConfig,
    maps: RowMaps,
    params: P,
    /// For what this one does not take at a run.
    general: Box<dyn Launch>,
}

impl<P: MovedParams> MovedRows<P> {
    pub(super) fn boxed(
        algorithm: &str,
        problem: &PoolProblem,
        params: P,
        config: MovedConfig,
        context: &Context,
    ) -> Result<Box<dyn Launch>, Error> {
        let function = context.function(config.symbol)?;
        function.allow_dynamic_shared(config.max_shared_bytes as usize)?;
        let refused = |refusal: Refusal| refusal.into_error(algorithm, problem);
        let general = Columns.configs(problem, context).map_err(refused)?[0];
        Ok(Box::new(MovedRows {
            function,
            config: LaunchConfig {
                grid: [config.blocks, 1, 1],
                block: [32 * config.warps, 1, 1],
                shared_bytes: config.shared_bytes,
                programmatic: true,
                ..LaunchConfig::default()
            },
            maps: RowMaps::new(problem),
            params,
            general: Columns.prepare(problem, general, context)?,
        }))
    }
}

impl<P: MovedParams> Launch for MovedRows<P> {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        if !call.is_aligned(ACCESS_BYTES) || (call.alpha, call.beta) != (1.0, 0.0) {
            return self.general.launch(stream, call);
        }
        let gpu_stream = stream.gpu_stream_for(self.function.name())?;
        let mut params = self.params;
        let boxes = params.boxes();
        for (operand, (map, extents)) in params.maps().into_iter().zip(boxes).enumerate() {
            *map = self.maps.of(gpu_stream.context(), call, operand, extents)?;
        }
        launch(&self.function, &self.config, gpu_stream, &params)
    }
}

/// The most that the copy engine counts to along an axis.
const MAX_EXTENT: i64 = 1 << 30;
/// What the copy engine's distances are below, in bytes.
const MAX_STRIDE_BYTES: i64 = 1 << 40;

/// Maps of x, dy and dx for the copy engine, which brings and takes rows of 128 bytes of channels.
pub(super) struct RowMaps {
    data_type: TmaType,
    tensors: [TensorDesc; 3],
}

impl RowMaps {
    /// Whether the copy engine takes a problem's tensors, of images of one plane.
    pub(super) fn check(problem: &PoolProblem, shape: &Shape<'_>) -> Result<(), Refusal> {
        let planes = shape.axes[0].image;
        if planes > 1 {
            return Err(Refusal::new(format!("takes images of one plane, given {planes}")));
        }
        if shape.dx.dims().iter().any(|&dim| dim > MAX_EXTENT) {
            return Err(Refusal::new(format!("takes extents up to {MAX_EXTENT}, given {}", shape.dx)));
        }
        // Of channels, their places are what matters, and of what there is one of nothing.
        let max_stride = MAX_STRIDE_BYTES / shape.dx.dtype().size_bytes() as i64;
        let far = |desc: &TensorDesc| {
            let axes = (0..desc.rank()).filter(|&axis| axis != 1 && desc.dims()[axis] > 1);
            axes.map(|axis| desc.strides()[axis]).any(|stride| !(1..max_stride).contains(&stride))
        };
        if let Some(desc) = [problem.x(), problem.y(), shape.dx].into_iter().find(|desc| far(desc)) {
            return Err(Refusal::new(format!("takes distances from 1 to below {max_stride} elements, given {desc}")));
        }
        Ok(())
    }

    pub(super) fn new(problem: &PoolProblem) -> Self {
        let dx = problem.dx().unwrap_or(problem.x());
        let data_type = match dx.dtype() {
            DType::F32 => TmaType::F32,
            DType::F16 => TmaType::F16,
            _ => TmaType::BF16,
        };
        RowMaps { data_type, tensors: [problem.x(), problem.y(), dx].map(TensorDesc::clone) }
    }

    /// The map `[C, W, H, N]` of an operand, for so many columns of a row of so many images.
    pub(super) fn of(
        &self,
        context: &GpuContext,
        call: &Call<'_>,
        operand: usize,
        [columns, images]: [u32; 2],
    ) -> Result<[u64; 16], Error> {
        let desc = &self.tensors[operand];
        let (spatial, element_bytes) = (desc.rank() - 2, desc.dtype().size_bytes() as u64);
        // Of one spatial dimension, or several of which the first are 1.
        let axis = |back: usize| {
            if back < spatial { (desc.dims()[1 + spatial - back], desc.strides()[1 + spatial - back]) } else { (1, 0) }
        };
        let dims = [desc.dims()[1], axis(0).0, axis(1).0, desc.dims()[0]].map(|dim| dim as u64);
        let channels_bytes = dims[0] * element_bytes;
        // The distance of what there is one of is of no account, but not of any size.
        let strides = [(axis(0).1, dims[1]), (axis(1).1, dims[2]), (desc.strides()[0], dims[3])]
            .map(|(stride, dim)| if dim > 1 { stride as u64 * element_bytes } else { channels_bytes });
        let tiled = Tiled {
            data_type: self.data_type,
            address: call.address(operand),
            dims: &dims,
            strides_bytes: &strides,
            box_dims: &[ROWS_MMA_COLUMN_BYTES / element_bytes as u32, columns, 1, images],
            element_strides: &[],
            swizzle: Swizzle::B128,
        };
        Ok(TensorMap::tiled(context, &tiled)?.words())
    }
}
