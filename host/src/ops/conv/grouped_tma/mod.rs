//! Convolutions of narrow groups on Hopper: 3 × 3, 5 × 5 and 7 × 7 taps, f16 and bf16, channels last. The copy engine brings rows to
//! shared memory, and a warp takes each of them from there once for all taps.
//!
//! `fprop` and `wgrad` of stride 1, of 3 × 3 and 5 × 5 taps also of 2, `dgrad` of stride 1; groups of 1 to 32 channels of 3 × 3
//! taps, and of 1 to 8 of more. Groups narrower than 8 channels are padded with zeros, so an infinity or NaN in one of them also reaches
//! its neighbours within 8 channels; in `wgrad` one also reaches filters whose tap meets it in the padding.
//!
//! A multiprocessor has one block, or two of at most half the size (`+two`).
//!
//! `wgrad` is two kernels: blocks add up their share of the positions in f32, and a second kernel adds the shares in a
//! fixed order.

mod cut;
#[cfg(test)]
mod tests;

use super::depthwise_tma::images_map;
use super::grouped_mma::{Partials, check_aligned};
use super::im2col_wgmma::tma_type;
use super::{ConvPass, ConvProblem};
use crate::driver::{Function, GpuContext, Swizzle, TmaType};
use crate::launch::{LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread, check_hopper};
use crate::{Context, Error, Stream};
use cut::{CYCLES_PER_US, Cut, Device, View};
use kernel_abi::ops::conv::halo_wgmma::MAX_SHARED_BYTES;

/// Rows through shared memory, for groups of at most 32 channels.
pub(super) struct GroupedTma;

/// A problem, and how it is cut for the device, of whose multiprocessors each has so many blocks: a search of 10 to 120 us of a
/// plan's making, so nothing keeps it.
fn cut(problem: &ConvProblem, blocks: u32, context: &Context) -> Result<(View, Cut), Refusal> {
    let info = context.info();
    let units = info.n_units as u32;
    let view = View::of(problem)?;
    let bytes_per_cycle = info.bytes_per_us / (f64::from(units) * CYCLES_PER_US);
    let cut = view.cut(Device { units, blocks, bytes_per_cycle })?;
    Ok((view, cut))
}

/// Blocks of a multiprocessor.
fn blocks(config: Config) -> u32 {
    if config.0.ends_with("+two") { 2 } else { 1 }
}

impl Algorithm<ConvProblem> for GroupedTma {
    fn name(&self) -> &'static str {
        "grouped_tma"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        let (view, _) = cut(problem, 1, context)?;
        // Where one waits, the other computes; but each has half as long rows, and a ring of half the size.
        let two = cut(problem, 2, context).is_ok().then_some(view.row.two);
        Ok([Some(view.row.symbol), two].into_iter().flatten().map(Config).collect())
    }

    fn spread(&self, problem: &ConvProblem, _: Config) -> Spread {
        /// Channels that are multiplied together.
        const TOGETHER: i64 = 8;
        let groups = problem.groups();
        let narrow = [problem.x(), problem.y()].into_iter().any(|desc| desc.dims()[1] / groups < TOGETHER);
        // Narrower groups have zeros between them.
        if narrow { Spread::Group } else { crate::ops::conv::algorithms::padding_spread(problem) }
    }

    fn workspace_bytes(&self, problem: &ConvProblem, config: Config) -> u64 {
        View::of(problem).map_or(0, |view| view.partials_bytes(blocks(config)))
    }

    fn estimate_us(&self, problem: &ConvProblem, config: Config, context: &Context) -> f64 {
        /// Launches, the filters or the sums, and the last rows' way out.
        const ENDS_US: f64 = 1.5;
        const WGRAD_ENDS_US: f64 = 2.5;
        /// Partial sums go through the second-level cache.
        const PARTIALS_SHARE: f64 = 2.0;
        // Fitted to times on an H100 (mobilenet's filters a channel, resnext50), with an H200's memory.
        let Ok((view, cut)) = cut(problem, blocks(config), context) else { return f64::INFINITY };
        let partials = view.partials_bytes(blocks(config)) as f64;
        let ends = if partials > 0.0 { WGRAD_ENDS_US } else { ENDS_US };
        ends + cut.cycles / CYCLES_PER_US + 2.0 * partials / (PARTIALS_SHARE * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let refused = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let data_type = tma_type(problem.x().dtype()).map_err(refused)?;
        let (view, cut) = cut(problem, blocks(config), context).map_err(refused)?;
        let function = context.function(view.row.symbol)?;
        // Not this problem's size: plans share the function.
        function.allow_dynamic_shared(MAX_SHARED_BYTES as usize)?;
        let pass = problem.conv_pass();
        let partials = match pass {
            ConvPass::Wgrad => Some(Partials::new(problem, cut.params.slabs, context)?),
            _ => None,
        };
        Ok(Box::new(GroupedTmaLaunch {
            function,
            config: LaunchConfig {
                grid: [cut.blocks, 1, 1],
                block: [cut.threads, 1, 1],
                shared_bytes: cut.params.tile.smem_bytes(view.row.form()),
                programmatic: true,
                ..LaunchConfig::default()
            },
            data_type,
            view,
            cut,
            pass,
            partials,
        }))
    }
}

/// A launch whose parameters are complete but for addresses, and so maps, and scalars.
struct GroupedTmaLaunch {
    function: Function,
    config: LaunchConfig,
    data_type: TmaType,
    view: View,
    cut: Cut,
    pass: ConvPass,
    partials: Option<Partials>,
}

impl Launch for GroupedTmaLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let names = match self.pass {
            ConvPass::Fprop => ["x", "w", "y"],
            ConvPass::Dgrad => ["dy", "w", "dx"],
            ConvPass::Wgrad => ["x", "dy", "dw"],
        };
        check_aligned(call, "grouped_tma", "cp_async_mma", names.into_iter().enumerate())?;
        let gpu_stream = stream.gpu_stream_for(self.function.name())?;
        let context = gpu_stream.context();
        let tile = self.cut.params.tile;
        let source_columns = tile.source_columns(self.view.row.form());
        let mut params = self.cut.params;
        params.source_map = self.map(context, call.address(0), self.view.source_dims, source_columns)?;
        let target = call.address(if self.pass == ConvPass::Wgrad { 1 } else { 2 });
        params.target_map = self.map(context, target, self.view.target_dims, tile.columns)?;
        (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
        if self.pass == ConvPass::Wgrad {
            params.partials = call.workspace.range().0;
        } else {
            (params.filter, params.target) = (call.address(1), target);
        }
        launch(&self.function, &self.config, gpu_stream, &params)?;
        match &self.partials {
            Some(partials) => partials.launch(stream, call),
            None => Ok(()),
        }
    }
}

impl GroupedTmaLaunch {
    /// The map of an image of height and width `dims`, for so many columns of a row of the tile's images.
    fn map(&self, context: &GpuContext, address: u64, dims: [u32; 2], columns: u32) -> Result<[u64; 16], Error> {
        let dims = [self.view.c, dims[1], dims[0], self.view.n].map(u64::from);
        let tile = self.cut.params.tile;
        let swizzle = if tile.position_bytes() == 128 { Swizzle::B128 } else { Swizzle::B64 };
        let box_dims = [tile.channels, columns, 1, tile.images];
        images_map(context, (self.data_type, address), dims, box_dims, swizzle)
    }
}
