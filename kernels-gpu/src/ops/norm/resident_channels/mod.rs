//! Batch norm of channels-last tensors in one kernel: blocks that stay read their share of x once for its sums, keep what
//! they can of it on the chip, meet, and write y.
//!
//! Block (s, b) has slice s of the channels, and every so many positions a chunk. One warp brings the chunks to a ring in
//! shared memory by the copy engine, the others add them up: a thread has the channels of one vector and sums of
//! differences from the block's first position. Warps add up by shuffles, the block through shared memory. Its means and
//! squared deviations go to the workspace, and a flag tells that they are there. Every block waits for the flags of its
//! slice and joins the parts of all blocks in the same order, by Chan's formula for many parts (Chan, Golub and LeVeque
//! 1979): relative to the first block's mean, M₂ = Σ M₂ᵦ + Σ nᵦ dᵦ² − (Σ nᵦ dᵦ)² / N.
//!
//! The chunks that were read last still lie in the ring when y is written. As they leave it, others are brought again in
//! the opposite order: first the block's own that the second-level cache was asked to keep, then any of the slice's, the
//! next to whoever asks next, since multiprocessors are not equally far from memory. Those of the ring and those that are
//! brought take turns, so that reading and writing mix.
//!
//! Flags hold a random number, so that nobody clears the workspace before; the block that is done last clears its slice's.
//! Its counters are set to 0 before the first block's flag says that it is there.
//!
//! Grid: slices along x, blocks of a slice along y, all resident. Block: 512 threads that compute, and the warp that
//! brings. Shared memory: the stages of the ring in the dynamic area, the rest as [`Shared`] says.

mod ring;

use super::channelwise::{finish_row, parameter, prefetch_running};
use crate::math::approximate::inverse_sqrt;
use crate::math::chunks;
use crate::math::element::Element;
use crate::math::vector::{for_each, narrowed, read, widened};
use cuda_std::barrier::sync_named;
use cuda_std::math::{max_nan_f32, min_nan_f32};
use cuda_std::memory::{X2, load_x4, store_x4_cached};
use cuda_std::thread::{lane_id, sync_threads, thread_idx_x, warp_idx};
use cuda_std::tma::{self, MapAddress};
use cuda_std::{atomics, mbarrier, shared, warp};
use kernel_abi::ops::norm::channelwise::tensor;
use kernel_abi::ops::norm::resident_channels::{CONSUMERS, COUNTERS, ResidentChannelsParams, VECTOR_BYTES, chunk_rows};
use ring::{Block, NO_CHUNK, Parities, bring};

const LANES: u32 = 32;
const WARPS: u32 = CONSUMERS / LANES;
/// The barrier of the threads that compute.
const MEET: u32 = 1;
/// Parts of other blocks that a thread has under way.
const PARTS: usize = 9;

/// A block's arrays.
pub struct Shared {
    /// Of each stage, one that says that it is full and one that says that it may be filled.
    pub barriers: *mut u64,
    /// What stages were filled with when y is written.
    pub chunks: *mut u32,
    /// Where threads add up.
    pub sums: *mut f32,
    /// Four numbers of each channel.
    pub of_channels: *mut f32,
}

/// Statistics and y.
#[inline(always)]
pub unsafe fn forward<T: Element<Acc = f32>, const V: usize, const L: u32, const PASSES: usize>(
    p: &ResidentChannelsParams,
    map: MapAddress,
    shared: Shared,
) {
    let b = Block::new(p, chunk_rows(L, PASSES as u32), size_of::<T>() as u32, &shared);
    if thread_idx_x() == 0 {
        tma::prefetch_map(map);
        let mut stage = 0;
        while stage < p.n_stages {
            mbarrier::init(b.full + 8 * stage, 1);
            mbarrier::init(b.empty + 8 * stage, WARPS);
            stage += 1;
        }
        mbarrier::fence_init();
    }
    sync_threads();
    if warp_idx() == WARPS {
        if lane_id() == 0 {
            bring(&b, map);
        }
        return;
    }
    let thread = Thread::<V, L, PASSES>::new::<T>(&b);
    let mut full = Parities(0);
    // What is known of channels is read beside x.
    let parameters = thread.parameters::<T>(&b);
    thread.leave_part::<T>(&b, &shared, &mut full);
    thread.join_parts::<T>(&b, &shared, parameters);
    thread.write::<T>(&b, &shared, &mut full);
    thread.end(&b);
}

/// A thread's share of a block: `L` threads stand beside each other along the channels of a slice, a vector of `V` each;
/// those below each other have positions, `PASSES` of a chunk each.
struct Thread<const V: usize, const L: u32, const PASSES: usize> {
    thread: u32,
    /// The first position of a chunk, and the first channel of the slice.
    row: u32,
    channel: u32,
    /// Whether the thread has channels.
    there: bool,
    /// Bytes from a stage's begin, and between the thread's vectors.
    at: u32,
    step: u32,
}

impl<const V: usize, const L: u32, const PASSES: usize> Thread<V, L, PASSES> {
    /// Rows of threads.
    const ROWS: u32 = CONSUMERS / L;
    /// Channels of the threads of a row.
    const CHANNELS: u32 = L * V as u32;

    #[inline(always)]
    fn new<T>(b: &Block<'_>) -> Self {
        let thread = thread_idx_x();
        let (column, row) = (thread % L, thread / L);
        let channel = column * V as u32;
        let row_bytes = b.p.slice_channels * size_of::<T>() as u32;
        Thread {
            thread,
            row,
            channel,
            there: channel < b.p.slice_channels && b.slice * b.p.slice_channels + channel < b.p.channels.share.channels,
            at: row * row_bytes + column * VECTOR_BYTES,
            step: Self::ROWS * row_bytes,
        }
    }

    /// The channel that the thread finishes, if there is one.
    #[inline(always)]
    fn finishes(&self, b: &Block<'_>) -> Option<u32> {
        let channel = b.slice * b.p.slice_channels + self.thread;
        (self.thread < b.p.slice_channels && channel < b.p.channels.share.channels).then_some(channel)
    }

    /// Scale and bias of that channel.
    #[inline(always)]
    unsafe fn parameters<T: Element<Acc = f32>>(&self, b: &Block<'_>) -> [f32; 2] {
        let p = &b.p.channels;
        let Some(channel) = self.finishes(b) else { return [1.0, 0.0] };
        if b.block == 0 {
            prefetch_running::<T>(p, channel);
        }
        let wide = p.parameters_are_wide;
        [
            parameter::<T>(p.scale, wide, p.parameter_strides[0], channel, 1.0),
            parameter::<T>(p.bias, wide, p.parameter_strides[1], channel, 0.0),
        ]
    }

    /// The thread's vectors of a stage; what there is not is zeros or what was there before.
    #[inline(always)]
    unsafe fn vectors(&self, b: &Block<'_>, stage: u32) -> [[u32; 4]; PASSES] {
        let mut words = [[0u32; 4]; PASSES];
        if self.there {
            let at = b.stage(stage) + self.at;
            for_each!(J < PASSES, {
                *words.get_unchecked_mut(J) = shared::load_x4(at + J as u32 * self.step);
            });
        }
        words
    }

    /// How far the chunk's positions go beyond the thread's first one.
    #[inline(always)]
    fn left(&self, b: &Block<'_>, chunk: u32) -> i32 {
        (b.p.channels.share.positions as i32) - (chunk * b.rows + self.row) as i32
    }

    /// Says that this warp is done with a stage.
    #[inline(always)]
    unsafe fn release(b: &Block<'_>, stage: u32) {
        warp::sync_warp();
        if lane_id() == 0 {
            mbarrier::arrive(b.empty + 8 * stage);
        }
    }

    /// Reads the block's chunks, and leaves mean and squared deviations of its channels for all blocks.
    #[inline(always)]
    unsafe fn leave_part<T: Element<Acc = f32>>(&self, b: &Block<'_>, shared: &Shared, full: &mut Parities) {
        let mut sums = [0.0f32; V];
        let mut squares = [0.0f32; V];
        let (mut k, mut stage) = (0, 0);
        full.wait(b.full, 0);
        // Squares of large numbers would lose the digits of small ones.
        let mut origin = [0.0f32; V];
        if self.there {
            origin = widened::<T, V>(&shared::load_x4(b.stage(0) + self.at - self.row * (self.step / Self::ROWS)));
        }
        if self.thread < L && self.there {
            for_each!(I < V, {
                *shared.of_channels.add(self.channel as usize + I) = *origin.get_unchecked(I);
            });
        }
        while k < b.n {
            if k > 0 {
                full.wait(b.full, stage);
            }
            let words = self.vectors(b, stage);
            let left = self.left(b, b.chunk(k));
            for_each!(J < PASSES, {
                if left > J as i32 * Self::ROWS as i32 {
                    let x = widened::<T, V>(words.get_unchecked(J));
                    for_each!(I < V, {
                        let difference = *x.get_unchecked(I) - *origin.get_unchecked(I);
                        *sums.get_unchecked_mut(I) += difference;
                        *squares.get_unchecked_mut(I) += difference * difference;
                    });
                }
            });
            if k + b.p.n_stages < b.n {
                Self::release(b, stage);
            }
            (k, stage) = (k + 1, if stage + 1 == b.p.n_stages { 0 } else { stage + 1 });
        }
        self.add_up_warp(shared.sums, &sums, &squares);
        if b.block == 0 && self.thread < COUNTERS {
            *(b.p.counters as *mut u32).add((b.slice * COUNTERS + self.thread) as usize) = 0;
        }
        sync_named(MEET, CONSUMERS);
        if self.thread < b.p.slice_channels {
            let [mut sum, mut squares] = [0.0f32; 2];
            let mut warp = 0;
            while warp < WARPS {
                let at = shared.sums.add((warp * 2 * Self::CHANNELS + self.thread) as usize);
                sum += *at;
                squares += *at.add(Self::CHANNELS as usize);
                warp += 1;
            }
            let origin = *shared.of_channels.add(self.thread as usize);
            let mean = sum / b.p.positions_of(b.block, b.rows) as f32;
            let spread = squares - sum * mean;
            let part = [origin + mean, if spread < 0.0 { 0.0 } else { spread }];
            *((Self::part(b, b.block) + u64::from(self.thread) * 8) as *mut X2<f32>) = X2(part);
        }
        sync_named(MEET, CONSUMERS);
        if self.thread == 0 {
            atomics::store_release_u64(Self::flag(b, b.block), b.p.tag);
        }
    }

    /// Where a block's part begins.
    #[inline(always)]
    fn part(b: &Block<'_>, block: u32) -> u64 {
        b.p.channels.partials + u64::from((b.slice * b.p.blocks + block) * Self::CHANNELS) * 8
    }

    #[inline(always)]
    fn flag(b: &Block<'_>, block: u32) -> *mut u64 {
        (b.p.flags + u64::from(b.slice * b.p.blocks + block) * 8) as *mut u64
    }

    /// Adds up over the rows of a warp, and puts what is found to `[warp][sums, squares][channel]`. Threads whose rows are
    /// 16 apart keep sums or squares, and with four rows those 8 apart half of their channels.
    #[inline(always)]
    unsafe fn add_up_warp(&self, to: *mut f32, sums: &[f32; V], squares: &[f32; V]) {
        let (second, half) = (lane_id() & 16 != 0, L == 8 && lane_id() & 8 != 0);
        let mut values = [0.0f32; V];
        for_each!(I < V, {
            let (a, c) = (*sums.get_unchecked(I), *squares.get_unchecked(I));
            let (keeps, gives) = if second { (c, a) } else { (a, c) };
            *values.get_unchecked_mut(I) = keeps + warp::shuffle_xor_f32(gives, 16);
        });
        if L == 8 {
            for_each!(I < V, {
                if I < V / 2 {
                    let (a, c) = (*values.get_unchecked(I), *values.get_unchecked(I + V / 2));
                    let (keeps, gives) = if half { (c, a) } else { (a, c) };
                    *values.get_unchecked_mut(I) = keeps + warp::shuffle_xor_f32(gives, 8);
                }
            });
        }
        let first = self.channel + if half { V as u32 / 2 } else { 0 };
        let to = to.add(((self.thread / LANES * 2 + u32::from(second)) * Self::CHANNELS + first) as usize);
        for_each!(I < V, {
            if L == 16 || I < V / 2 {
                *to.add(I) = *values.get_unchecked(I);
            }
        });
    }

    /// Waits for the parts of all blocks, and leaves mean, factor and bias of the channels in shared memory; the first
    /// block writes statistics.
    #[inline(always)]
    unsafe fn join_parts<T: Element<Acc = f32>>(&self, b: &Block<'_>, shared: &Shared, [scale, bias]: [f32; 2]) {
        /// Threads that share a pair of channels' parts.
        const fn groups(channels: u32) -> u32 {
            CONSUMERS / (channels / 2)
        }
        let p = &b.p.channels;
        let mut block = self.thread;
        while block < b.p.blocks {
            while atomics::load_acquire_u64(Self::flag(b, block)) != b.p.tag {}
            block += CONSUMERS;
        }
        sync_named(MEET, CONSUMERS);
        let groups = groups(Self::CHANNELS);
        let (pair, group) = (self.thread % (Self::CHANNELS / 2), self.thread / (Self::CHANNELS / 2));
        let mut reference = [0.0f32; 2];
        let (mut sums, mut squares) = ([0.0f32; 2], [0.0f32; 2]);
        if 2 * pair < b.p.slice_channels {
            let load = #[inline(always)]
            |block: u32| {
                let words = load_x4((Self::part(b, block) + u64::from(pair) * 16) as *const u32);
                words.map(f32::from_bits)
            };
            let [first, _, second, _] = load(0);
            reference = [first, second];
            let mut block = group;
            while block < b.p.blocks {
                let mut parts = [[0.0f32; 4]; PARTS];
                for_each!(J < PARTS, {
                    let block = block + J as u32 * groups;
                    if block < b.p.blocks {
                        *parts.get_unchecked_mut(J) = load(block);
                    }
                });
                for_each!(J < PARTS, {
                    let block = block + J as u32 * groups;
                    if block < b.p.blocks {
                        let n = b.p.positions_of(block, b.rows) as f32;
                        let part = parts.get_unchecked(J);
                        const CHANNELS: usize = 2;
                        for_each!(I < CHANNELS, {
                            let difference = part[2 * I] - reference[I];
                            sums[I] += n * difference;
                            squares[I] += n * difference * difference + part[2 * I + 1];
                        });
                    }
                });
                block += PARTS as u32 * groups;
            }
        }
        // What warps had there is read.
        let to = shared.sums.add((group * 2 * Self::CHANNELS + 2 * pair) as usize);
        *(to as *mut X2<f32>) = X2(sums);
        *(to.add(Self::CHANNELS as usize) as *mut X2<f32>) = X2(squares);
        if group == 0 {
            *(shared.of_channels.add(2 * pair as usize) as *mut X2<f32>) = X2(reference);
        }
        sync_named(MEET, CONSUMERS);
        if let Some(channel) = self.finishes(b) {
            let [mut sum, mut squares] = [0.0f32; 2];
            let mut group = 0;
            while group < groups {
                let at = shared.sums.add((group * 2 * Self::CHANNELS + self.thread) as usize);
                sum += *at;
                squares += *at.add(Self::CHANNELS as usize);
                group += 1;
            }
            let of_channel = shared.of_channels.add(self.thread as usize);
            let mean = sum * p.row_share;
            let spread = squares - sum * mean;
            let (mean, spread) = (*of_channel + mean, if spread < 0.0 { 0.0 } else { spread });
            let inv_std = inverse_sqrt(spread * p.row_share + p.epsilon);
            if b.block == 0 {
                finish_row::<T>(p, channel, [p.share.positions as f32, mean, spread]);
            }
            *of_channel = mean;
            *of_channel.add(Self::CHANNELS as usize) = inv_std * scale;
            *of_channel.add(2 * Self::CHANNELS as usize) = bias;
        }
        sync_named(MEET, CONSUMERS);
    }

    /// y of the chunks in the ring, and of those that are brought again.
    #[inline(always)]
    unsafe fn write<T: Element<Acc = f32>>(&self, b: &Block<'_>, shared: &Shared, full: &mut Parities) {
        let p = &b.p.channels;
        let of_channels = #[inline(always)]
        |which: u32| {
            let from = shared.of_channels.add((which * Self::CHANNELS + self.channel) as usize);
            let mut values = [0.0f32; V];
            for_each!(I < V, {
                *values.get_unchecked_mut(I) = *from.add(I);
            });
            values
        };
        let (mean, factor, bias) = (of_channels(0), of_channels(1), of_channels(2));
        let bounded = p.low > f32::NEG_INFINITY || p.high < f32::INFINITY;
        let scaled = p.alpha != 1.0 || p.beta != 0.0;
        let channel = i64::from(b.slice * b.p.slice_channels + self.channel);
        let address = #[inline(always)]
        |tensor: usize, position: u32| {
            let offset = i64::from(position) * p.strides.get_unchecked(tensor)[1] + channel;
            p.addresses.get_unchecked(tensor) + offset as u64 * size_of::<T>() as u64
        };
        let first = b.last_stage();
        let mut more = b.brings_again();
        let (mut kept, mut kept_stage) = (0, first);
        let (mut brought, mut turn, mut brought_stage) = (0, 0, first);
        while kept < b.kept || more {
            let (chunk, stage, is_left);
            if kept < b.kept && (kept < b.ahead || !more || brought > kept - b.ahead) {
                (chunk, stage, is_left) = (b.chunk(b.n - 1 - kept), kept_stage, kept < b.ahead && b.brings_again());
                kept += 1;
                kept_stage = b.before(kept_stage);
            } else {
                full.wait(b.full, brought_stage);
                // Read by the lane that releases the stage: the place may be written anew then.
                let number = if lane_id() == 0 { *b.chunks.add(brought_stage as usize) } else { NO_CHUNK };
                (chunk, stage, is_left) = (warp::uniform(number), brought_stage, true);
                if chunk == NO_CHUNK {
                    more = false;
                    continue;
                }
                (brought, turn) = (brought + 1, turn + 1);
                brought_stage = b.before(brought_stage);
                if turn == b.ahead {
                    (turn, brought_stage) = (0, first);
                }
            }
            let position = chunk * b.rows + self.row;
            let left = self.left(b, chunk);
            let is_there = #[inline(always)]
            |j: usize| self.there && left > j as i32 * Self::ROWS as i32;
            let mut z = [[0u32; 4]; PASSES];
            if p.addresses[tensor::DY] != 0 {
                for_each!(J < PASSES, {
                    let from = address(tensor::DY, position + J as u32 * Self::ROWS);
                    *z.get_unchecked_mut(J) = chunks::load::<16>(from, is_there(J));
                });
            }
            let words = self.vectors(b, stage);
            if is_left {
                Self::release(b, stage);
            }
            for_each!(J < PASSES, {
                if is_there(J) {
                    let mut y = widened::<T, V>(words.get_unchecked(J));
                    for_each!(I < V, {
                        let y = y.get_unchecked_mut(I);
                        *y = (*y - *mean.get_unchecked(I)) * *factor.get_unchecked(I) + *bias.get_unchecked(I);
                    });
                    if p.addresses[tensor::DY] != 0 {
                        let z = widened::<T, V>(z.get_unchecked(J));
                        for_each!(I < V, {
                            *y.get_unchecked_mut(I) += *z.get_unchecked(I);
                        });
                    }
                    if bounded {
                        for_each!(I < V, {
                            let y = y.get_unchecked_mut(I);
                            *y = min_nan_f32(max_nan_f32(*y, p.low), p.high);
                        });
                    }
                    let to = address(tensor::OUT, position + J as u32 * Self::ROWS);
                    if scaled {
                        let mut prior = [0.0f32; V];
                        if p.beta != 0.0 {
                            prior = read::<T, V>(to);
                        }
                        for_each!(I < V, {
                            let y = y.get_unchecked_mut(I);
                            *y = p.alpha * *y + p.beta * *prior.get_unchecked(I);
                        });
                    }
                    store_x4_cached(to as *mut u32, narrowed::<T, V>(&y), b.p.policy);
                }
            });
        }
    }

    /// Clears the slice's flags behind the last block, for the next run.
    #[inline(always)]
    unsafe fn end(&self, b: &Block<'_>) {
        if self.thread != 0 {
            return;
        }
        let done = (b.p.counters as *mut u32).add((b.slice * COUNTERS + 1) as usize);
        if atomics::add_acquire_release_u32(done, 1) == b.p.blocks - 1 {
            let mut block = 0;
            while block < b.p.blocks {
                *Self::flag(b, block) = 0;
                block += 1;
            }
        }
    }
}
