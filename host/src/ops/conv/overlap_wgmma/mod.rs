//! Convolutions of few input channels on Hopper's tensor cores, in one launch: windows overlap in shared memory.
//!
//! A filter's row and the channels together are summed over as if they were channels, as in [`packed_rows`], but x is
//! packed on its way to shared memory, and stays there for all taps along h. x, w and y may lie anyhow in `fprop`; in
//! `wgrad` the copy engine brings dy, which lies channels-last.
//!
//! [`packed_rows`]: super::packed_rows

mod geometry;

use super::grouped_mma::Partials;
use super::im2col_wgmma::{MULTIPROCESSORS, Positions, check_address, check_device, tma_type, unsupported};
use super::{ConvPass, ConvProblem};
use crate::driver::{Function, Swizzle, TensorMap, Tiled, TmaType};
use crate::launch::{LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, DType, Error, Stream};
use geometry::{Cut, Windows};
use kernel_abi::ops::conv::overlap_wgmma::{
    MAX_SHARED_BYTES, OverlapParams, STEP_ELEMS, THREADS, WGRAD_K, wgrad_planes, y_access,
};

/// A row of the list of `fprop`.
struct FpropRow {
    symbol: &'static str,
    dtype: DType,
    columns: u32,
}

/// A row of the list of `wgrad`.
struct WgradRow {
    symbol: &'static str,
    dtype: DType,
    /// Columns of a product.
    columns: u32,
    /// Products of a block.
    products: u32,
}

macro_rules! fprop_rows {
    ($(($symbol:ident, $dtype:ident, $columns:literal)),* $(,)?) => {
        &[$(FpropRow { symbol: stringify!($symbol), dtype: kernel_abi::dtype_of!($dtype), columns: $columns }),*]
    };
}

macro_rules! wgrad_rows {
    ($(($symbol:ident, $dtype:ident, $columns:literal, $first:literal, $second:literal)),* $(,)?) => {
        &[$(WgradRow {
            symbol: stringify!($symbol),
            dtype: kernel_abi::dtype_of!($dtype),
            columns: $columns,
            products: $first + $second,
        }),*]
    };
}

const FPROP_KERNELS: &[FpropRow] = kernel_abi::conv_overlap_fprop_kernels!(fprop_rows);
const WGRAD_KERNELS: &[WgradRow] = kernel_abi::conv_overlap_wgrad_kernels!(wgrad_rows);

impl FpropRow {
    /// Whether no narrower instruction computes as many channels in as many blocks.
    fn fits(&self, windows: &Windows) -> bool {
        let columns = i64::from(self.columns);
        let computed = |columns: i64| (windows.k() + columns - 1) / columns * columns;
        FPROP_KERNELS.iter().all(|other| {
            let other = i64::from(other.columns);
            other >= columns || computed(other) > computed(columns) || windows.k() > other
        })
    }
}

impl WgradRow {
    /// Elements of a window.
    fn elements(&self) -> u32 {
        self.columns * wgrad_planes(self.columns)
    }

    /// Whether windows are of this size, and no smaller number of products is as good.
    fn fits(&self, windows: &Windows) -> bool {
        let step = i64::from(STEP_ELEMS);
        let elements = (windows.elements() + step - 1) / step * step;
        // Parts of windows that lie in two planes take turns: a product reads two of them, or those of one plane.
        let planes = wgrad_planes(self.columns);
        let is_of_size = if windows.planes() == 2 && elements > step {
            planes == 2 && elements <= self.elements().into()
        } else {
            planes == 1 && elements == self.elements().into()
        };
        let is_smallest =
            WGRAD_KERNELS.iter().all(|other| other.columns != self.columns || other.products >= self.products);
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
        let row = WGRAD_KERNELS.iter().find(|row| row.symbol == config.0).expect("configs come from the kernel lists");
        windows.wgrad_cut(row.columns, row.products)
    }
}

impl Algorithm<ConvProblem> for OverlapWgmma {
    fn name(&self) -> &'static str {
        "overlap_wgmma"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_device(context)?;
        let windows = Windows::of(problem)?;
        let dtype = problem.x().dtype();
        let candidates: Vec<Config> = match problem.conv_pass() {
            ConvPass::Fprop => {
                let fits = |row: &&FpropRow| row.dtype == dtype && row.fits(&windows);
                FPROP_KERNELS.iter().filter(fits).map(|row| Config(row.symbol)).collect()
            }
            ConvPass::Wgrad => {
                dy_positions(problem)?;
                if !problem.w().is_dense() {
                    let given = problem.w().strides();
                    return Err(Refusal::new(format!("needs dw without gaps, its strides are {given:?}")));
                }
                let fits = |row: &&WgradRow| row.dtype == dtype && row.fits(&windows);
                let rows: Vec<_> = WGRAD_KERNELS.iter().filter(fits).map(|row| Config(row.symbol)).collect();
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
        let refused = |refusal| unsupported(problem, refusal);
        let windows = Windows::of(problem).map_err(refused)?;
        let cut = Self::cut(&windows, config, context.info().n_units as u64).map_err(refused)?;
        let function = context.function(config.0)?;
        // Not this problem's size: plans share the function.
        function.set_max_dynamic_shared(MAX_SHARED_BYTES as usize)?;
        let (shared_bytes, tap_parts, wgrad) = match problem.conv_pass() {
            ConvPass::Wgrad => {
                let row = WGRAD_KERNELS.iter().find(|row| row.symbol == config.0);
                let tap_parts = row.map_or(1, |row| windows.tap_parts(row.columns, row.products));
                let wgrad = Wgrad {
                    dy: dy_positions(problem).map_err(refused)?,
                    data_type: tma_type(problem.x().dtype()).map_err(refused)?,
                    partials: Partials::new(problem, cut.blocks, context)?,
                };
                (cut.tile.wgrad_smem_bytes(), tap_parts as u32, Some(wgrad))
            }
            _ => {
                let columns = FPROP_KERNELS.iter().find(|row| row.symbol == config.0).map_or(0, |row| row.columns);
                (cut.tile.fprop_smem_bytes(columns, cut.column_blocks, windows.y_access()), 1, None)
            }
        };
        Ok(Box::new(OverlapLaunch {
            function,
            config: LaunchConfig {
                grid: [cut.blocks, cut.parts, 1],
                block: [THREADS, 1, 1],
                shared_bytes,
                programmatic: true,
                ..LaunchConfig::default()
            },
            params: windows.params(problem, &cut, tap_parts),
            wgrad,
        }))
    }
}

/// dy as the copy engine takes it, or why it does not.
fn dy_positions(problem: &ConvProblem) -> Result<Positions, Refusal> {
    let dy = Positions::of("dy", problem.y(), false)?;
    // A map has five axes: planes and images share one.
    if dy.extents[0] > 1 && dy.images > 1 && dy.image_stride != dy.extents[0] * dy.strides[0] {
        let (given, planes) = (dy.image_stride, dy.extents[0] * dy.strides[0]);
        return Err(Refusal::new(format!("needs dy's images one behind the other, {planes} elements, given {given}")));
    }
    Ok(dy)
}

/// A launch whose parameters are complete but for addresses, and so the map, and scalars.
struct OverlapLaunch {
    function: Function,
    config: LaunchConfig,
    params: OverlapParams,
    wgrad: Option<Wgrad>,
}

/// What only `wgrad` needs.
struct Wgrad {
    dy: Positions,
    data_type: TmaType,
    partials: Partials,
}

impl Launch for OverlapLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        /// What a store of 8 channels asks of an address.
        const RUN_BYTES: u64 = 16;
        let (Some(gpu_stream), Some(context)) = (stream.gpu_stream(), stream.context().gpu_context()) else {
            return Err(Error::NoDevice { reason: format!("{} needs a GPU's stream", self.function.name()) });
        };
        let mut params = self.params;
        params.x = call.address(0);
        if let Some(Wgrad { dy, data_type, .. }) = &self.wgrad {
            let address = call.address(1);
            check_address("dy", address)?;
            let tile = &params.tile;
            let [z, p, _] = dy.extents;
            let [z_stride, p_stride, q_stride] = dy.strides;
            let plane_stride = if z > 1 { z_stride } else { dy.image_stride };
            let strip_stride = i64::from(tile.columns) * q_stride;
            let strips = u64::from(params.q_tiles.divisor);
            let tiled = Tiled {
                data_type: *data_type,
                address,
                dims: &[dy.channels as u64, tile.columns.into(), strips, p as u64, (dy.images * z) as u64],
                strides_bytes: &[q_stride, strip_stride, p_stride, plane_stride].map(|stride| 2 * stride as u64),
                box_dims: &[WGRAD_K, tile.row_entries.divisor, 1, tile.rows, 1],
                swizzle: Swizzle::B128,
            };
            params.dy_map = TensorMap::tiled(context, &tiled)?.words();
            params.partials = call.workspace_address();
        } else {
            params.w = call.address(1);
            params.y = call.address(2);
            if params.y_access == y_access::RUNS && !params.y.is_multiple_of(RUN_BYTES) {
                params.y_access = y_access::ELEMENTS;
            }
            (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
        }
        launch(&self.function, &self.config, gpu_stream, &params)
            .map_err(|source| Error::Launch { kernel: self.function.name().to_owned(), source })?;
        match &self.wgrad {
            Some(wgrad) => wgrad.partials.launch(stream, call),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
