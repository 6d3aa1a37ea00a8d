//! Batch norm of channels-last tensors in one kernel: blocks that stay read their share of x once for its sums, keep what
//! they can of it on the chip, meet, and write y. Backward they read x and dy, and y where there is an activation, and
//! write dx and dz.
//!
//! Block (s, b) has slice s of the channels, and every so many positions a chunk. One warp brings the chunks to a ring in
//! shared memory by the copy engine, those of all tensors to one stage, the others add them up: a thread has the channels
//! of one vector and, forward, sums of differences from the block's first position, backward Σ g and Σ g (x - mean). Warps
//! add up by shuffles, the block through shared memory. Its part goes to the workspace, and a flag tells that it is there.
//! Every block waits for the flags of its slice and joins the parts of all blocks in the same order: forward, its means and
//! squared deviations by Chan's formula for many parts (Chan, Golub and LeVeque 1979), relative to the first block's mean,
//! M₂ = Σ M₂ᵦ + Σ nᵦ dᵦ² − (Σ nᵦ dᵦ)² / N.
//!
//! The chunks that were read last still lie in the ring when results are written. As they leave it, others are brought again
//! in the opposite order: first the block's own that the second-level cache was asked to keep, then any of the slice's, the
//! next to whoever asks next, since multiprocessors are not equally far from memory. Those of the ring and those that are
//! brought take turns, so that reading and writing mix.
//!
//! Flags hold a random number, so that nobody clears the workspace before; the block that is done last clears its slice's.
//! Its counters are set to 0 before the first block's flag says that it is there.
//!
//! Grid: slices along x, blocks of a slice along y, all resident. Block: 512 threads that compute, and the warp that
//! brings. Shared memory: the stages of the ring in the dynamic area, the rest as [`Shared`] says.

mod ring;

use super::channelwise::resident::{Backward, Forward, Pass, between};
use crate::math::chunks;
use crate::math::element::Element;
use crate::math::vector::{for_each, narrowed, read, widened};
use cuda_std::barrier::sync_named;
use cuda_std::memory::{X2, load_x4, store_x4_cached};
use cuda_std::thread::{lane_id, sync_threads, thread_idx_x, warp_idx};
use cuda_std::tma::{self, MapAddress};
use cuda_std::{atomics, mbarrier, shared, warp};
use kernel_abi::ops::norm::channelwise::tensor;
use kernel_abi::ops::norm::resident_channels::{
    CONSUMERS, COUNTERS, MAPS, ResidentChannelsParams, VECTOR_BYTES, chunk_rows, sum_words,
};
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
    /// What stages were filled with when results are written.
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
    maps: [MapAddress; MAPS],
    shared: Shared,
) {
    run::<T, Forward, V, L, PASSES, 1>(p, &maps, &shared);
}

/// dscale, dbias, dx and dz.
#[inline(always)]
pub unsafe fn backward<T: Element<Acc = f32>, const V: usize, const L: u32, const PASSES: usize>(
    p: &ResidentChannelsParams,
    maps: [MapAddress; MAPS],
    shared: Shared,
) {
    if p.channels.addresses[tensor::Y] == 0 {
        run::<T, Backward, V, L, PASSES, 2>(p, &maps, &shared);
    } else {
        run::<T, Backward, V, L, PASSES, 3>(p, &maps, &shared);
    }
}

/// A pass that brings `N` tensors.
#[inline(always)]
unsafe fn run<T: Element<Acc = f32>, P: Pass, const V: usize, const L: u32, const PASSES: usize, const N: usize>(
    p: &ResidentChannelsParams,
    maps: &[MapAddress; MAPS],
    shared: &Shared,
) {
    let b = Block::new(p, chunk_rows(L, PASSES as u32), N as u32, size_of::<T>() as u32, shared);
    if thread_idx_x() == 0 {
        for_each!(M < N, {
            tma::prefetch_map(*maps.get_unchecked(M));
        });
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
            bring::<N>(&b, maps);
        }
        return;
    }
    let thread = Thread::<V, L, PASSES>::new::<T>(&b);
    let mut full = Parities(0);
    // What is known of channels is read beside x.
    let mut parameters = [0.0; 3];
    if let Some(channel) = thread.finishes(&b) {
        parameters = P::parameters::<T>(&p.channels, channel, b.block == 0);
    }
    thread.leave_part::<T, P, N>(&b, shared, &mut full, parameters);
    thread.join_parts::<T, P>(&b, shared, parameters);
    thread.write::<T, P, N>(&b, shared, &mut full);
    thread.end(&b);
}

/// A thread's share of a block: `L` threads stand beside each other along the channels of a slice, a vector of `V` each;
/// those below each other have positions, `PASSES` of a chunk each.
///
/// Few channels stand there several times, those of positions that follow one another: what is found out of them is joined
/// where threads of a block meet.
struct Thread<const V: usize, const L: u32, const PASSES: usize> {
    thread: u32,
    /// The first position of a chunk, and the first channel of the slice, which stands for this one of the tensor's.
    row: u32,
    channel: u32,
    own_channel: u32,
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
            own_channel: b.own_channel(channel),
            there: row < Self::ROWS
                && channel < b.p.slice_channels
                && b.slice * b.p.slice_channels + channel < b.p.channels.share.channels,
            at: row * row_bytes + column * VECTOR_BYTES,
            step: Self::ROWS * row_bytes,
        }
    }

    /// The channel that the thread finishes, if there is one.
    #[inline(always)]
    fn finishes(&self, b: &Block<'_>) -> Option<u32> {
        let channel = b.slice * b.p.slice_channels + self.thread;
        (self.thread < b.p.own_channels && channel < b.p.channels.share.channels).then_some(channel)
    }

    /// The thread's vectors of the tensors of a stage; what there is not is zeros or what was there before.
    #[inline(always)]
    unsafe fn vectors<const N: usize>(&self, b: &Block<'_>, stage: u32) -> [[[u32; 4]; N]; PASSES] {
        let mut words = [[[0u32; 4]; N]; PASSES];
        if self.there {
            let at = b.stage(stage) + self.at;
            for_each!(J < PASSES, {
                for_each!(M < N, {
                    *words.get_unchecked_mut(J).get_unchecked_mut(M) =
                        shared::load_x4(at + J as u32 * self.step + M as u32 * b.pitch);
                });
            });
        }
        words
    }

    /// The means of the thread's channels, where they are given.
    #[inline(always)]
    unsafe fn means(&self, b: &Block<'_>) -> [f32; V] {
        let mut means = [0.0f32; V];
        if self.there {
            let first =
                (b.p.channels.mean as *const f32).add((b.slice * b.p.slice_channels + self.own_channel) as usize);
            for_each!(I < V, {
                *means.get_unchecked_mut(I) = *first.add(I);
            });
        }
        means
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

    /// Reads the block's chunks, and leaves its part of its channels for all blocks.
    #[inline(always)]
    unsafe fn leave_part<T: Element<Acc = f32>, P: Pass, const N: usize>(
        &self,
        b: &Block<'_>,
        shared: &Shared,
        full: &mut Parities,
        parameters: [f32; 3],
    ) {
        let mut sums = [[0.0f32; V]; 2];
        let (mut k, mut stage) = (0, 0);
        // Squares of large numbers would lose the digits of small ones.
        let mut origin = if P::BACKWARD { self.means(b) } else { [0.0f32; V] };
        full.wait(b.full, 0);
        if !P::BACKWARD {
            if self.there {
                // Of three positions the one between: a single one may be far from all others.
                let last = b.p.positions_of(b.block, b.rows) - 1;
                let at = #[inline(always)]
                |i: u32| {
                    let position = if i < last { i } else { last };
                    let element = position * b.p.own_channels + self.own_channel;
                    widened::<T, V>(&shared::load_x4(b.stage(0) + element * size_of::<T>() as u32))
                };
                let (one, two, three) = (at(0), at(1), at(2));
                for_each!(I < V, {
                    *origin.get_unchecked_mut(I) =
                        between(*one.get_unchecked(I), *two.get_unchecked(I), *three.get_unchecked(I));
                });
            }
            if self.thread < L && self.there && self.channel == self.own_channel {
                for_each!(I < V, {
                    *shared.of_channels.add(self.channel as usize + I) = *origin.get_unchecked(I);
                });
            }
        }
        while k < b.n {
            if k > 0 {
                full.wait(b.full, stage);
            }
            let words = self.vectors::<N>(b, stage);
            let left = self.left(b, b.chunk(k));
            for_each!(J < PASSES, {
                if left > J as i32 * Self::ROWS as i32 {
                    P::add::<T, V, N>(&b.p.channels, &origin, words.get_unchecked(J), &mut sums);
                }
            });
            if k + b.p.n_stages < b.n {
                Self::release(b, stage);
            }
            (k, stage) = (k + 1, if stage + 1 == b.p.n_stages { 0 } else { stage + 1 });
        }
        if b.block == 0 && self.thread < COUNTERS {
            *(b.p.counters as *mut u32).add((b.slice * COUNTERS + self.thread) as usize) = 0;
        }
        let sums = self.add_up(b, shared.sums, &sums);
        if self.thread < b.p.own_channels {
            let origin = if P::BACKWARD { 0.0 } else { *shared.of_channels.add(self.thread as usize) - parameters[2] };
            let part = P::part(b.p.positions_of(b.block, b.rows) as f32, origin, sums);
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

    /// Adds up over the block: both sums of the channel that the thread's number is, if there is one. Threads have met when
    /// their own sums are in shared memory.
    #[inline(always)]
    unsafe fn add_up(&self, b: &Block<'_>, to: *mut f32, [ones, others]: &[[f32; V]; 2]) -> [f32; 2] {
        if LANES.is_multiple_of(L) {
            self.add_up_warp(to, ones, others);
            sync_named(MEET, CONSUMERS);
            return self.totals(b, to, 2 * Self::CHANNELS, WARPS);
        }
        // Rows of threads begin in the middle of warps. There is room for one of their sums.
        const { assert!(LANES.is_multiple_of(L) || Self::ROWS * Self::CHANNELS <= sum_words(L)) };
        self.put_row(to, ones);
        sync_named(MEET, CONSUMERS);
        let [one] = self.totals(b, to, Self::CHANNELS, Self::ROWS);
        sync_named(MEET, CONSUMERS);
        self.put_row(to, others);
        sync_named(MEET, CONSUMERS);
        let [other] = self.totals(b, to, Self::CHANNELS, Self::ROWS);
        [one, other]
    }

    /// Puts what the thread has of a sum to `[row][channel]`.
    #[inline(always)]
    unsafe fn put_row(&self, to: *mut f32, values: &[f32; V]) {
        if self.there {
            let to = to.add((self.row * Self::CHANNELS + self.channel) as usize);
            for_each!(I < V, {
                *to.add(I) = *values.get_unchecked(I);
            });
        }
    }

    /// Adds up what so many have put there, `pitch` apart, of the channel that the thread's number is and of those that are
    /// the same one of the tensor's.
    #[inline(always)]
    unsafe fn totals<const SUMS: usize>(&self, b: &Block<'_>, from: *const f32, pitch: u32, n: u32) -> [f32; SUMS] {
        let mut totals = [0.0f32; SUMS];
        let mut channel = if self.thread < b.p.own_channels { self.thread } else { b.p.slice_channels };
        while channel < b.p.slice_channels {
            let mut i = 0;
            while i < n {
                let at = from.add((i * pitch + channel) as usize);
                for_each!(I < SUMS, {
                    *totals.get_unchecked_mut(I) += *at.add(I * Self::CHANNELS as usize);
                });
                i += 1;
            }
            channel += b.p.own_channels;
        }
        totals
    }

    /// Adds up over the rows of a warp, and puts what is found to `[warp][which][channel]`. Threads whose rows are 16 apart
    /// keep the ones or the others of two sums, and with four rows those 8 apart half of their channels.
    #[inline(always)]
    unsafe fn add_up_warp(&self, to: *mut f32, ones: &[f32; V], others: &[f32; V]) {
        let (second, half) = (lane_id() & 16 != 0, L == 8 && lane_id() & 8 != 0);
        let mut values = [0.0f32; V];
        for_each!(I < V, {
            let (a, c) = (*ones.get_unchecked(I), *others.get_unchecked(I));
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

    /// Waits for the parts of all blocks, and leaves the factors of the channels in shared memory; the first block writes
    /// what there is of channels.
    #[inline(always)]
    unsafe fn join_parts<T: Element<Acc = f32>, P: Pass>(&self, b: &Block<'_>, shared: &Shared, parameters: [f32; 3]) {
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
        let (mut ones, mut others) = ([0.0f32; 2], [0.0f32; 2]);
        if 2 * pair < b.p.own_channels {
            let load = #[inline(always)]
            |block: u32| {
                let words = load_x4((Self::part(b, block) + u64::from(pair) * 16) as *const u32);
                words.map(f32::from_bits)
            };
            if P::RELATIVE {
                let [first, _, second, _] = load(0);
                reference = [first, second];
            }
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
                            let [one, other] = P::share(n, reference[I], [part[2 * I], part[2 * I + 1]]);
                            ones[I] += one;
                            others[I] += other;
                        });
                    }
                });
                block += PARTS as u32 * groups;
            }
        }
        // What warps had there is read.
        let to = shared.sums.add((group * 2 * Self::CHANNELS + 2 * pair) as usize);
        *(to as *mut X2<f32>) = X2(ones);
        *(to.add(Self::CHANNELS as usize) as *mut X2<f32>) = X2(others);
        if P::RELATIVE && group == 0 {
            *(shared.of_channels.add(2 * pair as usize) as *mut X2<f32>) = X2(reference);
        }
        sync_named(MEET, CONSUMERS);
        let channel = self.finishes(b);
        let [mut one, mut other, mut reference] = [0.0f32; 3];
        if channel.is_some() {
            let mut group = 0;
            while group < groups {
                let at = shared.sums.add((group * 2 * Self::CHANNELS + self.thread) as usize);
                one += *at;
                other += *at.add(Self::CHANNELS as usize);
                group += 1;
            }
            if P::RELATIVE {
                reference = *shared.of_channels.add(self.thread as usize);
            }
        }
        let (there, channel) = (channel.is_some(), channel.unwrap_or(0));
        let factors = P::finish::<T>(p, channel, there, b.block == 0, reference, [one, other], parameters);
        if there {
            let of_channel = shared.of_channels.add(self.thread as usize);
            const ALL: usize = 4;
            for_each!(I < ALL, {
                *of_channel.add(I * Self::CHANNELS as usize) = factors[I];
            });
        }
        sync_named(MEET, CONSUMERS);
    }

    /// The results of the chunks in the ring, and of those that are brought again.
    #[inline(always)]
    unsafe fn write<T: Element<Acc = f32>, P: Pass, const N: usize>(
        &self,
        b: &Block<'_>,
        shared: &Shared,
        full: &mut Parities,
    ) {
        let p = &b.p.channels;
        let of_channels = #[inline(always)]
        |which: u32| {
            let from = shared.of_channels.add((which * Self::CHANNELS + self.own_channel) as usize);
            let mut values = [0.0f32; V];
            for_each!(I < V, {
                *values.get_unchecked_mut(I) = *from.add(I);
            });
            values
        };
        let factors = [of_channels(0), of_channels(1), of_channels(2), of_channels(3)];
        let has_z = !P::BACKWARD && p.addresses[tensor::DY] != 0;
        let scaled = p.alpha != 1.0 || p.beta != 0.0;
        let channel = i64::from(b.slice * b.p.slice_channels + self.channel);
        let address = #[inline(always)]
        |tensor: usize, position: u32| {
            let offset = i64::from(position) * p.strides.get_unchecked(tensor)[1] + channel;
            p.addresses.get_unchecked(tensor) + offset as u64 * size_of::<T>() as u64
        };
        let store = #[inline(always)]
        |tensor: usize, position: u32, mut values: [f32; V]| {
            let to = address(tensor, position);
            if scaled {
                let mut prior = [0.0f32; V];
                if p.beta != 0.0 {
                    prior = read::<T, V>(to);
                }
                for_each!(I < V, {
                    let value = values.get_unchecked_mut(I);
                    *value = p.alpha * *value + p.beta * *prior.get_unchecked(I);
                });
            }
            store_x4_cached(to as *mut u32, narrowed::<T, V>(&values), b.p.policy);
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
            if has_z {
                for_each!(J < PASSES, {
                    let from = address(tensor::DY, position + J as u32 * Self::ROWS);
                    *z.get_unchecked_mut(J) = chunks::load::<16>(from, is_there(J));
                });
            }
            let words = self.vectors::<N>(b, stage);
            if is_left {
                Self::release(b, stage);
            }
            for_each!(J < PASSES, {
                if is_there(J) {
                    let z = if has_z { Some(z.get_unchecked(J)) } else { None };
                    let [out, g] = P::results::<T, V, N>(p, &factors, words.get_unchecked(J), z);
                    let position = position + J as u32 * Self::ROWS;
                    store(tensor::OUT, position, out);
                    if P::BACKWARD && p.addresses[tensor::DZ] != 0 {
                        store(tensor::DZ, position, g);
                    }
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
