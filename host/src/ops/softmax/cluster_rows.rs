//! Rows of whole pieces in the registers of a block, or of a cluster's blocks.

use super::lanes::{at_one_distance, launch};
use super::looped_rows::LoopedRows;
use super::register_rows::contiguous_rows;
use super::{SoftmaxProblem, naive};
use crate::launch::{Aligned, KernelLaunch, LaunchConfig};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, DType, Error, Problem};
use kernel_abi::ops::softmax::cluster_rows::{MAX_BLOCKS, THREADS};
use kernel_abi::ops::softmax::{SoftmaxLanesParams, SoftmaxParams};
use kernel_abi::{MAX_RANK, TensorParam};

/// A row of the kernel list.
struct Kernel {
    symbol: &'static str,
    /// What it is called with clusters of 1, 2, 4 and 8 blocks.
    names: [&'static str; 4],
    pass: &'static str,
    dtype: DType,
    /// Of a thread.
    pieces: u32,
}

/// What a kernel is called with clusters of 1, 2, 4 and 8 blocks.
macro_rules! cluster_names {
    ($symbol:ident) => {
        [
            stringify!($symbol),
            concat!(stringify!($symbol), "+cluster2"),
            concat!(stringify!($symbol), "+cluster4"),
            concat!(stringify!($symbol), "+cluster8"),
        ]
    };
}
pub(super) use cluster_names;

macro_rules! kernels {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $pieces:literal, $blocks:literal)),* $(,)?) => {
        &[$(Kernel {
            symbol: stringify!($symbol),
            names: cluster_names!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            pieces: $pieces,
        }),*]
    };
}

const KERNELS: &[Kernel] = kernel_abi::softmax_cluster_kernels!(kernels);

/// Bytes of a piece.
const PIECE: i64 = 16;

/// A cluster a row, all of which is under way at once.
///
/// A run with addresses that are no multiples of 16 goes the way of `looped_rows`.
pub(super) struct ClusterRows;

impl Algorithm<SoftmaxProblem> for ClusterRows {
    fn name(&self) -> &'static str {
        "cluster_rows"
    }

    fn configs(&self, problem: &SoftmaxProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let params = whole_pieces(problem, context)?;
        let lanes = lanes(problem);
        let of_type = |kernel: &&Kernel| kernel.pass == problem.pass() && kernel.dtype == problem.input().dtype();
        let pieces = params.row_elems / lanes;
        let configs: Vec<Config> = KERNELS
            .iter()
            .filter(of_type)
            .filter_map(|kernel| blocks(kernel, pieces).map(|i| Config(kernel.names[i])))
            .collect();
        if configs.is_empty() {
            let of_blocks =
                |kernel: &Kernel| [1, MAX_BLOCKS].map(|blocks| i64::from(THREADS * kernel.pieces * blocks) * lanes);
            return Err(not_held(params.row_elems, KERNELS.iter().filter(of_type).flat_map(of_blocks)));
        }
        Ok(configs)
    }

    fn workspace_bytes(&self, _: &SoftmaxProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> f64 {
        let (kernel, i) = kernel(config);
        let blocks = 1i64 << i;
        let params = naive::params(problem);
        // Threads without elements cost a little, blocks that wait for each other more.
        let held = blocks * i64::from(THREADS * kernel.pieces) * lanes(problem);
        let share =
            1.0 + 0.02 * held as f64 / params.row_elems as f64 + if i > 0 { 0.15 + 0.03 * i as f64 } else { 0.0 };
        cost::blocks_us(problem.bytes() * share, params.n_rows * blocks, context)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (kernel, i) = kernel(config);
        let params = naive::params(problem);
        let blocks = 1u32 << i;
        let launch_config = LaunchConfig {
            grid: [params.n_rows as u32 * blocks, 1, 1],
            block: [THREADS, 1, 1],
            cluster: Some([blocks, 1, 1]),
            ..LaunchConfig::default()
        };
        let whole = launch(context.function(kernel.symbol)?, launch_config, &params);
        or_looped(self.name(), whole, problem, context)
    }
}

/// The parameters of a problem whose rows are whole pieces, one behind the other at multiples of pieces, on Hopper.
pub(super) fn whole_pieces(problem: &SoftmaxProblem, context: &Context) -> Result<SoftmaxParams, Refusal> {
    let params = contiguous_rows(problem, context)?;
    let (major, minor) = context.info().compute_capability;
    if (major, minor) != (9, 0) {
        return Err(Refusal::new(format!("needs compute capability 9.0, the device has {major}.{minor}")));
    }
    at_one_distance(problem, &params)?;
    let lanes = lanes(problem);
    let pitch = |rows: &TensorParam| rows.strides[MAX_RANK - 1];
    let input = if problem.dy().is_some() { "y" } else { "x" };
    let output = if problem.dy().is_some() { "dx" } else { "y" };
    let pitches = [(input, pitch(&params.in_rows)), ("dy", pitch(&params.dy_rows)), (output, pitch(&params.out_rows))];
    for (name, count) in [("a row", params.row_elems)].into_iter().chain(pitches) {
        if count % lanes != 0 {
            return Err(Refusal::new(format!(
                "takes lengths and distances of rows of multiples of {lanes} elements, {name} has {count}"
            )));
        }
    }
    Ok(params)
}

/// Elements of a piece.
pub(super) fn lanes(problem: &SoftmaxProblem) -> i64 {
    PIECE / problem.input().dtype().size_bytes() as i64
}

/// Why no kernel of those that hold so many elements takes a row: each wants more than half of its threads at work.
pub(super) fn not_held(row_elems: i64, held: impl Iterator<Item = i64> + Clone) -> Refusal {
    let (least, most) = (held.clone().min().unwrap_or(0) / 2, held.max().unwrap_or(0));
    Refusal::new(format!("takes rows of more than {least} and up to {most} elements, given {row_elems}"))
}

/// The logarithm of the fewest blocks that hold so many pieces, more than half of their threads with one at least.
fn blocks(kernel: &Kernel, pieces: i64) -> Option<usize> {
    let of_block = i64::from(THREADS * kernel.pieces);
    let blocks = (0..kernel.names.len()).find(|i| of_block << i >= pieces)?;
    (2 * pieces > of_block).then_some(blocks)
}

fn kernel(config: Config) -> (&'static Kernel, usize) {
    named(KERNELS, |kernel| &kernel.names, config)
}

/// The kernel that is called so, and which of its names that is.
pub(super) fn named<K>(
    kernels: &'static [K],
    names: impl Fn(&K) -> &[&'static str],
    config: Config,
) -> (&'static K, usize) {
    let place = |kernel: &'static K| Some((kernel, names(kernel).iter().position(|name| *name == config.0)?));
    kernels.iter().find_map(place).unwrap_or((&kernels[0], 0))
}

/// A launch for addresses at multiples of 16 bytes, with what `looped_rows` launches for others.
pub(super) fn or_looped(
    algorithm: &str,
    whole: KernelLaunch<SoftmaxLanesParams>,
    problem: &SoftmaxProblem,
    context: &Context,
) -> Result<Box<dyn Launch>, Error> {
    let general = looped(algorithm, problem, context)?;
    Ok(Box::new(Aligned { fast: whole, align: PIECE as u64, general }))
}

/// What `looped_rows` launches, for runs that an algorithm's own kernel does not take.
pub(super) fn looped(algorithm: &str, problem: &SoftmaxProblem, context: &Context) -> Result<Box<dyn Launch>, Error> {
    let refused = |refusal: Refusal| refusal.into_error(algorithm, problem);
    let config = LoopedRows.configs(problem, context).map_err(refused)?[0];
    LoopedRows.prepare(problem, config, context)
}
