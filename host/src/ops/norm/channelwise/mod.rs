//! Batch norm, and group and instance norm of channels: sums over parts of channels, what rows make of them, and a pass
//! that writes. Inference is that pass alone. Where a block has all elements of its rows, one kernel does all of it.

pub(super) mod resident;
mod share;

use super::{NormPass, NormProblem, naive};
use crate::driver::Function;
use crate::launch::{KernelRow, LaunchConfig, kernel_for, kernel_rows, linear_grid};
use crate::ops::norm::naive::{is_wide, parameters_are_wide, place, place_address, run};
use crate::plan::{Call, Launch};
use crate::select::cost::{LAUNCH_US, blocks_us};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem, Stream};
use kernel_abi::ops::activation::ActivationMode;
use kernel_abi::ops::norm::channelwise::{BLOCK, ChannelwiseParams, tensor};
pub(super) use share::{Layout, Shape};

const KERNELS: &[KernelRow] = kernel_abi::norm_channelwise_kernels!(kernel_rows);

/// Threads that finish a row.
const LANES: i64 = 32;
/// Vectors of the workspace begin at multiples of this.
const ALIGN: u64 = 256;
/// Share of the memory's rate; forward and backward where sums and results are made in runs. What sums read last is partly
/// found in the cache.
const MEMORY_SHARE: f64 = 0.85;
const RUNS_SHARE: [f64; 2] = [0.93, 1.0];

/// Two reads of each input, one where statistics are given.
pub(super) struct Channelwise;

impl Algorithm<NormProblem> for Channelwise {
    fn name(&self) -> &'static str {
        "channelwise"
    }

    fn configs(&self, problem: &NormProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let steps = steps(problem, &Layout::of(problem, context)?);
        let last = steps[steps.len() - 1];
        let configs = kernel_for(KERNELS, last, problem.x().dtype(), context)?;
        if !matches!(
            problem.activation().0,
            ActivationMode::Identity | ActivationMode::Relu | ActivationMode::ClippedRelu
        ) {
            let activation = problem.activation().0;
            return Err(Refusal::new(format!("takes relu and clipped_relu, given the activation {activation}")));
        }
        for name in ["scale", "bias", "dscale", "dbias", "running_mean"] {
            if let Some((_, desc)) = problem.operand(name)
                && desc.rank() > 1
                && !desc.is_packed()
            {
                return Err(Refusal::new(format!("takes a packed {name}, given {desc}")));
            }
        }
        Ok(configs)
    }

    fn workspace_bytes(&self, problem: &NormProblem, config: Config) -> u64 {
        naive::Naive.workspace_bytes(problem, config)
    }

    fn workspace_bytes_on(&self, problem: &NormProblem, config: Config, context: &Context) -> u64 {
        let own = Layout::of(problem, context).map_or(0, |layout| Room::new(problem, &layout).total);
        own.max(self.workspace_bytes(problem, config))
    }

    fn estimate_us(&self, problem: &NormProblem, _: Config, context: &Context) -> f64 {
        let Ok(layout) = Layout::of(problem, context) else { return f64::INFINITY };
        let n_steps = steps(problem, &layout).len() as f64;
        let x = problem.x().data_bytes() as f64;
        // Beside every operand once: the sums read x, and backward dy and y as well.
        let again = match problem.norm_pass() {
            NormPass::Backward => {
                let read = if problem.operand("y").is_some() { 3.0 } else { 2.0 };
                x * (read + if n_steps > 3.0 { 1.0 } else { 0.0 })
            }
            NormPass::Forward => x,
            NormPass::Inference | NormPass::Finalize => 0.0,
        };
        let memory_share = match layout.sum_threads.min(layout.run_threads) {
            0 => MEMORY_SHARE,
            _ => RUNS_SHARE[usize::from(problem.norm_pass() == NormPass::Backward)],
        };
        let bytes = (problem.bytes() + again) / memory_share;
        let (share, blocks) = layout.applying.at(0);
        let blocks = i64::from(blocks) * i64::from(share.n_parts);
        (n_steps - 1.0) * LAUNCH_US + blocks_us(bytes, blocks, context)
    }

    fn prepare(&self, problem: &NormProblem, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let refused = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let layout = Layout::of(problem, context).map_err(refused)?;
        let dtype = problem.x().dtype();
        let mut kernels = Vec::new();
        for step in steps(problem, &layout) {
            let config = kernel_for(KERNELS, step, dtype, context).map_err(refused)?[0];
            let kind = match step {
                "apply" | "apply_runs" | "apply_gradients" | "apply_gradients_runs" | "infer" | "infer_runs" => {
                    Kind::Applies
                }
                "finish_statistics" | "finish_gradients" => Kind::Finishes,
                _ => Kind::Sums,
            };
            kernels.push((context.function(config.0)?, kind));
        }
        Ok(Box::new(ChannelwiseLaunch {
            kernels,
            params: params(problem, &layout),
            room: Room::new(problem, &layout),
            keeps_statistics: problem.operand("inv_std").is_none() && problem.norm_pass() != NormPass::Inference,
            writes_rest: match problem.norm_pass() {
                NormPass::Backward => problem.operand("inv_std").is_none(),
                _ => problem.norm_pass() == NormPass::Forward,
            },
            early: Early::of(problem, layout.whole),
            layout,
        }))
    }
}

/// The kernels, in their order; the last writes what is asked for.
fn steps(problem: &NormProblem, layout: &Layout) -> Vec<&'static str> {
    let (writes_runs, sums_runs) = (layout.run_threads > 0, layout.sum_threads > 0);
    let of_runs = |in_runs: bool, one: &'static str, other: &'static str| if in_runs { one } else { other };
    let statistics = of_runs(sums_runs, "statistics_runs", "statistics");
    let gradient_sums = of_runs(sums_runs, "gradient_sums_runs", "gradient_sums");
    let apply_gradients = of_runs(writes_runs, "apply_gradients_runs", "apply_gradients");
    match problem.norm_pass() {
        NormPass::Forward if layout.whole => vec!["whole_forward"],
        NormPass::Backward if layout.whole => vec!["whole_backward"],
        NormPass::Forward => vec![statistics, "finish_statistics", of_runs(writes_runs, "apply_runs", "apply")],
        NormPass::Backward if problem.operand("inv_std").is_some() => {
            vec![gradient_sums, "finish_gradients", apply_gradients]
        }
        NormPass::Backward => vec![statistics, "finish_statistics", gradient_sums, "finish_gradients", apply_gradients],
        NormPass::Inference | NormPass::Finalize => vec![of_runs(writes_runs, "infer_runs", "infer")],
    }
}

/// The workspace: mean, inverse standard deviation and the rest of the rows, backward shift and tilt, slopes where dx is
/// written in runs, and the parts of channels.
struct Room {
    row_bytes: u64,
    n_vectors: u64,
    has_slopes: bool,
    total: u64,
}

impl Room {
    fn new(problem: &NormProblem, layout: &Layout) -> Self {
        let (word, share) = (size_of::<f32>() as u64, &layout.summing.single);
        if problem.norm_pass() == NormPass::Inference {
            return Room { row_bytes: 0, n_vectors: 0, has_slopes: false, total: 0 };
        }
        let has_slopes = problem.norm_pass() == NormPass::Backward && layout.run_threads > 0;
        let row_bytes = (word * problem.sharing().n_rows() as u64).next_multiple_of(ALIGN);
        let parts = 2 * word * u64::from(share.n_parts) * u64::from(share.channels);
        let n_vectors = match problem.norm_pass() {
            NormPass::Backward => 5 + u64::from(has_slopes),
            _ => 3,
        };
        Room { row_bytes, n_vectors, has_slopes, total: n_vectors * row_bytes + parts }
    }
}

pub(super) fn params(problem: &NormProblem, layout: &Layout) -> ChannelwiseParams {
    let backward = problem.norm_pass() == NormPass::Backward;
    let mut addresses = [0; tensor::COUNT];
    addresses[tensor::X] = place(problem, "x");
    addresses[tensor::OUT] = place(problem, if backward { "dx" } else { "y" });
    addresses[tensor::DY] = place(problem, if backward { "dy" } else { "z" });
    addresses[tensor::Y] = if backward { place(problem, "y") } else { 0 };
    addresses[tensor::DZ] = place(problem, "dz");
    // Packed where there are several dimensions.
    let stride =
        |name: &str| problem.operand(name).map_or(0, |(_, desc)| if desc.rank() > 1 { 1 } else { desc.strides()[0] });
    let (mode, coefficient) = problem.activation();
    let (low, high) = match mode {
        // Backward, a bound that no number reaches.
        ActivationMode::Relu => (0.0, if backward { f32::NAN } else { f32::INFINITY }),
        ActivationMode::ClippedRelu => (0.0, coefficient as f32),
        _ => (f32::NEG_INFINITY, f32::INFINITY),
    };
    ChannelwiseParams {
        share: layout.summing.single,
        rows_per_image: layout.rows_per_image,
        channels_per_row: layout.channels_per_row,
        addresses,
        strides: layout.strides,
        scale: place(problem, "scale"),
        bias: place(problem, "bias"),
        dscale: place(problem, "dscale"),
        dbias: place(problem, "dbias"),
        parameter_strides: ["scale", "bias", "dscale", "dbias", "running_mean"].map(stride),
        mean: place(problem, "mean"),
        inv_std: place(problem, "inv_std"),
        rest: 0,
        running_mean: place(problem, "running_mean"),
        running_var: place(problem, "running_var"),
        shift: 0,
        tilt: 0,
        slope: 0,
        partials: 0,
        n_rows: problem.sharing().n_rows() as u32,
        parameters_are_wide: parameters_are_wide(problem),
        running_is_wide: is_wide(problem, &["running_mean"]),
        low,
        high,
        epsilon: problem.epsilon() as f32,
        factor: problem.factor() as f32,
        correction: problem.correction() as f32,
        row_share: (1.0 / problem.count() as f64) as f32,
        alpha: 1.0,
        beta: 0.0,
        channels_per_parameter: layout.channels_per_parameter,
    }
}

/// Puts all addresses there; gives the bits that are set in any of the tensors'.
pub(super) fn place_addresses(p: &mut ChannelwiseParams, call: &Call<'_>) -> u64 {
    let mut all = 0;
    for address in &mut p.addresses {
        place_address(address, call);
        all |= *address;
    }
    for address in [&mut p.scale, &mut p.bias, &mut p.dscale, &mut p.dbias, &mut p.mean, &mut p.inv_std] {
        place_address(address, call);
    }
    place_address(&mut p.running_mean, call);
    place_address(&mut p.running_var, call);
    all
}

/// Up to so many bytes of x, only the kernel for rows and channels is launched beside the one that it waits for: with all
/// of them, batch norm of 0.8 MB took 9 to 30 % longer (H200). Of more, all kernels are, which saves one to two microseconds:
/// 5 to 10 % at 5 to 25 MB, 0.5 to 1 % at 50 to 115.
const FINISHING_BYTES: u64 = 4 << 20;

/// Which kernels are launched beside those that they wait for.
#[derive(Clone, Copy, PartialEq)]
enum Early {
    All,
    Finishing,
    Nothing,
}

impl Early {
    fn of(problem: &NormProblem, whole: bool) -> Self {
        let bytes = problem.x().data_bytes();
        if problem.norm_pass() == NormPass::Inference {
            Early::Nothing
        } else if !whole && bytes <= FINISHING_BYTES {
            Early::Finishing
        } else {
            Early::All
        }
    }

    fn has(self, kind: Kind) -> bool {
        self == Early::All || self == Early::Finishing && matches!(kind, Kind::Finishes)
    }
}

/// What a kernel is for.
#[derive(Clone, Copy)]
enum Kind {
    /// Elements, of which it has sums left.
    Sums,
    /// Rows and channels.
    Finishes,
    /// Elements, by what is known of rows and channels.
    Applies,
}

/// Kernels one after another.
struct ChannelwiseLaunch {
    kernels: Vec<(Function, Kind)>,
    params: ChannelwiseParams,
    layout: Layout,
    room: Room,
    /// Whether statistics of rows lie in the workspace.
    keeps_statistics: bool,
    /// Whether statistics are found here, and not given.
    writes_rest: bool,
    early: Early,
}

impl Launch for ChannelwiseLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let mut params = self.params;
        let p = &mut params;
        let all = place_addresses(p, call);
        if self.room.total > 0 {
            let rows = |i: u64| call.workspace_address() + i * self.room.row_bytes;
            if self.keeps_statistics {
                (p.mean, p.inv_std) = (rows(0), rows(1));
            }
            if self.writes_rest {
                p.rest = rows(2);
            }
            (p.shift, p.tilt, p.partials) = (rows(3), rows(4), rows(self.room.n_vectors));
        }
        // Runs take what is known of channels 16 bytes at a time as well.
        let known = match self.layout.run_threads {
            0 => 0,
            _ => p.scale | p.bias | p.mean | p.inv_std | p.running_mean | p.running_var,
        };
        let known_to_sums = match self.layout.sum_threads {
            0 => 0,
            _ => p.mean | p.inv_std,
        };
        let (summing, applying) = (self.layout.summing.at(all | known_to_sums), self.layout.applying.at(all | known));
        if self.room.has_slopes && applying.0.vectors != 0 {
            p.slope = call.workspace_address() + 5 * self.room.row_bytes;
        }
        (p.alpha, p.beta) = (call.alpha as f32, call.beta as f32);
        // Rows and parameters, where these are not the same.
        let channels = i64::from(summing.0.channels);
        p.share = summing.0;
        let items = if p.finishes_channels() {
            channels
        } else {
            i64::from(p.n_rows) + channels / i64::from(p.channels_per_parameter.divisor)
        };
        for (function, kind) in &self.kernels {
            let (share, blocks) = if matches!(kind, Kind::Applies) { applying } else { summing };
            p.share = share;
            let extents = if matches!(kind, Kind::Finishes) {
                linear_grid(items * LANES, BLOCK)
            } else {
                // Single elements are left to blocks that sweep.
                let run_threads = match kind {
                    _ if share.vectors == 0 => 0,
                    Kind::Applies => self.layout.run_threads,
                    _ => self.layout.sum_threads,
                };
                let (grid, threads) = match (run_threads, kind) {
                    (0, _) => ([blocks, share.n_parts, 1], BLOCK),
                    (threads, Kind::Applies) => ([share.n_parts, blocks, 1], threads),
                    (threads, _) => ([blocks, share.n_parts, 1], threads),
                };
                LaunchConfig { grid, block: [threads, 1, 1], ..LaunchConfig::default() }
            };
            let config = LaunchConfig { evenly: !self.early.has(*kind), ..extents };
            run(function, &config, stream, p)?;
        }
        Ok(())
    }
}
