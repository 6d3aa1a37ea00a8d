//! One filter a channel on Hopper: rows of 16-bit channels-last images come and leave by the copy engine, in whole
//! cache lines where channels allow it, and enough of them are under way at once that memory decides the time.
//!
//! `fprop`; `dgrad` of stride 1, which is a convolution with the filter turned around; and `dgrad` of stride 2, whose
//! kernels write pairs of rows and columns, which each meet neighbouring positions of dy.

mod cut;
#[cfg(test)]
mod tests;

use super::grouped_mma::check_aligned;
use super::im2col_wgmma::tma_type;
use super::{ConvPass, ConvProblem};
use crate::driver::{Function, GpuContext, Swizzle, TensorMap, Tiled, TmaType};
use crate::launch::{LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread, check_hopper};
use crate::{Context, Error, Problem, Stream};
use cut::{Cut, View};
use kernel_abi::ops::conv::depthwise_tma::ConvDepthwiseTmaParams;
use kernel_abi::ops::conv::halo_wgmma::MAX_SHARED_BYTES;

/// Size of an element.
const ELEMENT_BYTES: u64 = 2;

/// Rows through shared memory.
pub(super) struct DepthwiseTma;

impl DepthwiseTma {
    fn cut(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<(View, Cut), Refusal> {
        let view = View::of(problem)?;
        let row = view.rows().find(|row| row.symbol == config.0);
        let row = row.ok_or_else(|| Refusal::new(format!("has no kernel {}", config.0)))?;
        let cut = view.cut(row, units(context))?;
        Ok((view, cut))
    }
}

/// Multiprocessors.
fn units(context: &Context) -> i64 {
    context.info().n_units as i64
}

impl Algorithm<ConvProblem> for DepthwiseTma {
    fn name(&self) -> &'static str {
        "depthwise_tma"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        let view = View::of(problem)?;
        let cuts = view.rows().map(|row| view.cut(row, units(context)));
        let mut cuts = cuts.collect::<Result<Vec<_>, _>>()?;
        cuts.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
        Ok(cuts.iter().map(|cut| Config(cut.row.symbol)).collect())
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        crate::ops::conv::algorithms::padding_spread(problem)
    }

    fn workspace_bytes(&self, _: &ConvProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        /// The launch, the taps, the first rows and the last ones; what small problems wait for besides, up to the second
        /// number: they have few blocks, and `depthwise` starts sooner.
        const ENDS_US: f64 = 3.5;
        const WAITING_US: f64 = 1.9;
        const WAITING_BYTES: f64 = 2e6;
        /// Shares of the memory's rate, and of the device's plain rate.
        const MEMORY_SHARE: f64 = 0.8;
        const RATE_SHARE: f64 = 0.65;
        // Those that `configs` named have a cut, which takes a search.
        if !View::of(problem).is_ok_and(|view| view.rows().any(|row| row.symbol == config.0)) {
            return f64::INFINITY;
        }
        let info = context.info();
        let memory_us = problem.bytes() / (MEMORY_SHARE * info.bytes_per_us);
        let products_us = problem.flops() / (RATE_SHARE * info.flops_per_us);
        ENDS_US + (problem.bytes() / WAITING_BYTES).min(WAITING_US) + memory_us.max(products_us)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let refused = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let data_type = tma_type(problem.x().dtype()).map_err(refused)?;
        let (view, cut) = self.cut(problem, config, context).map_err(refused)?;
        let function = context.function(config.0)?;
        // Not this problem's size: plans share the function.
        function.allow_dynamic_shared(MAX_SHARED_BYTES as usize)?;
        Ok(Box::new(DepthwiseTmaLaunch {
            function,
            config: LaunchConfig {
                grid: [cut.blocks, 1, 1],
                block: [cut.threads, 1, 1],
                shared_bytes: cut.params.tile.smem_bytes(cut.row.form),
                programmatic: true,
                ..LaunchConfig::default()
            },
            data_type,
            view,
            cut,
            names: if problem.conv_pass() == ConvPass::Fprop { ["x", "y"] } else { ["dy", "dx"] },
        }))
    }
}

/// A launch whose parameters are complete but for addresses, and so maps, and scalars.
struct DepthwiseTmaLaunch {
    function: Function,
    config: LaunchConfig,
    data_type: TmaType,
    view: View,
    cut: Cut,
    /// The images.
    names: [&'static str; 2],
}

impl Launch for DepthwiseTmaLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let (source, target) = (call.address(0), call.address(2));
        check_aligned(call, "depthwise_tma", "depthwise", [0, 2].into_iter().zip(self.names))?;
        let stream = stream.gpu_stream_for(self.function.name())?;
        let (form, tile) = (self.cut.row.form, self.cut.params.tile);
        let context = stream.context();
        let params = ConvDepthwiseTmaParams {
            source_map: self.map(context, source, self.view.source_dims, [tile.columns(form), form.stride])?,
            target_map: self.map(context, target, self.view.target_dims, [tile.result_columns(form), form.spread])?,
            target,
            w: call.address(1),
            alpha: call.alpha as f32,
            beta: call.beta as f32,
            ..self.cut.params
        };
        launch(&self.function, &self.config, stream, &params)
    }
}

impl DepthwiseTmaLaunch {
    /// The map of an image of height and width `dims`, for so many columns and rows of the tile's channels and images.
    fn map(
        &self,
        context: &GpuContext,
        address: u64,
        dims: [i32; 2],
        [columns, rows]: [u32; 2],
    ) -> Result<[u64; 16], Error> {
        let tile = self.cut.params.tile;
        let dims = [self.view.c, dims[1], dims[0], self.view.n].map(|extent| extent as u64);
        let box_dims = [tile.channels, columns, rows, tile.images];
        images_map(context, (self.data_type, address), dims, box_dims, Swizzle::None)
    }
}

/// The map of densely channels-last images of 16-bit numbers, extents and box in the order `[C, W, H, N]`.
pub(super) fn images_map(
    context: &GpuContext,
    (data_type, address): (TmaType, u64),
    dims: [u64; 4],
    box_dims: [u32; 4],
    swizzle: Swizzle,
) -> Result<[u64; 16], Error> {
    let [channels, width, height, _] = dims;
    let column_bytes = channels * ELEMENT_BYTES;
    let tiled = Tiled {
        data_type,
        address,
        dims: &dims,
        strides_bytes: &[column_bytes, width * column_bytes, height * width * column_bytes],
        box_dims: &box_dims,
        element_strides: &[],
        swizzle,
    };
    Ok(TensorMap::tiled(context, &tiled)?.words())
}
