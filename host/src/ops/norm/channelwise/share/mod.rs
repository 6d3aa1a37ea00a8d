//! Tensors as images, positions and channels, and how blocks share them out.

use crate::launch::div_ceil;
use crate::ops::norm::{NormMode, NormPass, NormProblem};
use crate::select::Refusal;
use crate::{Context, DType, TensorDesc};
use kernel_abi::desc::collapse_dims;
use kernel_abi::division::Divisor;
use kernel_abi::ops::norm::channelwise::{
    BLOCK, GRADIENT_RUN, GRADIENT_SUM_BLOCK, GRADIENT_SUM_RUN, RUN, RUN_BLOCK, STATISTICS_BLOCK, STATISTICS_RUN, Share,
    tensor,
};

/// Bytes of an access.
pub(super) const VECTOR_BYTES: i64 = 16;
/// Blocks of a multiprocessor that keep it busy: two or three times those that are there together.
const BLOCKS_PER_UNIT: i64 = 6;
/// Those that are there together: forward, and of passes that keep more registers. Where blocks sweep there are no more.
const FORWARD_TOGETHER: i64 = 3;
const TOGETHER: i64 = 2;
/// Vectors of a multiprocessor up to which blocks with a run of positions each are small, so that all of them have some.
const FEW_RUN_VECTORS: i64 = BLOCK as i64 * 2 * RUN as i64;
/// Blocks of a multiprocessor that go over runs and sum up, forward and backward: as many as are there together.
const STATISTICS_TOGETHER: i64 = 2;
const GRADIENT_SUMS_TOGETHER: i64 = 3;
/// Vectors of x from which blocks go over runs to sum up, for each of the threads that are there together: where they go
/// over all positions together anyway, and where they would not.
const SUM_RUN_VECTORS: i64 = 4;
const MANY_SUM_RUN_VECTORS: i64 = 16;
const SUM_RUN_THREADS: i64 = 1024;
/// The share of a block's threads that must have channels there, if more blocks beside one another have them filled so.
const SUM_RUN_FILLED: f64 = 0.95;
const MAX_MORE_BLOCKS: i64 = 8;
/// Vectors of a thread up to which blocks are no more than are there together: what each begins and ends with takes as
/// long as some of them.
const ONE_WAVE_VECTORS: i64 = 64;
/// Share of the blocks there together that must have something to do.
const BUSY_SHARE: f64 = 0.85;
/// Vectors of a thread that are worth a part.
const PART_VECTORS: i64 = 4;
/// The most channels of a warp's vectors.
const MAX_LANES: u64 = 32;
/// The least, if there are so many, of which places are to be filled; and the share of those that fewer lanes fill. Of 18
/// vectors, 4 lanes take 10 % less time than 32, of 12, 2 to 4 % less than 16; 2 lanes take no less than these (H200).
const MIN_LANES: i64 = 4;
const FILLED_SHARE: f64 = 0.9;
/// The same where a block has all positions, and the vectors of a thread up to which it does.
const WHOLE_LANES: i64 = 8;
const WHOLE_VECTORS: i64 = 4;
/// Vectors of a thread from which sums and what is behind them sweep, forward and backward, and the share of places filled
/// by a power of two of lanes below which they always do. Of fewer vectors it took up to 12 % longer, where each block
/// reads what is known of more channels; of 72 channels 30 % less (H200).
const SWEEP_FORWARD_VECTORS: i64 = 40;
const SWEEP_BACKWARD_VECTORS: i64 = 20;
const SWEEP_SHARE: f64 = 0.85;
/// Images of fewer positions have them taken for channels, where there are this many images.
const FEW_POSITIONS: i64 = 1024;
const MANY_IMAGES: i64 = 32;
/// Positions and channels are counted in 31 bits, a few steps more of them included.
const MAX_EXTENT: i64 = 1 << 30;
/// The most parts: the extent of a grid.
const MAX_PARTS: i64 = 65_535;

/// How blocks share the elements out, with accesses of 16 bytes where tensors allow, and with single ones.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops::norm) struct Shares {
    pub(in crate::ops::norm) vectors: Option<Share>,
    pub(super) single: Share,
    /// Blocks along the channels, with vectors and without.
    blocks: [u32; 2],
}

impl Shares {
    /// That for tensors at addresses of which these bits are set, and its blocks along the channels.
    pub(super) fn at(&self, addresses: u64) -> (Share, u32) {
        match self.vectors.filter(|_| addresses.is_multiple_of(VECTOR_BYTES as u64)) {
            Some(share) => (share, self.blocks[0]),
            None => (self.single, self.blocks[1]),
        }
    }
}

/// Tensors and how they are shared out.
#[derive(Debug)]
pub(in crate::ops::norm) struct Layout {
    /// In passes that sum.
    pub(in crate::ops::norm) summing: Shares,
    /// In the one behind them, and inference.
    pub(super) applying: Shares,
    /// For each tensor, elements between images, positions and channels.
    pub(super) strides: [[i64; 3]; tensor::COUNT],
    pub(super) rows_per_image: u32,
    pub(in crate::ops::norm) channels_per_row: Divisor,
    pub(super) channels_per_parameter: Divisor,
    /// Whether a block has all elements of its rows.
    pub(super) whole: bool,
    /// Threads of blocks that access 16 bytes at a time, have a run of positions each, and write them in one go; 0 where
    /// blocks stay.
    pub(super) run_threads: u32,
    /// Threads of blocks that access 16 bytes at a time and go over runs of positions to sum up; 0 where they go over
    /// positions of any number.
    pub(super) sum_threads: u32,
}

/// Blocks that go over runs to sum up.
#[derive(Clone, Copy)]
struct SumRuns {
    /// Their threads.
    threads: u32,
    /// Positions of a thread in a run.
    run: u32,
    /// Blocks of a multiprocessor.
    together: i64,
}

impl SumRuns {
    /// Those of a pass, where there are such.
    fn of(problem: &NormProblem) -> Option<Self> {
        match problem.norm_pass() {
            NormPass::Forward => {
                Some(SumRuns { threads: STATISTICS_BLOCK, run: STATISTICS_RUN, together: STATISTICS_TOGETHER })
            }
            NormPass::Backward if problem.operand("y").is_none() && problem.operand("inv_std").is_some() => {
                Some(SumRuns { threads: GRADIENT_SUM_BLOCK, run: GRADIENT_SUM_RUN, together: GRADIENT_SUMS_TOGETHER })
            }
            _ => None,
        }
    }

    /// Lanes along so many vectors: of the least blocks beside one another that leave few threads without, as even as
    /// they can be.
    fn lanes(self, vectors: i64) -> i64 {
        let threads = i64::from(self.threads);
        let least = div_ceil(vectors, threads);
        let lanes = |blocks: i64| div_ceil(vectors, blocks);
        let filled = |blocks: i64| (vectors * (threads / lanes(blocks))) as f64 / (blocks * threads) as f64;
        let able = || least..=(least + MAX_MORE_BLOCKS).min(vectors);
        let best = able().map(filled).fold(0.0, f64::max);
        able().find(|&blocks| filled(blocks) >= SUM_RUN_FILLED * best).map_or(vectors, lanes)
    }
}

/// Extents and distances.
pub(in crate::ops::norm) struct Shape {
    pub(in crate::ops::norm) images: i64,
    pub(in crate::ops::norm) positions: i64,
    pub(in crate::ops::norm) channels: i64,
    /// For each tensor, elements between images, positions and channels.
    pub(in crate::ops::norm) strides: [[i64; 3]; tensor::COUNT],
    /// Positions that are taken for channels of their own, 1 where they are not.
    spread: i64,
}

impl Layout {
    pub(in crate::ops::norm) fn of(problem: &NormProblem, context: &Context) -> Result<Self, Refusal> {
        let mode = problem.mode();
        if problem.norm_pass() == NormPass::Finalize {
            return Err(Refusal::new("takes forward, inference and backward, given finalize"));
        }
        let by_image = matches!(mode, NormMode::Group { .. } | NormMode::Instance);
        let mut shape = Shape::of(problem)?;
        let run = VECTOR_BYTES / problem.x().dtype().size_bytes() as i64;
        let units = |axis: usize, extent: i64| extent == 1 || shape.strides.iter().all(|s| s[axis] == 1);
        let along_channels = shape.channels > 1 && units(2, shape.channels);
        if !along_channels && !units(1, shape.positions) {
            let reason = format!("takes contiguous channels or positions, given {} and {}", problem.x(), problem.out());
            return Err(Refusal::new(reason));
        }
        let pass = problem.norm_pass();
        let merges = along_channels && pass == NormPass::Inference && shape.merge_images();
        let whole = |axis: usize, extent: i64| extent == 1 || shape.strides.iter().all(|s| s[axis] % run == 0);
        let fits = if along_channels {
            shape.channels % run == 0 && whole(0, shape.images) && whole(1, shape.positions)
        } else {
            shape.positions % run == 0 && whole(0, shape.images) && whole(2, shape.channels)
        };
        let best = if fits { run } else { 1 };
        let rows_along_images = !along_channels && !by_image && shape.images > 1;
        let one_channel_a_row = !matches!(mode, NormMode::Group { .. }) && shape.spread == 1;
        let whole = one_channel_a_row
            && match pass {
                NormPass::Forward => true,
                NormPass::Backward => !by_image && problem.operand("inv_std").is_some(),
                _ => false,
            }
            && shape.steps(by_image, along_channels, rows_along_images, best) <= WHOLE_VECTORS;
        // Channels are along an axis of the grid that is short.
        let can_write_runs =
            fits && shape.spread == 1 && is_of_few_tensors(problem) && shape.channels <= MAX_PARTS * run;
        let of_thread = shape.vectors(run) / (SUM_RUN_THREADS * context.info().n_units as i64);
        let sum_runs =
            SumRuns::of(problem).filter(|_| fits && one_channel_a_row && !whole && of_thread >= SUM_RUN_VECTORS);
        let many = sum_runs.is_some() && can_write_runs && of_thread >= MANY_SUM_RUN_VECTORS;
        let sweeps = along_channels
            && match pass {
                NormPass::Inference => merges,
                pass => shape.images == 1 && !by_image && (many || shape.is_worth_sweeping(run, pass, context)),
            };
        let sum_runs = sum_runs.filter(|_| sweeps);
        let in_runs = sweeps && can_write_runs && !whole;
        let run_threads = match in_runs {
            true if shape.vectors(run) <= FEW_RUN_VECTORS * context.info().n_units as i64 => BLOCK,
            true => RUN_BLOCK,
            false => 0,
        };
        let writes_runs = |run: i64, sums: bool| in_runs && run > 1 && !sums;
        let sums_runs = |run: i64, sums: bool| sum_runs.filter(|_| run > 1 && sums);
        let threads = |run: i64, sums: bool| match sums_runs(run, sums) {
            Some(runs) => runs.threads,
            None if writes_runs(run, sums) => run_threads,
            None => BLOCK,
        };
        let lanes = |run: i64, sums: bool| {
            if let Some(runs) = sums_runs(run, sums) {
                runs.lanes(shape.channels / run)
            } else if sweeps && !sums {
                // As even as there are blocks beside one another.
                let all = (shape.channels / run).max(1);
                div_ceil(all, div_ceil(all, i64::from(threads(run, sums))))
            } else if along_channels {
                let all = lanes_along(shape.channels / run);
                // Few of them, and more blocks, where a block has all positions.
                let few = (i64::from(BLOCK) * 4 / shape.positions).clamp(1, WHOLE_LANES);
                if whole { all.min(1 << few.ilog2()) } else { all }
            } else if rows_along_images {
                MAX_LANES as i64
            } else {
                i64::from(BLOCK)
            }
        };
        let shares = |sums: bool| -> Result<Shares, Refusal> {
            let blocks = |run: i64| {
                if along_channels { div_ceil(shape.channels, lanes(run, sums) * run) } else { shape.channels }
            };
            let together = if problem.norm_pass() == NormPass::Forward { FORWARD_TOGETHER } else { TOGETHER };
            let cut = if whole {
                Cut::whole(&shape, by_image)
            } else if sweeps {
                let units = context.info().n_units as i64;
                let rows = i64::from(threads(best, sums)) / lanes(best, sums);
                // Blocks that go over runs have one at least.
                let (together, most) = match sums_runs(best, sums) {
                    Some(runs) => (runs.together, shape.positions / (rows * i64::from(runs.run))),
                    None => (together, div_ceil(shape.positions, rows * PART_VECTORS)),
                };
                Cut::sweeping(&shape, most.min(units * together / blocks(best)).max(1))
            } else {
                let wanted = parts_wanted(&shape, best, blocks(best), together, context);
                Cut::new(&shape, by_image, rows_along_images, along_channels, lanes(best, sums), best, wanted)
            };
            if cut.n_parts() > MAX_PARTS {
                return Err(Refusal::new(format!("takes up to {MAX_PARTS} parts, given {}", cut.n_parts())));
            }
            let share = |run: i64| {
                let rows = threads(run, sums) / lanes(run, sums) as u32;
                let share = Share {
                    images: shape.images as u32,
                    positions: shape.positions as u32,
                    channels: shape.channels as u32,
                    part_images: cut.part_images as u32,
                    part_positions: cut.part_positions as u32,
                    chunks: Divisor::new(cut.chunks as u32),
                    n_parts: cut.n_parts() as u32,
                    by_image: u32::from(by_image),
                    lanes: lanes(run, sums) as u32,
                    by_lanes: Divisor::new(lanes(run, sums) as u32),
                    along_channels: u32::from(along_channels),
                    rows_along_images: u32::from(rows_along_images),
                    vectors: u32::from(run > 1),
                    sweeping: u32::from(sweeps && !whole),
                    rest: 0,
                    rows,
                    rounds: 0,
                };
                if share.sweeping == 0 {
                    return share;
                }
                if writes_runs(run, sums) {
                    let part_positions = rows * positions_of_run(problem);
                    let n_parts = share.positions.div_ceil(part_positions);
                    let chunks = Divisor::new(n_parts);
                    return Share { part_images: share.images, part_positions, chunks, n_parts, sweeping: 0, ..share };
                }
                let round = share.n_parts * rows;
                let rounds = sums_runs(run, sums).map_or(0, |runs| share.positions / (round * runs.run));
                let part_positions = share.positions / round * rows;
                Share { part_positions, rest: share.positions % round, rounds, ..share }
            };
            Ok(Shares {
                vectors: fits.then(|| share(run)),
                single: share(1),
                blocks: [blocks(run) as u32, blocks(1) as u32],
            })
        };
        let (rows_per_image, channels_per_row) = match mode {
            NormMode::Group { groups } => (groups, shape.channels / groups),
            NormMode::Instance => (shape.channels, 1),
            _ => (0, shape.spread),
        };
        Ok(Layout {
            summing: shares(true)?,
            applying: shares(false)?,
            strides: shape.strides,
            rows_per_image: rows_per_image as u32,
            channels_per_row: Divisor::new(channels_per_row as u32),
            channels_per_parameter: Divisor::new(shape.spread as u32),
            whole,
            run_threads,
            sum_threads: sum_runs.map_or(0, |runs| runs.threads),
        })
    }
}

/// Whether blocks that have a run of positions each write what is asked for: all that is known of channels is there, as
/// neighbouring f32, and gradients are those of x alone, without an activation.
fn is_of_few_tensors(problem: &NormProblem) -> bool {
    let names: &[&str] = match problem.norm_pass() {
        NormPass::Inference => &["scale", "bias", "running_mean", "running_var"],
        NormPass::Forward => &["scale", "bias"],
        NormPass::Backward if ["y", "dz"].iter().all(|name| problem.operand(name).is_none()) => &["scale"],
        NormPass::Backward | NormPass::Finalize => return false,
    };
    names
        .iter()
        .all(|name| problem.operand(name).is_some_and(|(_, desc)| desc.dtype() == DType::F32 && desc.is_packed()))
}

/// Positions of a thread that has a run, of x alone, with z or with dy.
fn positions_of_run(problem: &NormProblem) -> u32 {
    if problem.norm_pass() == NormPass::Backward {
        GRADIENT_RUN
    } else if problem.operand("z").is_some() {
        RUN
    } else {
        2 * RUN
    }
}

/// Share of the places that so many lanes fill along so many vectors.
fn filled(vectors: i64, lanes: i64) -> f64 {
    vectors as f64 / (div_ceil(vectors, lanes) * lanes) as f64
}

/// A power of two of lanes along so many vectors: the most that leave hardly more places empty than fewer do. Below
/// `MIN_LANES`, less than 64 neighbouring bytes are read together.
fn lanes_along(vectors: i64) -> i64 {
    let filled = |lanes: &i64| filled(vectors, *lanes);
    let most = vectors.max(1).unsigned_abs().next_power_of_two().min(MAX_LANES) as i64;
    let able = || std::iter::successors(Some(most), |lanes| Some(lanes / 2)).take_while(|&lanes| lanes >= MIN_LANES);
    let best = able().map(|lanes| filled(&lanes)).fold(0.0, f64::max);
    able().find(|lanes| filled(lanes) >= FILLED_SHARE * best).unwrap_or(most)
}

/// How many parts keep the device busy, of a vector of `run` elements, of so many blocks, `together` on a multiprocessor.
fn parts_wanted(shape: &Shape, run: i64, blocks: i64, together: i64, context: &Context) -> i64 {
    let n_units = context.info().n_units as i64;
    let wave = n_units * together;
    let vectors = shape.vectors(run);
    let parts = |waves: i64| (waves * wave / blocks).max(1);
    let most = BLOCKS_PER_UNIT / together;
    if vectors > ONE_WAVE_VECTORS * wave * i64::from(BLOCK) {
        return parts(most);
    }
    // As few waves as leave few places empty.
    let busy = |waves: &i64| (parts(*waves) * blocks) as f64 >= BUSY_SHARE * (waves * wave) as f64;
    parts((1..most).find(busy).unwrap_or(most))
}

/// Parts: some images' run of positions.
struct Cut {
    image_parts: i64,
    part_images: i64,
    chunks: i64,
    part_positions: i64,
}

impl Cut {
    fn new(
        shape: &Shape,
        by_image: bool,
        rows_along_images: bool,
        along_channels: bool,
        lanes: i64,
        run: i64,
        wanted: i64,
    ) -> Self {
        let rows = i64::from(BLOCK) / lanes;
        let image_step = if rows_along_images { rows } else { 1 };
        let image_parts = if by_image { shape.images } else { div_ceil(shape.images, image_step).min(wanted) };
        let part_images = div_ceil(shape.images, image_parts);
        let image_parts = div_ceil(shape.images, part_images);
        // What a block's threads take of an image at a time.
        let step = if along_channels { rows } else { lanes * run };
        let chunks = (wanted / image_parts).max(1);
        let least = div_ceil(shape.positions, chunks).max(step * PART_VECTORS);
        let part_positions = div_ceil(least, step) * step;
        let part_positions = part_positions.min(shape.positions);
        Cut { image_parts, part_images, chunks: div_ceil(shape.positions, part_positions), part_positions }
    }

    /// So many blocks that go over all positions together.
    fn sweeping(shape: &Shape, blocks: i64) -> Self {
        Cut { image_parts: 1, part_images: 1, chunks: blocks, part_positions: shape.positions }
    }

    /// All of an image, or of all images.
    fn whole(shape: &Shape, by_image: bool) -> Self {
        let part_images = if by_image { 1 } else { shape.images };
        Cut { image_parts: shape.images / part_images, part_images, chunks: 1, part_positions: shape.positions }
    }

    fn n_parts(&self) -> i64 {
        self.image_parts * self.chunks
    }
}

impl Shape {
    /// Vectors of `run` elements.
    fn vectors(&self, run: i64) -> i64 {
        self.images * self.positions * self.channels / run
    }

    /// Whether blocks that go over the positions together are faster than blocks with runs of their own, in a pass that
    /// sums first.
    fn is_worth_sweeping(&self, run: i64, pass: NormPass, context: &Context) -> bool {
        let (together, least) = match pass {
            NormPass::Forward => (FORWARD_TOGETHER, SWEEP_FORWARD_VECTORS),
            _ => (TOGETHER, SWEEP_BACKWARD_VECTORS),
        };
        let along = (self.channels / run).max(1);
        let threads = context.info().n_units as i64 * together * i64::from(BLOCK);
        self.positions * along >= least * threads || filled(along, lanes_along(along)) < SWEEP_SHARE
    }

    /// Counts images among the positions if they follow one another like these, and says whether there is one image now.
    fn merge_images(&mut self) -> bool {
        let n = self.images * self.positions;
        if n > MAX_EXTENT {
            return false;
        }
        if self.positions == 1 {
            self.strides.iter_mut().for_each(|s| s[1] = s[0]);
        } else if self.images > 1 && self.strides.iter().any(|s| s[0] != self.positions * s[1]) {
            return false;
        }
        (self.images, self.positions) = (1, n);
        true
    }

    /// The tensors of x's extents, x where there is none.
    fn tensors(problem: &NormProblem) -> [TensorDesc; tensor::COUNT] {
        let x = *problem.x();
        let backward = problem.norm_pass() == NormPass::Backward;
        let operand = |name: &str| problem.operand(name).map_or(x, |(_, desc)| desc);
        let mut tensors = [x; tensor::COUNT];
        tensors[tensor::OUT] = *problem.out();
        tensors[tensor::DY] = operand(if backward { "dy" } else { "z" });
        if backward {
            tensors[tensor::Y] = operand("y");
            tensors[tensor::DZ] = operand("dz");
        }
        tensors
    }

    /// Images, positions and channels as the problem has them.
    pub(in crate::ops::norm) fn apart(problem: &NormProblem) -> Result<Self, Refusal> {
        let (x, tensors) = (problem.x(), Self::tensors(problem));
        let (positions, position_strides) = merged(&tensors, &(2..x.rank()).collect::<Vec<_>>())?;
        let strides = std::array::from_fn(|t| {
            let strides = tensors[t].strides();
            [strides[0], position_strides[t], strides[1]]
        });
        Ok(Shape { images: x.dims()[0], positions, channels: x.dims()[1], strides, spread: 1 })
    }

    fn of(problem: &NormProblem) -> Result<Self, Refusal> {
        let batch_wide = match problem.mode() {
            NormMode::Batch => true,
            NormMode::Group { .. } | NormMode::Instance => false,
            NormMode::PerActivation => return Self::of_activations(problem.x(), &Self::tensors(problem)),
            NormMode::Layer { .. } | NormMode::Rms { .. } => {
                let mode = problem.mode().name();
                return Err(Refusal::new(format!("takes batch, per_activation, group and instance, given {mode}")));
            }
        };
        let Shape { mut images, mut positions, mut channels, mut strides, mut spread } = Self::apart(problem)?;
        let run = VECTOR_BYTES / problem.x().dtype().size_bytes() as i64;
        let is_planar = |s: &[i64; 3]| s[1] == 1 && s[2] == positions;
        if batch_wide
            && images >= MANY_IMAGES
            && (2..FEW_POSITIONS).contains(&positions)
            && channels > 1
            && channels * positions % run == 0
            && strides.iter().all(is_planar)
        {
            // Threads keep to some places of an image, whose channels are the same in all images.
            strides.iter_mut().for_each(|s| *s = [0, s[0], 1]);
            (images, positions, channels, spread) = (1, images, channels * positions, positions);
        } else if batch_wide && positions == 1 {
            // Images are as good as positions.
            strides.iter_mut().for_each(|s| s[1] = s[0]);
            (images, positions) = (1, images);
        } else if batch_wide && strides.iter().all(|s| s[0] == positions * s[1]) {
            (images, positions) = (1, images * positions);
        }
        Self::checked(Shape { images, positions, channels, strides, spread })
    }

    /// Vectors of `run` elements that a thread has where a block has all of its channels' rows.
    fn steps(&self, by_image: bool, along_channels: bool, rows_along_images: bool, run: i64) -> i64 {
        let (images, threads) = (if by_image { 1 } else { self.images }, i64::from(BLOCK));
        if along_channels {
            images * div_ceil(self.positions, threads)
        } else if rows_along_images {
            let lanes = MAX_LANES as i64;
            div_ceil(images, threads / lanes) * div_ceil(self.positions, lanes * run)
        } else {
            images * div_ceil(self.positions, threads * run)
        }
    }

    /// Every position is a channel, every image a position.
    fn of_activations(x: &TensorDesc, tensors: &[TensorDesc; tensor::COUNT]) -> Result<Self, Refusal> {
        // In one dimension with the packed one: in the order of the parameters.
        let packed = x.to_packed();
        let [a, b, c, d, e] = *tensors;
        let all = [packed, a, b, c, d, e];
        let (channels, [_, rest @ ..]) = merged(&all, &(1..x.rank()).collect::<Vec<_>>())?;
        let strides = std::array::from_fn(|t| [0, tensors[t].strides()[0], rest[t]]);
        Self::checked(Shape { images: 1, positions: x.dims()[0], channels, strides, spread: 1 })
    }

    fn checked(self) -> Result<Self, Refusal> {
        let Shape { images, positions, channels, .. } = &self;
        if images * positions > MAX_EXTENT || *channels > MAX_EXTENT {
            let reason = format!(
                "takes up to {MAX_EXTENT} elements a channel, and channels, given {} and {channels}",
                images * positions
            );
            return Err(Refusal::new(reason));
        }
        Ok(self)
    }
}

/// Some dimensions as one: its extent and the tensors' strides.
fn merged<const N: usize>(tensors: &[TensorDesc; N], dims: &[usize]) -> Result<(i64, [i64; N]), Refusal> {
    let walked = collapse_dims(tensors.each_ref(), dims);
    let last = walked[0].dims.len() - 1;
    if walked[0].dims[..last].iter().any(|&dim| dim != 1) {
        let given: Vec<String> = tensors.iter().map(TensorDesc::to_string).collect();
        let reason = format!("takes positions that all tensors walk as one dimension, given {}", given.join(", "));
        return Err(Refusal::new(reason));
    }
    Ok((walked[0].dims[last], walked.map(|tensor| tensor.strides[last])))
}

#[cfg(test)]
mod tests;
