//! Batch norm of channels-last tensors in one kernel, whose blocks read x, backward dy and y too, once for sums, keep of it
//! what they can and meet before they write y, or dx and dz.

use super::channelwise::resident::{Room, SHARED_BYTES};
use super::channelwise::{Channelwise, Layout, params, place_addresses};
use super::{NormMode, NormPass, NormProblem};
use crate::driver::{Function, Swizzle, TensorMap, Tiled, TmaType};
use crate::launch::{LaunchConfig, launch_on, tag};
use crate::plan::{Call, Launch};
use crate::select::cost::LAUNCH_US;
use crate::select::{Algorithm, Config, Refusal, check_hopper};
use crate::{Context, DType, Error, Problem, Stream};
use kernel_abi::ops::norm::channelwise::{Share, tensor};
use kernel_abi::ops::norm::resident_channels::{
    COUNTERS, MAPS, MAX_STAGES, ResidentChannelsParams, STAGE_ALIGN, THREADS, VECTOR_BYTES, chunk_rows, fixed_bytes,
};

/// A kernel.
#[derive(Clone, Copy)]
struct Row {
    symbol: &'static str,
    pass: &'static str,
    dtype: DType,
    /// Threads beside each other along channels, and vectors of a tensor's chunk that each has.
    lanes: u32,
    passes: u32,
}

impl Row {
    /// Whether it takes slices that fill its threads, and no others: those that are no part of a warp are made for them.
    fn is_exact(&self) -> bool {
        !self.lanes.is_power_of_two()
    }
}

macro_rules! rows {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $lanes:literal, $passes:literal)),* $(,)?) => {
        &[$(Row {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            lanes: $lanes,
            passes: $passes,
        }),*]
    };
}

const KERNELS: &[Row] = kernel_abi::norm_resident_kernels!(rows);

/// What is brought, in the order of the kernels' maps: x alone, with dy backward, and with y where there is an activation.
const BROUGHT: [usize; MAPS] = [tensor::X, tensor::DY, tensor::Y];
/// The least vectors of a chunk's rows: these are then 64 bytes.
const MIN_VECTORS: u32 = 4;
/// Bytes of what is brought for each multiprocessor that the second-level cache is asked to keep, half of an H200's, where
/// there are no more than so many for each. With 411 MB of x reading was 4 % slower beside it, and nothing was saved (H200).
const WINDOW_BYTES: u64 = 190_000;
const MOST_BYTES: u64 = 1_140_000;
/// Chunks of all tensors brought ahead when results are written. Forward with 2, y of 205 MB took 5 % longer, with 13 of
/// 16 KB 1 % (H200).
const AHEAD: u32 = 4;
/// Chunks that each block fetches to the second-level cache while blocks meet, backward: some 3 us of the memory's rate.
const FETCHED: u32 = 4;
/// Cache policies, of `cuda_std::tma`: where all that is brought stays in shared memory, results may take the cache.
const EVICT_NORMAL: u64 = 0x1000_0000_0000_0000;
const EVICT_FIRST: u64 = 0x12F0_0000_0000_0000;

/// One read of all tensors, a second one of what does not stay on the chip.
pub(super) struct ResidentChannels;

impl Algorithm<NormProblem> for ResidentChannels {
    fn name(&self) -> &'static str {
        "resident_channels"
    }

    fn configs(&self, problem: &NormProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_hopper(context)?;
        // Activations and parameters are the same.
        Channelwise.configs(problem, context)?;
        let share = share(problem, context)?;
        let dtype = problem.x().dtype();
        let mut refusal = Refusal::new(format!("has no kernel for pass {} with {dtype}", problem.pass()));
        let mut configs = Vec::new();
        for row in kernels(problem) {
            match Cut::new(problem, row, &share, context) {
                Ok(_) => configs.push(Config(row.symbol)),
                // Rows of threads that are made for some numbers of channels have no say in what is wrong with others.
                Err(_) if row.is_exact() => {}
                Err(reason) => refusal = reason,
            }
        }
        if configs.is_empty() { Err(refusal) } else { Ok(configs) }
    }

    fn workspace_bytes(&self, problem: &NormProblem, config: Config) -> u64 {
        Channelwise.workspace_bytes(problem, config)
    }

    fn workspace_bytes_on(&self, problem: &NormProblem, config: Config, context: &Context) -> u64 {
        let own = cut(problem, config, context).map_or(0, |cut| cut.room(problem).total);
        // Addresses that are no multiples of 16 take the kernels of `channelwise`.
        own.max(Channelwise.workspace_bytes_on(problem, config, context))
    }

    fn estimate_us(&self, problem: &NormProblem, config: Config, context: &Context) -> f64 {
        /// The first chunk's way, the ways of parts and flags, and the last chunk's; and for each block of a slice and
        /// each 8 threads beside each other along channels, the parts that every block joins.
        const ENDS_US: f64 = 4.0;
        const JOIN_US: f64 = 0.02;
        /// Shares of the memory's rate: where rows of a chunk are shorter than a position's channels and no longer than a
        /// line of the cache, and where slices part lines.
        const CUT_SHARE: f64 = 0.97;
        const PARTED_SHARE: f64 = 0.65;
        /// What of the window is still there when it is read again.
        const FOUND_SHARE: f64 = 0.6;
        const LINE_BYTES: u32 = 128;
        let Ok(cut) = cut(problem, config, context) else { return f64::INFINITY };
        let of_chunks = |n: u32| f64::from(n * cut.stage_bytes()) * f64::from(cut.params.blocks * cut.slices);
        let left = (brought_bytes(problem) as f64 - of_chunks(cut.params.n_stages)).max(0.0);
        let again = left - (FOUND_SHARE * of_chunks(cut.params.window)).min(left);
        let share = match cut.slices {
            1 => 1.0,
            _ if cut.row_bytes() % LINE_BYTES != 0 => PARTED_SHARE,
            _ if cut.row_bytes() == LINE_BYTES => CUT_SHARE,
            _ => 1.0,
        };
        let rate = share * context.info().bytes_per_us;
        // Multiprocessors without a block leave the memory idle where blocks are few.
        let busy = (2.0 * f64::from(cut.params.blocks * cut.slices) / context.info().n_units as f64).min(1.0);
        let join_us = JOIN_US * f64::from(cut.params.blocks * cut.row.lanes / 8);
        LAUNCH_US + ENDS_US + join_us + (problem.bytes() + again) / (rate * busy)
    }

    fn prepare(&self, problem: &NormProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let refused = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let cut = cut(problem, config, context).map_err(refused)?;
        let function = context.function(config.0)?;
        // Not this problem's size: plans share the function.
        function.allow_dynamic_shared((stages_bytes(cut.row) + STAGE_ALIGN) as usize)?;
        let fallback_config = Channelwise.configs(problem, context).map_err(refused)?[0];
        Ok(Box::new(ResidentLaunch {
            function,
            config: LaunchConfig {
                grid: [cut.slices, cut.params.blocks, 1],
                block: [THREADS, 1, 1],
                shared_bytes: cut.params.n_stages * cut.stage_pitch() + STAGE_ALIGN,
                cooperative: true,
                ..LaunchConfig::default()
            },
            params: ResidentChannelsParams { tag: tag(), ..cut.params },
            room: cut.room(problem),
            data_type: match problem.x().dtype() {
                DType::F32 => TmaType::F32,
                DType::F16 => TmaType::F16,
                _ => TmaType::BF16,
            },
            rows: cut.rows(),
            tensors: cut.tensors,
            fallback: Channelwise.prepare(problem, fallback_config, context)?,
        }))
    }
}

/// The kernels of a problem.
fn kernels(problem: &NormProblem) -> impl Iterator<Item = Row> {
    let (pass, dtype) = (problem.pass(), problem.x().dtype());
    KERNELS.iter().copied().filter(move |row| row.pass == pass && row.dtype == dtype)
}

/// Room for the stages of a block.
fn stages_bytes(row: Row) -> u32 {
    SHARED_BYTES - fixed_bytes(row.lanes) - STAGE_ALIGN
}

/// How `channelwise` shares positions out that follow one another through all images, each with its channels together.
fn share(problem: &NormProblem, context: &Context) -> Result<Share, Refusal> {
    if !matches!(problem.norm_pass(), NormPass::Forward | NormPass::Backward) {
        return Err(Refusal::new(format!("takes forward and backward, given {}", problem.pass())));
    }
    if problem.mode() != NormMode::Batch {
        return Err(Refusal::new(format!("takes batch, given {}", problem.mode().name())));
    }
    if problem.norm_pass() == NormPass::Backward && problem.operand("inv_std").is_none() {
        return Err(Refusal::new("takes mean and inv_std for backward, given none"));
    }
    let layout = Layout::of(problem, context)?;
    // Of planar images, positions may stand there as channels.
    let are_rows = layout.channels_per_row.divisor == 1;
    let share = layout.summing.vectors.filter(|share| are_rows && share.along_channels != 0 && share.images == 1);
    share.ok_or_else(|| {
        Refusal::new(format!(
            "takes channels-last tensors without gaps between images, channels in vectors of {}, given {} and {}",
            vector_elems(problem),
            problem.x(),
            problem.out()
        ))
    })
}

/// How many positions that follow one another stand for one of as many times the channels: what a row of threads can take,
/// where there is nothing between positions.
fn times(problem: &NormProblem, row: Row, share: &Share, strides: &[[i64; 3]; tensor::COUNT]) -> u32 {
    if strides.iter().any(|strides| strides[1] != i64::from(share.channels)) {
        return 1;
    }
    let most = row.lanes * vector_elems(problem) / share.channels;
    (1..=most).rev().find(|&times| share.positions.is_multiple_of(times)).unwrap_or(1)
}

/// How many tensors are brought.
fn brought(problem: &NormProblem) -> u32 {
    match problem.norm_pass() {
        NormPass::Backward => 2 + u32::from(problem.operand("y").is_some()),
        _ => 1,
    }
}

/// Their bytes.
fn brought_bytes(problem: &NormProblem) -> u64 {
    u64::from(brought(problem)) * problem.x().data_bytes()
}

/// Elements of a vector.
fn vector_elems(problem: &NormProblem) -> u32 {
    VECTOR_BYTES / element_bytes(problem)
}

fn element_bytes(problem: &NormProblem) -> u32 {
    problem.x().dtype().size_bytes() as u32
}

/// The cut of a config's kernel.
fn cut(problem: &NormProblem, config: Config, context: &Context) -> Result<Cut, Refusal> {
    let row = kernels(problem).find(|row| row.symbol == config.0);
    let row = row.ok_or_else(|| Refusal::new(format!("has no kernel {}", config.0)))?;
    Cut::new(problem, row, &share(problem, context)?, context)
}

/// Slices and chunks.
struct Cut {
    row: Row,
    slices: u32,
    element_bytes: u32,
    /// Tensors that are brought.
    tensors: u32,
    /// Complete but for addresses and scalars. Rows are counted as positions.
    params: ResidentChannelsParams,
}

impl Cut {
    fn new(problem: &NormProblem, row: Row, share: &Share, context: &Context) -> Result<Self, Refusal> {
        let (element_bytes, units) = (element_bytes(problem), context.info().n_units as u32);
        let mut channels = params(problem, &Layout::of(problem, context)?);
        let times = times(problem, row, share, &channels.strides);
        for strides in &mut channels.strides {
            strides[1] *= i64::from(times);
        }
        let share = Share { channels: share.channels * times, positions: share.positions / times, ..*share };
        let vectors = share.channels / vector_elems(problem);
        if vectors < MIN_VECTORS {
            return Err(Refusal::new(format!(
                "takes {} channels and more of positions that follow one another, given {}",
                MIN_VECTORS * vector_elems(problem),
                share.channels
            )));
        }
        let slices = vectors.div_ceil(row.lanes);
        if slices > units {
            let most = units * row.lanes * vector_elems(problem);
            return Err(Refusal::new(format!("takes up to {most} channels here, given {}", share.channels)));
        }
        // As even as there are slices.
        let slice_channels = vectors.div_ceil(slices) * vector_elems(problem);
        let slices = share.channels.div_ceil(slice_channels);
        let filled = row.lanes * vector_elems(problem);
        if row.is_exact() && slice_channels != filled {
            return Err(Refusal::new(format!("takes slices of {filled} channels, given {slice_channels}")));
        }
        let rows = chunk_rows(row.lanes, row.passes);
        let n_chunks = share.positions.div_ceil(rows);
        let blocks = (units / slices).min(n_chunks);
        let mut cut = Cut {
            row,
            slices,
            element_bytes,
            tensors: brought(problem),
            params: ResidentChannelsParams {
                maps: [[0; 16]; MAPS],
                channels,
                flags: 0,
                tag: 0,
                counters: 0,
                policy: EVICT_FIRST,
                slice_channels,
                own_channels: slice_channels / times,
                times,
                blocks,
                n_chunks,
                even: n_chunks / blocks,
                more: n_chunks % blocks,
                n_stages: 0,
                window: 0,
                ahead: AHEAD,
                fetched: if problem.norm_pass() == NormPass::Backward { FETCHED } else { 0 },
                reserved: 0,
            },
        };
        cut.params.channels.share = share;
        cut.params.n_stages = (stages_bytes(row) / cut.stage_pitch()).min(MAX_STAGES);
        if brought_bytes(problem) <= MOST_BYTES * u64::from(units) {
            let all = WINDOW_BYTES * u64::from(units);
            cut.params.window = (all / u64::from(cut.stage_bytes() * blocks * slices)) as u32;
        }
        if n_chunks <= cut.params.n_stages * blocks {
            cut.params.policy = EVICT_NORMAL;
        }
        Ok(cut)
    }

    fn rows(&self) -> u32 {
        chunk_rows(self.row.lanes, self.row.passes)
    }

    /// Bytes of a slice's channels at a position.
    fn row_bytes(&self) -> u32 {
        self.params.slice_channels * self.element_bytes
    }

    /// Bytes of a chunk of all tensors.
    fn stage_bytes(&self) -> u32 {
        self.tensors * self.row_bytes() * self.rows()
    }

    /// Bytes between stages, in which each tensor's part begins at a multiple.
    fn stage_pitch(&self) -> u32 {
        self.tensors * (self.row_bytes() * self.rows()).next_multiple_of(STAGE_ALIGN)
    }

    fn room(&self, problem: &NormProblem) -> Room {
        let blocks = u64::from(self.slices * self.params.blocks);
        let lane_channels = u64::from(self.row.lanes * (VECTOR_BYTES / self.element_bytes));
        Room::new(problem, blocks * lane_channels, blocks, u64::from(COUNTERS * self.slices))
    }
}

/// A launch whose parameters are complete but for addresses, and so the maps, and scalars.
struct ResidentLaunch {
    function: Function,
    config: LaunchConfig,
    params: ResidentChannelsParams,
    room: Room,
    data_type: TmaType,
    /// Positions of a chunk.
    rows: u32,
    /// Tensors that are brought.
    tensors: u32,
    /// For addresses that are no multiples of 16.
    fallback: Box<dyn Launch>,
}

impl Launch for ResidentLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let mut params = self.params;
        let p = &mut params.channels;
        let all = place_addresses(p, call);
        if !all.is_multiple_of(u64::from(VECTOR_BYTES)) {
            return self.fallback.launch(stream, call);
        }
        let (flags, counters) = self.room.put(p, call);
        (p.alpha, p.beta) = (call.alpha as f32, call.beta as f32);
        let (positions, channels) = (u64::from(p.share.positions), u64::from(p.share.channels));
        let gpu_stream = stream.gpu_stream_for(self.function.name())?;
        for (map, tensor) in params.maps.iter_mut().zip(BROUGHT).take(self.tensors as usize) {
            // Of one position the distance means nothing.
            let pitch = if positions == 1 { channels } else { p.strides[tensor][1] as u64 };
            let tiled = Tiled {
                data_type: self.data_type,
                address: p.addresses[tensor],
                dims: &[channels, positions],
                strides_bytes: &[pitch * self.data_type.size_bytes()],
                box_dims: &[params.slice_channels, self.rows],
                element_strides: &[],
                swizzle: Swizzle::None,
            };
            *map = TensorMap::tiled(gpu_stream.context(), &tiled)?.words();
        }
        (params.flags, params.counters) = (flags, counters);
        launch_on(stream, &self.function, &self.config, &params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What blocks read, what stays in their rings, and what is brought again: every chunk once.
    #[test]
    fn every_chunk_is_written_once() {
        for x in [
            "3x24x6x5:bf16:nhwc",
            "128x32x112x112:bf16:nhwc",
            "1x64x1x1:bf16:nhwc",
            "5x72x40x31:f16:nhwc",
            "8x1000x63x65:f32:nhwc",
            "9x2048x77x7:bf16:nhwc",
        ] {
            let c = x.split('x').nth(1).unwrap();
            for text in [
                format!("norm:forward mode=batch x={x}"),
                format!("norm:backward mode=batch x={x} mean={c}:f32 inv_std={c}:f32"),
                format!("norm:backward mode=batch act=relu x={x} y={x} mean={c}:f32 inv_std={c}:f32"),
            ] {
                every_chunk_of(&text.parse().unwrap());
            }
        }
    }

    fn every_chunk_of(problem: &NormProblem) {
        let context = Context::cpu();
        let share = share(problem, &context).unwrap();
        for row in kernels(problem) {
            let Ok(cut) = Cut::new(problem, row, &share, &context) else { continue };
            assert!(
                cut.params.n_stages * cut.stage_pitch() <= stages_bytes(row) && cut.params.n_stages > 1,
                "{problem}"
            );
            for (n_stages, window) in [(cut.params.n_stages, cut.params.window), (1, 0), (2, 3), (3, 1)] {
                let p = ResidentChannelsParams { n_stages, window, ..cut.params };
                let mut written: Vec<u32> = (0..p.shared_chunks()).collect();
                let mut positions = 0;
                for block in 0..p.blocks {
                    let n = p.even + u32::from(block < p.more);
                    assert!(n > 0);
                    let own = n.min(n_stages + window);
                    written.extend((n - own..n).map(|k| block + k * p.blocks));
                    positions += p.positions_of(block, cut.rows());
                }
                assert_eq!(positions, share.positions, "{problem}");
                written.sort_unstable();
                assert_eq!(written, (0..p.n_chunks).collect::<Vec<_>>(), "{problem}");
            }
        }
    }
}
