//! Launches that are complete but for addresses, and so maps, and scalars.

use super::super::check_addresses;
use super::super::cuts::Cut;
use super::super::gather::View;
use super::super::wgrad::WgradView;
use super::Variant;
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::{Error, Stream};
use kernel_abi::ops::conv::im2col_cluster::THREADS;
use kernel_abi::ops::conv::im2col_wgmma::{ConvGatherParams, ConvWgradParams, MAX_CLASSES, PANEL};

/// The launch of a cluster for each of `tiles`: how many, and how many panels each has.
fn config(variant: &Variant, tiles: &[(u64, u64)]) -> LaunchConfig {
    let splits = variant.splits;
    let n_tiles: u64 = tiles.iter().map(|(n, _)| n).sum();
    let panels = tiles.iter().map(|(_, panels)| panels.div_ceil(splits.into())).max().unwrap_or(0);
    // Memory that nobody asks for is left to another block.
    let stages = panels.clamp(1, variant.tile.stages.into()) as u32;
    LaunchConfig {
        grid: [n_tiles as u32 * splits, 1, 1],
        block: [THREADS, 1, 1],
        shared_bytes: variant.tile.cluster_smem_bytes(stages),
        cluster: (splits > 1).then_some([splits, 1, 1]),
        programmatic: true,
        ..LaunchConfig::default()
    }
}

/// `fprop` or `dgrad`.
pub(super) struct GatherLaunch {
    function: Function,
    variant: &'static Variant,
    view: View,
    fprop: bool,
    /// One for each [`MAX_CLASSES`] classes.
    parts: Vec<(LaunchConfig, ConvGatherParams)>,
}

impl GatherLaunch {
    pub(super) fn new(function: Function, variant: &'static Variant, view: View, fprop: bool) -> Self {
        let part = |classes: &[_]| {
            let tiles: Vec<_> = classes.iter().map(|class| view.tiles_of(class, variant.tile)).collect();
            let n_tiles: u64 = tiles.iter().map(|(n, _)| n).sum();
            (config(variant, &tiles), view.params(classes, variant.tile, n_tiles as u32))
        };
        let parts = view.classes.chunks(MAX_CLASSES).map(part).collect();
        GatherLaunch { function, variant, view, fprop, parts }
    }
}

impl Launch for GatherLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.function.name())?;
        let context = stream.context();
        check_addresses(if self.fprop { ["x", "w", "y"] } else { ["dy", "w", "dx"] }, call)?;
        let [read, filter, written] = [0, 1, 2].map(|operand| call.address(operand));
        let tile = self.variant.tile;
        // Rows of the filter's box: of the columns where the sum is contiguous, else of the sum.
        let (rows, columns) =
            if self.fprop { (tile.gemm_n, tile.panel_k) } else { (tile.panel_k, tile.gemm_n.min(PANEL)) };
        let b_map = self.view.filter.map(context, self.view.data_type, filter, rows, columns)?;
        for ((config, params), classes) in self.parts.iter().zip(self.view.classes.chunks(MAX_CLASSES)) {
            let (alpha, beta) = (call.alpha as f32, call.beta as f32);
            let mut params = ConvGatherParams { b_map, out: written, alpha, beta, ..*params };
            for (map, class) in params.a_maps.iter_mut().zip(classes) {
                *map = self.view.a_map(context, class, tile, read)?;
            }
            launch(&self.function, config, stream, &params)?;
        }
        Ok(())
    }
}

/// `wgrad`.
pub(super) struct WgradLaunch {
    function: Function,
    view: WgradView,
    config: LaunchConfig,
    params: ConvWgradParams,
}

impl WgradLaunch {
    pub(super) fn new(function: Function, variant: &Variant, view: WgradView) -> Self {
        let config = config(variant, &[(view.tiles(variant.tile), view.k_blocks())]);
        let params = view.params(variant.tile, Cut::Splits(variant.splits.into()));
        WgradLaunch { function, view, config, params }
    }
}

impl Launch for WgradLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.function.name())?;
        let context = stream.context();
        check_addresses(["x", "dy", "dw"], call)?;
        let [x, dy, dw] = [0, 1, 2].map(|operand| call.address(operand));
        let [dy_map, x_map] = self.view.maps(context, self.view.width(), x, dy)?;
        let (alpha, beta) = (call.alpha as f32, call.beta as f32);
        let params = ConvWgradParams { dy_map, x_map, dw, alpha, beta, ..self.params };
        launch(&self.function, &self.config, stream, &params)
    }
}
