//! The launches of one run: copies of inputs where need be, the products, the sum of slices where they are split.

use super::maps::{InputMap, Major, Maps};
use super::pack::Pack;
use super::{ALIGN_BYTES, MatmulProblem};
use crate::driver::{Function, GpuStream};
use crate::epilogue::bind_fused;
use crate::launch::{KernelParams, LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::{Error, Problem, Stream};
use kernel_abi::epilogue::FusedEpilogueParam;
use kernel_abi::ops::matmul::{MatmulPartialsParams, MatmulTile, MatmulTmaParams, OUTPUT_MAP, OUTPUT_THREADS};

/// A kernel with all but its parameters.
pub(in crate::ops::matmul) struct Step {
    pub(in crate::ops::matmul) function: Function,
    pub(in crate::ops::matmul) config: LaunchConfig,
}

impl Step {
    pub(in crate::ops::matmul) fn launch<P: KernelParams>(&self, stream: &GpuStream, params: &P) -> Result<(), Error> {
        launch(&self.function, &self.config, stream, params)
    }
}

/// Launches whose parameters are complete but for addresses, and so maps, and scalars.
pub(in crate::ops) struct TmaLaunch {
    pub(in crate::ops::matmul) step: Step,
    pub(in crate::ops::matmul) params: MatmulTmaParams,
    pub(in crate::ops::matmul) tile: MatmulTile,
    pub(in crate::ops::matmul) maps: Maps,
    /// The copies of a and b, where they have one.
    pub(in crate::ops::matmul) pack: [Option<Step>; 2],
    pub(in crate::ops::matmul) partials: Option<(Step, MatmulPartialsParams)>,
}

/// Where things lie in the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops::matmul) struct Layout {
    /// The copies of a and b.
    pub(in crate::ops::matmul) packed: [u64; 2],
    /// The slices' sums, or the counters of blocks that draw their tiles.
    pub(in crate::ops::matmul) behind: u64,
    /// The end.
    pub(in crate::ops::matmul) bytes: u64,
}

impl Layout {
    /// Room for the copies that `maps` ask for, and so many bytes behind them.
    pub(in crate::ops::matmul) fn of(maps: &Maps, behind: u64) -> Self {
        let bytes = |map: &InputMap| map.pack.as_ref().map_or(0, |pack: &Pack| pack.bytes.next_multiple_of(GRAIN));
        let (a, b) = (bytes(&maps.a), bytes(&maps.b));
        Layout { packed: [0, a], behind: a + b, bytes: a + b + behind }
    }
}

/// What everything in the workspace is aligned to.
const GRAIN: u64 = 128;

/// Bytes of the sums of `n_slices` slices, whose rows have `pitch` sums.
pub(in crate::ops::matmul) fn partial_bytes(maps: &Maps, n_slices: u32, pitch: u32) -> u64 {
    4 * u64::from(n_slices) * u64::from(maps.n_batch()) * u64::from(maps.gemm_m) * u64::from(pitch)
}

impl Launch for TmaLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let addresses = [call.address(0), call.address(1), call.address(2)];
        let mut epilogue = self.params.epilogue;
        bind_fused(&mut epilogue, MatmulProblem::OP, call)?;
        self.run_with(stream, addresses, call.workspace_address(), (call.alpha, call.beta), epilogue)
    }
}

impl TmaLaunch {
    /// Whether an input, a or b, is copied into the workspace, from any address.
    pub(in crate::ops) fn copies(&self, operand: usize) -> bool {
        let [first, second] = [&self.maps.a, &self.maps.b];
        let map = if (operand == 0) == self.maps.exchanged { second } else { first };
        map.pack.is_some()
    }

    /// Queues the product of what lies at these addresses: a, b and c.
    pub(in crate::ops) fn run(
        &self,
        stream: &Stream,
        addresses: [u64; 3],
        workspace: u64,
        alpha: f64,
        beta: f64,
    ) -> Result<(), Error> {
        self.run_with(stream, addresses, workspace, (alpha, beta), FusedEpilogueParam::NONE)
    }

    /// The same with an epilogue.
    fn run_with(
        &self,
        stream: &Stream,
        addresses: [u64; 3],
        workspace: u64,
        (alpha, beta): (f64, f64),
        epilogue: FusedEpilogueParam,
    ) -> Result<(), Error> {
        let stream = stream.gpu_stream_for(self.step.function.name())?;
        let context = stream.context();
        let maps = &self.maps;
        let operands = if maps.exchanged { [1, 0] } else { [0, 1] };
        let layout = Layout::of(maps, 0);
        let mut inputs = operands.map(|operand| addresses[operand]);
        for (i, map) in [&maps.a, &maps.b].into_iter().enumerate() {
            if map.pack.is_none() && !inputs[i].is_multiple_of(ALIGN_BYTES) {
                let reason = format!(
                    "expected an address that is a multiple of {ALIGN_BYTES} for the algorithm tma_wgmma (cp_async_mma \
                     takes any), given {:#x}",
                    inputs[i]
                );
                return Err(Error::bad(MatmulProblem::OP, ["a", "b"][operands[i]], reason));
            }
        }
        for (i, map) in [&maps.a, &maps.b].into_iter().enumerate() {
            if let (Some(pack), Some(step)) = (&map.pack, &self.pack[i]) {
                let mut params = pack.params;
                params.from = inputs[i];
                params.to = workspace + layout.packed[i];
                inputs[i] = params.to;
                step.launch(stream, &params)?;
            }
        }
        let mut params = self.params;
        let (tile, kind) = (self.tile, maps.data_type);
        let sharers_log2 = tile.sharers_log2(params.sharers_log2);
        params.a_map = maps.a.encode(context, kind, inputs[0], tile.a_part(sharers_log2), tile.gemm_k)?;
        let [columns, depth] = tile.b_part(sharers_log2, maps.b.major == Major::Mn);
        params.b_map = maps.b.encode_panels(context, kind, inputs[1], [columns, depth], tile.b_panel())?;
        let c = addresses[2];
        params.c.address = c;
        params.store_bytes = maps.c.store_bytes(c);
        params.partials = workspace + layout.behind;
        params.tickets.counters = workspace + layout.behind;
        (params.alpha, params.beta) = (alpha as f32, beta as f32);
        params.epilogue = epilogue;
        if params.output == OUTPUT_MAP {
            if c.is_multiple_of(ALIGN_BYTES) {
                params.c_map = maps.c.encode(context, kind, c)?;
            } else {
                params.output = OUTPUT_THREADS;
            }
        }
        self.step.launch(stream, &params)?;
        if let Some((step, mut sums)) = self.partials.as_ref().map(|(step, params)| (step, *params)) {
            sums.partials = params.partials;
            sums.c.address = c;
            (sums.alpha, sums.beta) = (params.alpha, params.beta);
            step.launch(stream, &sums)?;
        }
        Ok(())
    }
}
