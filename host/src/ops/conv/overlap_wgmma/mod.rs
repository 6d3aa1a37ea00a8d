//! Convolutions of few input channels on Hopper's tensor cores, in one launch: windows overlap in shared memory.
//!
//! A filter's row and the channels together are summed over as if they were channels, as in [`packed_rows`], but x is
//! packed on its way to shared memory, and stays there for all taps along h. x, w and y may lie anyhow in `fprop`; in
//! `fprop` of strips and in `wgrad` the copy engine takes y and brings dy, which lie channels-last.
//!
//! [`packed_rows`]: super::packed_rows

mod geometry;

use super::grouped_mma::Partials;
use super::im2col_wgmma::{MULTIPROCESSORS, Positions, check_address, tma_type};
use super::{ConvPass, ConvProblem};
use crate::driver::{DriverError, Function, GpuContext, Swizzle, TensorMap, Tiled, TmaType};
use crate::launch::{LaunchConfig, div_ceil, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread, check_hopper};
use crate::{Context, DType, Error, Stream};
use geometry::{Cut, Windows};
use kernel_abi::ops::conv::overlap_wgmma::{
    FPROP_THREADS, MAX_SHARED_BYTES, OverlapParams, ROWS_K, ROWS_THREADS, SLACK_ENTRIES, STEP_ELEMS, WGRAD_K,
    WGRAD_THREADS, wgrad_planes, y_access,
};

/// A row of the list of `fprop`.
struct FpropRow {
    symbol: &'static str,
    dtype: DType,
    columns: u32,
}

/// A row of the list of `fprop` of strips.
struct RowsRow {
    symbol: &'static str,
    dtype: DType,
    /// Positions of a strip.
    columns: u32,
    /// Product instructions of all taps.
    instructions: u32,
}

/// A row of the list of `wgrad`.
struct WgradRow {
    symbol: &'static str,
    dtype: DType,
    /// Columns of a product.
    columns: u32,
    /// Products of a block.
    products: u32,
    /// Whether the warpgroups take positions in turns, not products.
    in_turns: bool,
}

macro_rules! fprop_rows {
    ($(($symbol:ident, $dtype:ident, $columns:literal)),* $(,)?) => {
        &[$(FpropRow { symbol: stringify!($symbol), dtype: kernel_abi::dtype_of!($dtype), columns: $columns }),*]
    };
}

macro_rules! strip_rows {
    ($(($symbol:ident, $dtype:ident, $columns:literal, $instructions:literal)),* $(,)?) => {
        &[$(RowsRow {
            symbol: stringify!($symbol),
            dtype: kernel_abi::dtype_of!($dtype),
            columns: $columns,
            instructions: $instructions,
        }),*]
    };
}

macro_rules! wgrad_rows {
    ($(($symbol:ident, $dtype:ident, $columns:literal, $first:literal, $second:literal)),* $(,)?) => {
        &[$(WgradRow {
            symbol: stringify!($symbol),
            dtype: kernel_abi::dtype_of!($dtype),
            columns: $columns,
            products: $first + $second,
            in_turns: false,
        }),*]
    };
}

macro_rules! turns_rows {
    ($(($symbol:ident, $dtype:ident, $columns:literal, $products:literal)),* $(,)?) => {
        &[$(WgradRow {
            symbol: stringify!($symbol),
            dtype: kernel_abi::dtype_of!($dtype),
            columns: $columns,
            products: $products,
            in_turns: true,
        }),*]
    };
}

const FPROP_KERNELS: &[FpropRow] = kernel_abi::conv_overlap_fprop_kernels!(fprop_rows);
const ROWS_KERNELS: &[RowsRow] = kernel_abi::conv_overlap_rows_kernels!(strip_rows);
const WGRAD_KERNELS: &[WgradRow] = kernel_abi::conv_overlap_wgrad_kernels!(wgrad_rows);
const TURNS_KERNELS: &[WgradRow] = kernel_abi::conv_overlap_turns_kernels!(turns_rows);

impl FpropRow {
    /// Whether no narrower instruction computes as many channels in as many blocks.
    fn fits(&self, windows: &Windows) -> bool {
        let columns = i64::from(self.columns);
        let computed = |columns: i64| div_ceil(windows.k(), columns) * columns;
        FPROP_KERNELS.iter().all(|other| {
            let other = i64::from(other.columns);
            other >= columns || computed(other) > computed(columns) || windows.k() > other
        })
    }
}

impl RowsRow {
    /// Whether the filter has so many instructions, and strips are nearly as long as they may be: what an instruction
    /// reads behind a strip lies in the buffer.
    fn fits(&self, windows: &Windows) -> bool {
        windows.taps().saturating_mul(windows.steps().into()) == i64::from(self.instructions)
            && i64::from(self.columns) - windows.strip_width(self.columns) <= i64::from(SLACK_ENTRIES)
    }
}

impl WgradRow {
    /// Elements of a window.
    fn elements(&self) -> u32 {
        self.columns * wgrad_planes(self.columns)
    }

    /// Parts of the grid that share the taps.
    fn tap_parts(&self, windows: &Windows) -> u64 {
        windows.tap_parts(self.columns, self.products)
    }

    /// The cut that takes the least time.
    fn cut(&self, windows: &Windows) -> Result<Cut, Refusal> {
        // 64 positions: all products, or what a consumer takes from one wait to the next.
        let all = f64::from(2 * self.products * self.columns);
        let each = if self.in_turns { all / 2.0 } else { f64::from(2 * self.products.div_ceil(2) * self.columns) };
        let cycles = all.max(each + 100.0);
        let parts = self.tap_parts(windows);
        let steps = self.elements() / STEP_ELEMS;
        if self.in_turns {
            let tile = |rows, width, buffers| windows.staged_tile(rows, width, steps, buffers);
            return windows.wgrad_cut(parts, cycles, tile);
        }
        windows.wgrad_cut(parts, cycles, |rows, width, buffers| windows.tile(rows, width, steps, buffers))
    }

    /// Whether windows are of this size, and no smaller number of products is as good.
    fn fits(&self, windows: &Windows) -> bool {
        let step = i64::from(STEP_ELEMS);
        let elements = div_ceil(windows.elements(), step) * step;
        // Parts of windows that lie in two planes take turns: a product reads two of them, or those of one plane.
        let planes = wgrad_planes(self.columns);
        let is_of_size = if windows.planes() == 2 && elements > step {
            planes == 2 && elements <= self.elements().into()
        } else {
            planes == 1 && elements == self.elements().into()
        };
        let is_smallest = !self.in_turns
            && WGRAD_KERNELS.iter().all(|other| other.columns != self.columns || other.products >= self.products);
        is_of_size && (i64::from(self.products) <= windows.taps() * i64::from(planes) + 1 || is_smallest)
    }
}

/// `fprop` and `wgrad` of few channels.
pub(super) struct OverlapWgmma;

impl OverlapWgmma {
    /// The cut of a problem for a kernel.
    fn cut(windows: &Windows, config: Config, n_units: u64) -> Result<Cut, Refusal> {
        if let Some(row) = FPROP_KERNELS.iter().find(|row| row.symbol == config.0) {
            return windows.fprop_cut(row.columns, n_units);
        }
        if let Some(row) = rows_kernel(config) {
            return windows.rows_cut(row.columns, n_units);
        }
        wgrad_kernel(config).cut(windows)
    }
}

impl Algorithm<ConvProblem> for OverlapWgmma {
    fn name(&self) -> &'static str {
        "overlap_wgmma"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        let windows = Windows::of(problem)?;
        let dtype = problem.x().dtype();
        let candidates: Vec<Config> = match problem.conv_pass() {
            ConvPass::Fprop => {
                let fits = |row: &&FpropRow| row.dtype == dtype && row.fits(&windows);
                let any = FPROP_KERNELS.iter().filter(fits).map(|row| Config(row.symbol));
                let fits = |row: &&RowsRow| row.dtype == dtype && row.fits(&windows);
                let rows = ROWS_KERNELS.iter().filter(fits);
                let rows = rows.filter(|row| Strips::of(problem, &windows, row.columns).is_ok());
                rows.map(|row| Config(row.symbol)).chain(any).collect()
            }
            ConvPass::Wgrad => {
                positions("dy", problem)?;
                if !problem.w().is_dense() {
                    let given = problem.w().strides();
                    return Err(Refusal::new(format!("needs dw without gaps, its strides are {given:?}")));
                }
                let fits = |row: &&WgradRow| row.dtype == dtype && row.fits(&windows);
                let kernels = TURNS_KERNELS.iter().chain(WGRAD_KERNELS);
                let rows: Vec<_> = kernels.filter(fits).map(|row| Config(row.symbol)).collect();
                if rows.is_empty() {
                    let most = WGRAD_KERNELS.iter().map(WgradRow::elements).max().unwrap_or(0);
                    let given = windows.elements();
                    return Err(Refusal::new(format!(
                        "computes wgrad of windows up to {most} elements, given {given}"
                    )));
                }
                rows
            }
            ConvPass::Dgrad => return Err(Refusal::new("computes fprop and wgrad, the pass is dgrad")),
        };
        let mut refusal = None;
        let mut configs = Vec::new();
        for config in candidates {
            match Self::cut(&windows, config, context.info().n_units as u64) {
                Ok(_) => configs.push(config),
                Err(reason) => refusal = Some(reason),
            }
        }
        match refusal {
            Some(refusal) if configs.is_empty() => Err(refusal),
            _ => Ok(configs),
        }
    }

    fn spread(&self, _: &ConvProblem, _: Config) -> Spread {
        // Windows are filled up to 16 elements with what lies behind them, times zero weights.
        Spread::Window
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        if problem.conv_pass() == ConvPass::Fprop {
            return 0;
        }
        // The same on all devices, as is the order of the sums.
        match Windows::of(problem).and_then(|windows| Self::cut(&windows, config, MULTIPROCESSORS)) {
            Ok(cut) => u64::from(cut.blocks) * problem.w().n_elems() as u64 * 4,
            Err(_) => 0,
        }
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        /// The kernel that adds partial sums.
        const SUM_US: f64 = 5.0;
        let n_units = context.info().n_units as u64;
        let Ok(cut) = Windows::of(problem).and_then(|windows| Self::cut(&windows, config, n_units)) else {
            return f64::INFINITY;
        };
        let us = cut.us.max(crate::select::cost::streaming_us(problem, context));
        match problem.conv_pass() {
            ConvPass::Wgrad => {
                us + SUM_US + 2.0 * self.workspace_bytes(problem, config) as f64 / context.info().bytes_per_us
            }
            _ => us,
        }
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let refused = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let windows = Windows::of(problem).map_err(refused)?;
        let cut = Self::cut(&windows, config, context.info().n_units as u64).map_err(refused)?;
        let function = context.function(config.0)?;
        // Not this problem's size: plans share the function.
        function.allow_dynamic_shared(MAX_SHARED_BYTES as usize)?;
        let of_tile = |threads, shared_bytes| LaunchConfig {
            grid: [cut.blocks, cut.parts, 1],
            block: [threads, 1, 1],
            shared_bytes,
            programmatic: true,
            ..LaunchConfig::default()
        };
        let (config, tap_parts, form) = if problem.conv_pass() == ConvPass::Wgrad {
            let tap_parts = wgrad_kernel(config).tap_parts(&windows);
            let partials = Partials::new(problem, cut.blocks, context)?;
            let form = Form::Wgrad { dy: Mapped::of("dy", problem).map_err(refused)?, partials };
            (of_tile(WGRAD_THREADS, cut.tile.wgrad_smem_bytes()), tap_parts as u32, form)
        } else if let Some(row) = rows_kernel(config) {
            let y = Strips::of(problem, &windows, row.columns).map_err(refused)?;
            let n_units = context.info().n_units as u64;
            let fits = |other: &&FpropRow| {
                other.dtype == row.dtype && other.fits(&windows) && windows.fprop_cut(other.columns, n_units).is_ok()
            };
            let other = FPROP_KERNELS.iter().find(fits);
            let anywhere = other.map(|other| self.prepare(problem, Config(other.symbol), context)).transpose()?;
            let form = Form::Rows { y, anywhere };
            (of_tile(ROWS_THREADS, cut.tile.rows_smem_bytes(row.columns)), 1, form)
        } else {
            let columns = FPROP_KERNELS.iter().find(|row| row.symbol == config.0).map_or(0, |row| row.columns);
            let shared_bytes = cut.tile.fprop_smem_bytes(columns, cut.column_blocks, windows.y_access());
            (of_tile(FPROP_THREADS, shared_bytes), 1, Form::Fprop)
        };
        Ok(Box::new(OverlapLaunch { function, config, params: windows.params(problem, &cut, tap_parts), form }))
    }
}

/// The row of a kernel for `wgrad`.
fn wgrad_kernel(config: Config) -> &'static WgradRow {
    let mut kernels = TURNS_KERNELS.iter().chain(WGRAD_KERNELS);
    kernels.find(|row| row.symbol == config.0).expect("configs come from the kernel lists")
}

/// The row of a kernel for strips.
fn rows_kernel(config: Config) -> Option<&'static RowsRow> {
    ROWS_KERNELS.iter().find(|row| row.symbol == config.0)
}

/// y or dy as the copy engine takes it, or why it does not.
fn positions(name: &'static str, problem: &ConvProblem) -> Result<Positions, Refusal> {
    let y = Positions::of(name, problem.y(), false)?;
    // A map has five axes: planes and images share one.
    if y.extents[0] > 1 && y.images > 1 && y.image_stride != y.extents[0] * y.strides[0] {
        let (given, planes) = (y.image_stride, y.extents[0] * y.strides[0]);
        return Err(Refusal::new(format!(
            "needs {name}'s images one behind the other, {planes} elements, given {given}"
        )));
    }
    Ok(y)
}

/// A launch whose parameters are complete but for addresses, and so the map, and scalars.
struct OverlapLaunch {
    function: Function,
    config: LaunchConfig,
    params: OverlapParams,
    form: Form,
}

/// What only some kernels need.
enum Form {
    /// `fprop`.
    Fprop,
    /// `fprop` of strips, and one that writes a y that lies where the copy engine writes nothing.
    Rows { y: Strips, anywhere: Option<Box<dyn Launch>> },
    /// `wgrad`.
    Wgrad { dy: Mapped, partials: Partials },
}

/// y or dy, which the copy engine takes.
struct Mapped {
    y: Positions,
    data_type: TmaType,
}

impl Mapped {
    fn of(name: &'static str, problem: &ConvProblem) -> Result<Self, Refusal> {
        Ok(Mapped { y: positions(name, problem)?, data_type: tma_type(problem.x().dtype())? })
    }

    /// Distances between planes, in elements: those of all images.
    fn plane_stride(&self) -> i64 {
        if self.y.extents[0] > 1 { self.y.strides[0] } else { self.y.image_stride }
    }

    /// Planes of all images.
    fn planes(&self) -> u64 {
        (self.y.images * self.y.extents[0]) as u64
    }

    /// The map of strips of so many columns, which leave a tile one by one: no more than belong to a strip, since what an
    /// instruction computes behind them is the next one's place.
    fn strips(&self, context: &GpuContext, address: u64, columns: u32) -> Result<TensorMap, DriverError> {
        let [_, p, q] = self.y.extents;
        let [_, p_stride, q_stride] = self.y.strides;
        TensorMap::tiled(
            context,
            &Tiled {
                data_type: self.data_type,
                address,
                dims: &[self.y.channels as u64, q as u64, p as u64, self.planes()],
                strides_bytes: &[q_stride, p_stride, self.plane_stride()].map(|stride| 2 * stride as u64),
                box_dims: &[ROWS_K, columns, 1, 1],
                element_strides: &[],
                swizzle: Swizzle::B128,
            },
        )
    }

    /// The map of tiles of so many output rows and columns.
    fn tiles(&self, context: &GpuContext, address: u64, params: &OverlapParams) -> Result<TensorMap, DriverError> {
        let tile = &params.tile;
        let [_, p, _] = self.y.extents;
        let [_, p_stride, q_stride] = self.y.strides;
        let strip_stride = i64::from(tile.columns) * q_stride;
        let strips = u64::from(params.q_tiles.divisor);
        TensorMap::tiled(
            context,
            &Tiled {
                data_type: self.data_type,
                address,
                dims: &[self.y.channels as u64, tile.columns.into(), strips, p as u64, self.planes()],
                strides_bytes: &[q_stride, strip_stride, p_stride, self.plane_stride()].map(|stride| 2 * stride as u64),
                box_dims: &[WGRAD_K, tile.row_entries.divisor, 1, tile.rows, 1],
                element_strides: &[],
                swizzle: Swizzle::B128,
            },
        )
    }
}

/// y as strips leave for it.
enum Strips {
    ChannelsLast(Mapped),
    Planar(Planes),
}

impl Strips {
    /// As kernels for strips of up to so many columns write it, by [`Windows::y_access`].
    fn of(problem: &ConvProblem, windows: &Windows, columns: u32) -> Result<Self, Refusal> {
        match windows.y_access() {
            y_access::TURNED => Planes::of(problem, columns).map(Strips::Planar),
            _ => Mapped::of("y", problem).map(Strips::ChannelsLast),
        }
    }

    /// The map of strips of so many columns.
    fn map(&self, context: &GpuContext, address: u64, columns: u32) -> Result<TensorMap, DriverError> {
        match self {
            Strips::ChannelsLast(y) => y.strips(context, address, columns),
            Strips::Planar(y) => y.strips(context, address),
        }
    }
}

/// y whose columns lie one behind the other.
struct Planes {
    dims: [i64; 4],
    /// Distances of rows, channels and images, in elements.
    strides: [i64; 3],
    data_type: TmaType,
    /// Columns of a strip as they lie in shared memory.
    columns: u32,
}

impl Planes {
    fn of(problem: &ConvProblem, columns: u32) -> Result<Self, Refusal> {
        /// Elements of 16 bytes, and what distances of maps stay below.
        const UNIT: i64 = 8;
        const MOST: i64 = 1 << 39;
        let y = problem.y();
        let (&[n, k, p, q], &[n_stride, k_stride, p_stride, q_stride]) = (y.dims(), y.strides()) else {
            return Err(Refusal::new(format!("writes planar strips of two axes, y has {}", y.rank() - 2)));
        };
        // The copy engine takes a place for each axis, whatever its extent.
        let behind = |stride: i64, extent: i64, inner: i64| if extent > 1 { stride } else { inner };
        let p_stride = behind(p_stride, p, q);
        let k_stride = behind(k_stride, k, p_stride * p);
        let strides = [p_stride, k_stride, behind(n_stride, n, k_stride * k)];
        let is_whole = q <= columns.into() || q % i64::from(columns) == 0;
        let fits = |stride: &i64| *stride > 0 && stride % UNIT == 0 && *stride < MOST;
        if q_stride != 1 || q % UNIT != 0 || !is_whole || !strides.iter().all(fits) {
            return Err(Refusal::new(format!(
                "writes rows of multiples of {UNIT} columns, up to {columns} or multiples of that, at distances of \
                 multiples of {UNIT} elements below {MOST}, y is {y}"
            )));
        }
        Ok(Planes { dims: [q, p, k, n], strides, data_type: tma_type(y.dtype())?, columns })
    }

    /// The map of strips, those of the last one of a row without what lies behind y.
    fn strips(&self, context: &GpuContext, address: u64) -> Result<TensorMap, DriverError> {
        TensorMap::tiled(
            context,
            &Tiled {
                data_type: self.data_type,
                address,
                dims: &self.dims.map(|extent| extent as u64),
                strides_bytes: &self.strides.map(|stride| 2 * stride as u64),
                box_dims: &[self.columns, 1, ROWS_K, 1],
                element_strides: &[],
                swizzle: Swizzle::None,
            },
        )
    }
}

impl Launch for OverlapLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        /// What a store of 8 channels asks of an address, and a copy of a row.
        const RUN_BYTES: u64 = 16;
        if let Form::Rows { anywhere: Some(anywhere), .. } = &self.form
            && !call.address(2).is_multiple_of(RUN_BYTES)
        {
            return anywhere.launch(stream, call);
        }
        let gpu_stream = stream.gpu_stream_for(self.function.name())?;
        let context = gpu_stream.context();
        let mut params = self.params;
        params.x = call.address(0);
        if !params.x.is_multiple_of(RUN_BYTES) {
            params.tile.staged.bytes = 0;
        }
        if let Form::Wgrad { dy, .. } = &self.form {
            let address = call.address(1);
            check_address("dy", address)?;
            params.map = dy.tiles(context, address, &params)?.words();
            params.partials = call.workspace_address();
        } else {
            params.w = call.address(1);
            params.y = call.address(2);
            if params.y_access == y_access::RUNS && !params.y.is_multiple_of(RUN_BYTES) {
                params.y_access = y_access::ELEMENTS;
            }
            (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
        }
        if let Form::Rows { y, .. } = &self.form {
            check_address("y", params.y)?;
            params.map = y.map(context, params.y, params.tile.columns)?.words();
        }
        launch(&self.function, &self.config, gpu_stream, &params)?;
        match &self.form {
            Form::Wgrad { partials, .. } => partials.launch(stream, call),
            Form::Fprop | Form::Rows { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
