//! The launches of `wgrad` with sums in parts: the product, and who adds the parts.

use super::cuts::Cut;
use super::wgrad::WgradView;
use crate::driver::{Function, GpuStream};
use crate::launch::{KernelParams, LaunchConfig, launch, linear_grid, tag};
use crate::ops::conv::ConvProblem;
use crate::select::Config;
use crate::{Context, DType, Error, Stream};
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvTile, ConvWgradFixupParams, ConvWgradParams, ConvWgradSumParams, SUM_THREADS,
};

macro_rules! sum_rows {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype))),*]
    };
}

/// The kernels that add partial sums.
const SUMS: &[(&str, DType)] = kernel_abi::conv_im2col_sum_kernels!(sum_rows);

/// Who adds the parts of sums.
enum Adds {
    /// There are none.
    Nobody,
    /// A second kernel, with so many threads that share the parts of a sum (see [`ConvWgradSumParams`]).
    Kernel { function: Function, config: LaunchConfig, sharers: u32 },
    /// The workers, which find each other by flags that lie so far behind the parts' begin: all, or the first of each tile.
    Workers { flags_at: u64, tag: u64, all_add: bool },
}

/// Launches whose parameters are complete but for addresses, and so maps, and scalars.
pub(in crate::ops::conv) struct SplitSum {
    function: Function,
    config: LaunchConfig,
    params: ConvWgradParams,
    adds: Adds,
    tile: ConvTile,
    view: WgradView,
}

/// Threads that share the parts of a sum: as many as there are parts, since what a part takes is its way from memory.
fn sharers(parts: u64) -> u32 {
    const MOST: u64 = 32;
    1 << parts.clamp(1, MOST).ilog2()
}

/// Whether the first kernel may be launched while what is before it still runs. Fewer blocks than multiprocessors are
/// then put on those that are idle, which share their way to memory, and stay there: a kernel that reads for long and has
/// the machine for itself is faster when it is placed on all of it.
fn starts_early(view: &WgradView, blocks: u64, units: u64) -> bool {
    blocks >= units || view.is_short()
}

impl SplitSum {
    /// The launches of a view of 16-bit tensors.
    pub(in crate::ops::conv) fn of(
        problem: &ConvProblem,
        view: WgradView,
        config: Config,
        context: &Context,
    ) -> Result<Self, Error> {
        let dtype = problem.x().dtype();
        let (sum, _) = SUMS.iter().find(|(_, of)| *of == dtype).expect("configs are of the types of the list");
        let (row, cut) = view.chosen(config);
        if row.fixup {
            return SplitSum::fixup(view, (row.tile, cut), row.symbol, context);
        }
        SplitSum::new(view, (row.tile, cut), [row.symbol, sum], context)
    }

    /// The launches of a view: by the kernel of a tile with sums cut so, and the one that adds its parts.
    pub(in crate::ops::conv) fn new(
        view: WgradView,
        (tile, cut): (ConvTile, Cut),
        [symbol, sum]: [&'static str; 2],
        context: &Context,
    ) -> Result<Self, Error> {
        let (workers, parts) = match cut {
            Cut::Splits(splits) | Cut::Shares(splits) => {
                let most = context.info().n_units as u64 / u64::from(tile.cluster);
                ((view.tiles(tile) * splits).min(most), splits)
            }
            // How many parts most tiles have.
            Cut::Evenly { workers } => (workers, workers.div_ceil(view.tiles(tile)) + 1),
        };
        let adds = if view.slots(tile, cut) > 0 {
            let sharers = sharers(parts);
            let runs = view.tiles(tile) * u64::from(tile.cluster * tile.sum_runs());
            let config = linear_grid((runs * u64::from(sharers * SUM_THREADS)) as i64, SUM_THREADS);
            let config = LaunchConfig { programmatic: true, ..config };
            Adds::Kernel { function: context.function(sum)?, config, sharers }
        } else {
            Adds::Nobody
        };
        SplitSum::with(view, (tile, cut), (symbol, workers), adds, context)
    }

    /// The launch of a view by a kernel whose workers add the parts. Either all that wait for one another are at work at
    /// once, or who waits does so for those before it: see
    /// [`Evenly::worker`](kernel_abi::ops::conv::im2col_wgmma::Evenly::worker).
    fn fixup(
        view: WgradView,
        (tile, cut): (ConvTile, Cut),
        symbol: &'static str,
        context: &Context,
    ) -> Result<Self, Error> {
        let workers = match cut {
            Cut::Splits(parts) | Cut::Shares(parts) => view.tiles(tile) * parts,
            Cut::Evenly { workers } => workers,
        };
        let all_add = matches!(cut, Cut::Shares(_));
        let adds = Adds::Workers { flags_at: view.fixup_partials_bytes(tile, cut), tag: tag(), all_add };
        let mut this = SplitSum::with(view, (tile, cut), (symbol, workers), adds, context)?;
        this.config.cooperative = all_add;
        Ok(this)
    }

    fn with(
        view: WgradView,
        (tile, cut): (ConvTile, Cut),
        (symbol, workers): (&'static str, u64),
        adds: Adds,
        context: &Context,
    ) -> Result<Self, Error> {
        let function = context.function(symbol)?;
        function.allow_dynamic_shared(tile.smem_bytes() as usize)?;
        Ok(SplitSum {
            function,
            config: LaunchConfig {
                grid: [workers as u32 * tile.cluster, 1, 1],
                block: [tile.threads(), 1, 1],
                shared_bytes: tile.smem_bytes(),
                cluster: (tile.cluster > 1).then_some([tile.cluster, 1, 1]),
                programmatic: starts_early(&view, workers * u64::from(tile.cluster), context.info().n_units as u64),
                ..LaunchConfig::default()
            },
            params: view.params(tile, cut),
            adds,
            tile,
            view,
        })
    }

    /// Queues the product of what lies at these addresses: x, dy, dw and the partial sums.
    pub(in crate::ops::conv) fn launch(
        &self,
        stream: &Stream,
        [x, dy, dw, partials]: [u64; 4],
        alpha: f64,
        beta: f64,
    ) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.function.name())?;
        let context = stream.context();
        let mut params = self.params;
        [params.dy_map, params.x_map] = self.view.maps(context, self.tile.panel_k, x, dy)?;
        (params.alpha, params.beta) = (alpha as f32, beta as f32);
        params.dw = dw;
        params.partials = partials;
        match &self.adds {
            Adds::Nobody => self.queue(stream, &params),
            Adds::Workers { flags_at, tag, all_add } => {
                let (flags, all_add) = (partials + flags_at, u32::from(*all_add));
                self.queue(stream, &ConvWgradFixupParams { wgrad: params, flags, tag: *tag, all_add })
            }
            Adds::Kernel { function, config, sharers } => {
                self.queue(stream, &params)?;
                let sum = ConvWgradSumParams {
                    wgrad: params,
                    tile_m: self.tile.gemm_m,
                    tile_n: self.tile.gemm_n,
                    panel: self.tile.panel_k,
                    cluster: self.tile.cluster,
                    sharers: *sharers,
                };
                launch(function, config, stream, &sum)
            }
        }
    }

    /// Queues the first kernel.
    fn queue<P: KernelParams>(&self, stream: &GpuStream, params: &P) -> Result<(), Error> {
        launch(&self.function, &self.config, stream, params)
    }
}
