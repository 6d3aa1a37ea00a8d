//! Rows of contiguous classes: 4 to 256 threads a row, read once.

use super::naive::{Places, Steps, Sum, params, partials_bytes};
use super::{CrossEntropyInput, CrossEntropyPass, CrossEntropyProblem, LossReduction};
use crate::launch::{LaunchConfig, div_ceil};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, check_gpu, cost};
use crate::{Context, DType, Error, Problem};
use kernel_abi::ops::crossentropy::{CrossEntropyParams, LINES_FROM};

/// A row of the kernel list.
struct Kernel {
    symbol: &'static str,
    pass: &'static str,
    dtype: DType,
    /// Of a row.
    threads: u32,
    /// Of a thread, at a time.
    pieces: u32,
    block: u32,
}

macro_rules! kernels {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $threads:literal, $pieces:literal, $block:literal, $blocks:literal)),* $(,)?) => {
        &[$(Kernel {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            threads: $threads,
            pieces: $pieces,
            block: $block,
        }),*]
    };
}

/// In the order of the rows that they hold at a time.
const KERNELS: &[Kernel] = kernel_abi::crossentropy_looped_kernels!(kernels);

/// Bytes of a piece.
const PIECE: i64 = 16;
/// Bytes of a line of the cache.
const LINE: i64 = 128;

/// Blocks for each multiprocessor where each leaves a part of the sum of losses.
const BLOCKS_PER_UNIT: i64 = 16;

/// Rows for each multiprocessor that are so many that their number counts, and not how soon one is done.
const ROWS_PER_UNIT: i64 = 16;

/// What the beginning of a row costs a warp, backward: where it lies, its target, what its loss is multiplied with.
const ROW_US: f64 = 6.2e-4;

/// Bytes that one block reads sooner than a second kernel adds up what several blocks leave.
const ONE_BLOCK_BYTES: i64 = 64 << 10;

/// A group of threads a row, which goes along it as often as it takes.
pub(super) struct LoopedRows;

impl Algorithm<CrossEntropyProblem> for LoopedRows {
    fn name(&self) -> &'static str {
        "looped_rows"
    }

    fn configs(&self, problem: &CrossEntropyProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        contiguous_rows(problem, context)?;
        let pieces = if reads_one(problem) { 1 } else { max_pieces(problem) };
        let able: Vec<&Kernel> = KERNELS
            .iter()
            .filter(|kernel| kernel.pass == problem.pass() && kernel.dtype == problem.x().dtype())
            .collect();
        // The least that holds a row at a time, and the next, which has more threads for it; else the largest. Backward,
        // where rows are many, the one before too, whose threads begin fewer rows.
        let holds = |kernel: &&Kernel| i64::from(kernel.threads * kernel.pieces) >= pieces;
        let least = able.iter().position(holds).unwrap_or(able.len().saturating_sub(1));
        let many = problem.n_rows() >= ROWS_PER_UNIT * context.info().n_units as i64;
        let first = if forward(problem) || !many { least } else { least.saturating_sub(1) };
        Ok(able.iter().skip(first).take(least - first + 2).map(|kernel| Config(kernel.symbol)).collect())
    }

    fn workspace_bytes(&self, _: &CrossEntropyProblem, _: Config) -> u64 {
        0
    }

    fn workspace_bytes_on(&self, problem: &CrossEntropyProblem, config: Config, context: &Context) -> u64 {
        match grid(problem, kernel(config), context)[0] {
            1 => 0,
            blocks => partials_bytes(problem, i64::from(blocks)),
        }
    }

    fn estimate_us(&self, problem: &CrossEntropyProblem, config: Config, context: &Context) -> f64 {
        let kernel = kernel(config);
        let x_bytes = problem.x().data_bytes() as f64;
        let mut bytes = problem.bytes();
        if reads_one(problem) {
            // A sector a row.
            bytes += 32.0 * problem.n_rows() as f64 - x_bytes;
        } else {
            // Threads without classes cost a little.
            let held = i64::from(kernel.threads * kernel.pieces);
            bytes *= 1.0 + 0.02 * (held as f64 / max_pieces(problem) as f64);
            if spreads(problem) && forward(problem) {
                // Read once more, from the cache.
                bytes += 0.4 * x_bytes;
            }
        }
        let [x, y, _] = grid(problem, kernel, context);
        let warps = f64::from(kernel.block / 32) * f64::from(x) * f64::from(y);
        let beginnings = if forward(problem) { 0.0 } else { ROW_US * warps };
        let second = if self.workspace_bytes_on(problem, config, context) > 0 { cost::LAUNCH_US } else { 0.0 };
        second + beginnings + cost::blocks_us(bytes, i64::from(x) * i64::from(y), context)
    }

    fn prepare(
        &self,
        problem: &CrossEntropyProblem,
        config: Config,
        context: &Context,
    ) -> Result<Box<dyn Launch>, Error> {
        let kernel = kernel(config);
        let grid = grid(problem, kernel, context);
        let part_pieces = part_pieces(problem, kernel, i64::from(grid[1]));
        let sum = match grid[0] {
            1 => None,
            blocks => Sum::new(problem, i64::from(blocks), context)?,
        };
        Ok(Box::new(Steps {
            rows: context.function(config.0)?,
            config: LaunchConfig { grid, block: [kernel.block, 1, 1], ..LaunchConfig::default() },
            params: CrossEntropyParams { n_parts: grid[1], part_pieces: part_pieces as u32, ..params(problem)? },
            places: Places::new(problem),
            sum,
        }))
    }
}

fn kernel(config: Config) -> &'static Kernel {
    KERNELS.iter().find(|kernel| kernel.symbol == config.0).unwrap_or(&KERNELS[0])
}

/// Blocks along rows, and backward along parts of a row.
fn grid(problem: &CrossEntropyProblem, kernel: &Kernel, context: &Context) -> [u32; 3] {
    let most = i64::from(i32::MAX);
    let blocks = div_ceil(problem.n_rows(), i64::from(kernel.block / kernel.threads)).min(most);
    let units = context.info().n_units as i64;
    if !forward(problem) {
        // Who adds probabilities up must not meet another part's gradients, which may be written in their place.
        let shared = kernel.threads == kernel.block && problem.has_classes();
        let wanted = if shared { div_ceil(2 * units, blocks) } else { 1 };
        let parts = div_ceil(max_pieces(problem), part_pieces(problem, kernel, wanted));
        return [blocks as u32, parts as u32, 1];
    }
    if problem.reduction() == LossReduction::None {
        return [blocks as u32, 1, 1];
    }
    if problem.x().data_bytes() as i64 <= ONE_BLOCK_BYTES {
        return [1; 3];
    }
    [blocks.min(BLOCKS_PER_UNIT * units) as u32, 1, 1]
}

/// Pieces of each of so many parts of a row at most: whole rounds of the row's threads.
fn part_pieces(problem: &CrossEntropyProblem, kernel: &Kernel, n_parts: i64) -> i64 {
    let round = i64::from(kernel.threads * kernel.pieces);
    div_ceil(div_ceil(max_pieces(problem), n_parts), round) * round
}

/// Whether all classes have a share in the loss.
pub(super) fn spreads(problem: &CrossEntropyProblem) -> bool {
    problem.smoothing() != 0.0 || !problem.has_classes()
}

fn forward(problem: &CrossEntropyProblem) -> bool {
    problem.crossentropy_pass() == CrossEntropyPass::Forward
}

/// Whether of each row only the target's class is read.
fn reads_one(problem: &CrossEntropyProblem) -> bool {
    forward(problem) && problem.input() == CrossEntropyInput::LogProbs && !spreads(problem)
}

/// The most pieces of 16 bytes that a row has, wherever it begins.
pub(super) fn max_pieces(problem: &CrossEntropyProblem) -> i64 {
    let lanes = PIECE / problem.x().dtype().size_bytes() as i64;
    // Long rows are cut at lines of the cache, with pieces without elements before a row's first.
    let before = if problem.n_classes() < LINES_FROM { 0 } else { LINE / PIECE - 1 };
    before + div_ceil(problem.n_classes() + lanes - 1, lanes)
}

/// Refuses what has no rows of contiguous classes, or what no tuned kernel takes.
pub(super) fn contiguous_rows(problem: &CrossEntropyProblem, context: &Context) -> Result<(), Refusal> {
    /// Classes are counted in 32 bits, with some to spare behind the last.
    const MAX_CLASSES: i64 = 1 << 30;
    check_gpu(context)?;
    if problem.x().dtype() == DType::F64 {
        return Err(Refusal::new("takes f32, f16 and bf16, given f64"));
    }
    let probabilities = if problem.has_classes() { None } else { Some(problem.target()) };
    for desc in [Some(problem.x()), problem.dx(), probabilities].into_iter().flatten() {
        if problem.n_classes() > 1 && desc.strides()[1] != 1 {
            return Err(Refusal::new(format!(
                "takes rows of contiguous classes, given {desc} with a distance of {}",
                desc.strides()[1]
            )));
        }
    }
    if problem.n_classes() > MAX_CLASSES {
        return Err(Refusal::new(format!("takes up to {MAX_CLASSES} classes, given {}", problem.n_classes())));
    }
    Ok(())
}
