//! Long rows that pass through rings in the shared memory of a cluster's blocks.

use super::cluster_rows::{cluster_names, lanes, looped, named};
use super::lanes::{at_one_distance, bind, launch};
use super::looped_rows::max_pieces;
use super::register_rows::contiguous_rows;
use super::{SoftmaxProblem, naive};
use crate::launch::{KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, DType, Error, Problem, Stream};
use kernel_abi::ops::softmax::SoftmaxRingsParams;
use kernel_abi::ops::softmax::cluster_rings::{MAX_BLOCKS, MAX_SLOTS, THREADS};
use kernel_abi::ops::softmax::streamed_rows::WARP;
use kernel_abi::{MAX_RANK, TensorParam};

/// A row of the kernel list.
struct Kernel {
    symbol: &'static str,
    /// What it is called with clusters of 1, 2, 4 and 8 blocks.
    names: [&'static str; 4],
    pass: &'static str,
    dtype: DType,
}

macro_rules! kernels {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => {
        &[$(Kernel {
            symbol: stringify!($symbol),
            names: cluster_names!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
        }),*]
    };
}

const KERNELS: &[Kernel] = kernel_abi::softmax_ring_kernels!(kernels);

/// Bytes of a piece, and of a line of the cache.
const PIECE: u32 = 16;
const LINE: u32 = 128;

/// Shared memory of a block at most, and what it takes beside its rings: barriers, what its warps have found out and what
/// the system keeps.
const MAX_BLOCK_BYTES: u32 = 227 << 10;
const BESIDE: u32 = 12 << 10;

/// Rows that a ring holds at least: one that is worked on and one that comes.
const LEAST_SLOTS: u32 = 2;

/// The least pieces of a warp: with fewer, what warps tell each other takes longer than what they read.
const LEAST_PIECES: u32 = 64;

/// Rows that come to the shared memory of a cluster while others are worked on there.
///
/// A run with addresses that are no multiples of 16, or with a beta, goes the way of `looped_rows`.
pub(super) struct ClusterRings;

impl Algorithm<SoftmaxProblem> for ClusterRings {
    fn name(&self) -> &'static str {
        "cluster_rings"
    }

    fn configs(&self, problem: &SoftmaxProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let params = contiguous_rows(problem, context)?;
        let (major, minor) = context.info().compute_capability;
        if (major, minor) != (9, 0) {
            return Err(Refusal::new(format!("needs compute capability 9.0, the device has {major}.{minor}")));
        }
        at_one_distance(problem, &params)?;
        let lanes = lanes(problem);
        let [input, dy, out] = [&params.in_rows, &params.dy_rows, &params.out_rows].map(pitch);
        let dy = if problem.dy().is_some() { dy } else { input };
        if let Some(other) = [dy, out].into_iter().find(|other| (other - input) % lanes != 0) {
            return Err(Refusal::new(format!(
                "takes rows that lie to {lanes} elements alike in all tensors, given distances of {input} and {other}"
            )));
        }
        // What lies beside a row is read with it: of the tensor's last one, nothing.
        if let Some(pitch) = [input, dy].into_iter().find(|&pitch| params.n_rows > 1 && pitch < params.row_elems) {
            return Err(Refusal::new(format!(
                "takes rows one behind the other, given {} elements at a distance of {pitch}",
                params.row_elems
            )));
        }
        let Some(kernel) =
            KERNELS.iter().find(|kernel| kernel.pass == problem.pass() && kernel.dtype == problem.input().dtype())
        else {
            return Err(Refusal::new("there is no kernel of its pass and type"));
        };
        let least = i64::from(LEAST_PIECES * THREADS / WARP) * lanes;
        if params.row_elems < least {
            return Err(Refusal::new(format!("takes rows of at least {least} elements, given {}", params.row_elems)));
        }
        let fits =
            |i: &usize| Rings::new(problem, 1 << i).n_slots >= LEAST_SLOTS && context.active_clusters(1 << i) > 0;
        let fewest = (0..kernel.names.len()).find(fits).ok_or_else(|| {
            Refusal::new(format!("holds {LEAST_SLOTS} rows in {MAX_BLOCKS} blocks, given rows of {}", params.row_elems))
        })?;
        // More blocks than hold a row only where rows are too few for all clusters.
        let idle = |i: &usize| *i == fewest || params.n_rows < context.active_clusters(1 << (i - 1)) as i64;
        let configs = (fewest..kernel.names.len()).filter(idle).filter(|i| context.active_clusters(1 << i) > 0);
        Ok(configs.map(|i| Config(kernel.names[i])).collect())
    }

    fn workspace_bytes(&self, _: &SoftmaxProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> f64 {
        /// Share of the memory's rate: of rows that begin anywhere, and forward, where powers take about as long.
        const UNEVEN: f64 = 0.92;
        const WHOLE: f64 = 0.98;
        /// Of a turn, in which memory is only read at the begin, or only written at the end.
        const ENDS: f64 = 0.5;
        let (_, i) = kernel(config);
        let rings = Rings::new(problem, 1 << i);
        let (rows, clusters) = (naive::params(problem).n_rows as u64, context.active_clusters(1 << i).max(1));
        let turns = rows.div_ceil(clusters) as f64;
        let idle = turns * clusters as f64 / rows as f64;
        let share = if rings.cut == PIECE && problem.dy().is_some() { WHOLE } else { UNEVEN };
        let bytes = problem.bytes() * idle.min(1.2) / share * (1.0 + ENDS / turns);
        cost::blocks_us(bytes, rows as i64, context)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (kernel, i) = kernel(config);
        let (params, blocks) = (naive::params(problem), 1u32 << i);
        let rings = Rings::new(problem, blocks);
        let clusters = context.active_clusters(blocks).min(params.n_rows as u64).max(1) as u32;
        let function = context.function(kernel.symbol)?;
        function.allow_dynamic_shared(rings.bytes as usize)?;
        let config = LaunchConfig {
            grid: [clusters * blocks, 1, 1],
            block: [THREADS, 1, 1],
            cluster: Some([blocks, 1, 1]),
            shared_bytes: rings.bytes,
            ..LaunchConfig::default()
        };
        let rows = launch(function.clone(), config, &params);
        let fast = KernelLaunch {
            function,
            config,
            params: SoftmaxRingsParams {
                rows: rows.params,
                run_pieces: rings.run_pieces,
                n_slots: rings.n_slots,
                cut: rings.cut - 1,
                unused: 0,
            },
            bind: |params, call| bind(&mut params.rows, call),
        };
        Ok(Box::new(RingsOrLooped { fast, general: looped(self.name(), problem, context)? }))
    }
}

/// The rings of a cluster's blocks.
struct Rings {
    /// What rows are cut at multiples of: lines, or pieces where rows are whole pieces.
    cut: u32,
    /// Pieces of a warp.
    run_pieces: u32,
    /// Rows in a ring.
    n_slots: u32,
    /// Of all rings of a block.
    bytes: u32,
}

impl Rings {
    fn new(problem: &SoftmaxProblem, blocks: u32) -> Self {
        let (params, lanes) = (naive::params(problem), lanes(problem));
        let whole = params.row_elems % lanes == 0 && pitch(&params.in_rows) % lanes == 0;
        let (cut, pieces) = if whole { (PIECE, params.row_elems / lanes) } else { (LINE, max_pieces(problem)) };
        let warps = i64::from(THREADS / WARP);
        let run_pieces = lines(div_ceil(pieces, i64::from(blocks) * warps));
        let inputs = if problem.dy().is_some() { 2 } else { 1 };
        let slot_bytes = inputs * run_pieces * warps * i64::from(PIECE);
        let n_slots = (i64::from(MAX_BLOCK_BYTES - BESIDE) / slot_bytes).min(i64::from(MAX_SLOTS));
        Rings { cut, run_pieces: run_pieces as u32, n_slots: n_slots as u32, bytes: (n_slots * slot_bytes) as u32 }
    }
}

/// So many pieces and those up to the next line.
fn lines(pieces: i64) -> i64 {
    let of_line = i64::from(LINE / PIECE);
    div_ceil(pieces, of_line) * of_line
}

fn pitch(rows: &TensorParam) -> i64 {
    rows.strides[MAX_RANK - 1]
}

/// The rings' kernel where it takes a run.
struct RingsOrLooped {
    fast: KernelLaunch<SoftmaxRingsParams>,
    general: Box<dyn Launch>,
}

impl Launch for RingsOrLooped {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        if call.beta == 0.0 && call.is_aligned(u64::from(PIECE)) {
            self.fast.launch(stream, call)
        } else {
            self.general.launch(stream, call)
        }
    }
}

fn kernel(config: Config) -> (&'static Kernel, usize) {
    named(KERNELS, |kernel| &kernel.names, config)
}
