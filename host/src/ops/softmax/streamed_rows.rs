//! Rows of whole pieces that blocks take one after the other from a ring in shared memory.

use super::cluster_rows::{lanes, named, not_held, or_looped, whole_pieces};
use super::lanes::launch;
use super::{SoftmaxProblem, naive};
use crate::launch::{LaunchConfig, div_ceil};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, DType, Error, Problem};
use kernel_abi::ops::softmax::streamed_rows::{MAX_SLOTS, WARP};

/// A row of the kernel list.
struct Kernel {
    symbol: &'static str,
    /// With so much of a ring as loads take, and with all that there is room for.
    names: [&'static str; 2],
    pass: &'static str,
    dtype: DType,
    /// Of a row.
    threads: u32,
    /// Of a thread.
    pieces: u32,
    block: u32,
    /// Of a multiprocessor.
    blocks: u32,
}

macro_rules! kernels {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $threads:literal, $pieces:literal, $block:literal, $blocks:literal)),*
        $(,)?) => {
        &[$(Kernel {
            symbol: stringify!($symbol),
            names: [stringify!($symbol), concat!(stringify!($symbol), "+whole")],
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            threads: $threads,
            pieces: $pieces,
            block: $block,
            blocks: $blocks,
        }),*]
    };
}

const KERNELS: &[Kernel] = kernel_abi::softmax_streamed_kernels!(kernels);

/// Bytes of a piece.
const PIECE: u32 = 16;

/// Shared memory of a multiprocessor, of a block at most, and what a block takes beside its ring: barriers, sums and what
/// the system keeps.
const SHARED_BYTES: u32 = 228 << 10;
const MAX_BLOCK_BYTES: u32 = 227 << 10;
const BESIDE: u32 = 1024 + 1024 + 512;

/// Bytes of all rings of a multiprocessor that keep the memory busy.
const RING_BYTES: u32 = 128 << 10;

/// Rows that come to shared memory while others are worked on.
///
/// A run with addresses that are no multiples of 16 goes the way of `looped_rows`.
pub(super) struct StreamedRows;

impl Algorithm<SoftmaxProblem> for StreamedRows {
    fn name(&self) -> &'static str {
        "streamed_rows"
    }

    fn configs(&self, problem: &SoftmaxProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let params = whole_pieces(problem, context)?;
        let of_type = |kernel: &&Kernel| kernel.pass == problem.pass() && kernel.dtype == problem.input().dtype();
        let pieces = params.row_elems / lanes(problem);
        let holds = |kernel: &Kernel| i64::from(kernel.threads * kernel.pieces);
        let fits = |kernel: &&Kernel| holds(kernel) >= pieces && holds(kernel) < 2 * pieces;
        let configs: Vec<Config> = KERNELS
            .iter()
            .filter(of_type)
            .filter(fits)
            .flat_map(|kernel| (0..2).map(move |whole| (kernel, whole)))
            .filter(|(kernel, whole)| {
                let least = if problem.dy().is_some() { 2 } else { 1 };
                slots(kernel, *whole) >= least && (*whole == 0 || slots(kernel, 1) > slots(kernel, 0))
            })
            .map(|(kernel, whole)| Config(kernel.names[whole]))
            .collect();
        if configs.is_empty() {
            let count = |kernel: &Kernel| holds(kernel) * lanes(problem);
            return Err(not_held(params.row_elems, KERNELS.iter().filter(of_type).map(count)));
        }
        Ok(configs)
    }

    fn workspace_bytes(&self, _: &SoftmaxProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> f64 {
        let (kernel, whole) = kernel(config);
        let rows = naive::params(problem).n_rows;
        // Threads without elements cost a little, and so does the beginning of a block, which only many rows make up for.
        let held = f64::from(kernel.threads * kernel.pieces) * lanes(problem) as f64;
        let idle = 1.0 + 0.02 * held / problem.rows().row_elems as f64 + 0.01 * whole as f64;
        1.0 + cost::blocks_us(problem.bytes() * idle, div_ceil(rows, i64::from(kernel.block / kernel.threads)), context)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (kernel, whole) = kernel(config);
        let params = naive::params(problem);
        let blocks = div_ceil(params.n_rows, i64::from(kernel.block / kernel.threads));
        let resident = context.info().n_units as i64 * i64::from(kernel.blocks);
        let shared_bytes = slots(kernel, whole) * warps(kernel) * slot_bytes(kernel);
        let function = context.function(kernel.symbol)?;
        function.allow_dynamic_shared(shared_bytes as usize)?;
        let config = LaunchConfig {
            grid: [blocks.min(resident * waves(kernel, whole)) as u32, 1, 1],
            block: [kernel.block, 1, 1],
            shared_bytes,
            ..LaunchConfig::default()
        };
        or_looped(self.name(), launch(function, config, &params), problem, context)
    }
}

fn kernel(config: Config) -> (&'static Kernel, usize) {
    named(KERNELS, |kernel| &kernel.names, config)
}

/// Whether the ring has one row: forward, where a multiprocessor has one block, with a row in registers, one more under way is
/// enough.
fn has_one_slot(kernel: &Kernel, whole: usize) -> bool {
    whole == 0 && kernel.blocks == 1 && kernel.pass == "forward"
}

/// How many times a block's place on a multiprocessor is taken anew. Multiprocessors are not equally far from memory: the
/// near ones take more blocks. A block of few rows pays for its beginning where there are others beside it, or where it
/// fills a longer ring.
fn waves(kernel: &Kernel, whole: usize) -> i64 {
    match kernel.threads {
        _ if has_one_slot(kernel, whole) => 2,
        1024.. => 1,
        512.. => 4,
        _ if kernel.pieces < 4 => 1,
        _ => 16,
    }
}

fn warps(kernel: &Kernel) -> u32 {
    kernel.block / WARP
}

/// Of the shared memory that a warp's turn has for an input.
fn slot_bytes(kernel: &Kernel) -> u32 {
    kernel.pieces * WARP * PIECE
}

/// Turns in a warp's ring.
fn slots(kernel: &Kernel, whole: usize) -> u32 {
    let warps = warps(kernel);
    let row = warps * slot_bytes(kernel);
    let fit = ((SHARED_BYTES / kernel.blocks).min(MAX_BLOCK_BYTES) - BESIDE) / row;
    let wanted = match whole {
        _ if has_one_slot(kernel, whole) => 1,
        0 => RING_BYTES.div_ceil(kernel.blocks * row),
        _ => fit,
    };
    wanted.min(fit).min(MAX_SLOTS as u32 / warps)
}
