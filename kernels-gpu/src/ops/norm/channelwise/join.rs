//! What the threads of a block have, joined.

use super::place::LANES;
use crate::math::vector::for_each;
use cuda_std::thread::{block_dim_x, block_idx_x, lane_id, sync_threads, thread_idx_x};
use cuda_std::warp;
use kernel_abi::ops::norm::channelwise::{BLOCK, ChannelwiseParams};

const WARPS: usize = (BLOCK / LANES) as usize;
const HALF: usize = WARPS / 2;
const QUARTER: usize = WARPS / 4;

/// Banks between the elements of a vector.
const PADDING: u32 = 4;

/// Shared memory that [`join_block`] takes for one element of a vector and one of its numbers.
pub const SLOTS: usize = WARPS * (LANES + PADDING) as usize;

/// The first `width` values joined with those of the lane at a distance. Where there are several, each of the two goes on
/// with half of them, which stand first then; gives where that half began.
#[inline(always)]
unsafe fn join_lanes<const V: usize, const N: usize>(
    values: &mut [[f32; N]; V],
    width: usize,
    distance: u32,
    join: &impl Fn([f32; N], [f32; N]) -> [f32; N],
) -> u32 {
    let upper = lane_id() & distance != 0;
    let half = width / 2;
    for_each!(I < V, {
        if I == 0 || I < half {
            let low = *values.get_unchecked(I);
            let (own, mut other) = if half == 0 {
                (low, low)
            } else {
                let high = *values.get_unchecked(I + half);
                if upper { (high, low) } else { (low, high) }
            };
            for_each!(M < N, {
                let value = other.get_unchecked_mut(M);
                *value = warp::shuffle_xor_f32(*value, distance);
            });
            // In one order for both lanes of a pair: they would end with the same bits.
            *values.get_unchecked_mut(I) = if upper { join(other, own) } else { join(own, other) };
        }
    });
    if upper { half as u32 } else { 0 }
}

/// Joins what all threads with the same channels have: thread t ends with that of channel t of the block's `apart · V`, in
/// a fixed order. All threads of the block call it, once.
///
/// # Safety
/// `slots` are `N · V` times [`SLOTS`] numbers of shared memory. `V` is 1, 4 or 8.
#[inline(always)]
pub unsafe fn join_block<const V: usize, const N: usize>(
    slots: *mut f32,
    apart: u32,
    mut values: [[f32; N]; V],
    join: impl Fn([f32; N], [f32; N]) -> [f32; N],
) -> [f32; N] {
    let (thread, lane) = (thread_idx_x(), lane_id());
    warp::sync_warp();
    // Lanes halve what they have until it is one channel; nested, so that widths are constants.
    let (mut first, mut width) = (0, V);
    if apart <= 16 {
        first += join_lanes(&mut values, V, 16, &join);
        width = V / 2;
        if apart <= 8 {
            first += join_lanes(&mut values, V / 2, 8, &join);
            width = V / 4;
            if apart <= 4 {
                first += join_lanes(&mut values, V / 4, 4, &join);
                width = V / 8;
                let mut distance = 2;
                while distance >= apart {
                    join_lanes(&mut values, 1, distance, &join);
                    distance /= 2;
                }
            }
        }
    }
    if width == 0 {
        width = 1;
    }
    // The same element of all lanes side by side, and elements a few banks apart: no two threads of a warp, here and
    // where channels are read one after another, meet in a bank.
    let pitch = apart + PADDING;
    let at = |warp: u32, lane: u32, element: u32, i: usize| {
        slots.add((((warp * N as u32 + i as u32) * V as u32 + element) * pitch + lane) as usize)
    };
    // Of lanes that have the same channels the first.
    if lane & (LANES / V as u32 - 1) & !(apart - 1) == 0 {
        for_each!(I < V, {
            if I < width {
                for_each!(M < N, {
                    let to = at(thread / LANES, lane & (apart - 1), first + I as u32, M);
                    *to = *values.get_unchecked(I).get_unchecked(M);
                });
            }
        });
    }
    sync_threads();
    let mut joined = [[0.0; N]; WARPS];
    if thread < apart * V as u32 {
        for_each!(W < WARPS, {
            for_each!(M < N, {
                *joined.get_unchecked_mut(W).get_unchecked_mut(M) =
                    *at(W as u32, thread / V as u32, thread % V as u32, M);
            });
        });
        // As a tree: most of the joins do not wait for one another.
        for_each!(I < HALF, {
            joined[I] = join(joined[2 * I], joined[2 * I + 1]);
        });
        for_each!(I < QUARTER, {
            joined[I] = join(joined[2 * I], joined[2 * I + 1]);
        });
        joined[0] = join(joined[0], joined[1]);
    }
    joined[0]
}

/// Shared memory that [`join_rows`] takes in blocks of so many threads, in numbers: two of up to eight channels of every
/// thread, and two of every thread.
pub const fn row_slots(threads: u32) -> usize {
    (2 * 8 * (threads + LANES - 1) + 2 * threads) as usize
}

/// Numbers between those of neighbouring channels of a vector: all channels of a row stand beside one another in banks.
#[inline(always)]
pub fn row_pitch(p: &ChannelwiseParams) -> u32 {
    block_dim_x() + (p.share.lanes & (LANES - 1))
}

/// Adds up two numbers of each channel over the rows of a block, in a fixed order, and calls `put` with each channel and its
/// sums. With `RELATIVE`, the first numbers are differences from what the first row has, 0 for that row itself, and the
/// reference that [`row_pitch`] says the place of is there in its stead, and given to `put`. All threads of the block, of
/// any number of lanes, call it, once; `index` is a thread's row · lanes + lane.
///
/// # Safety
/// `slots` are [`row_slots`] numbers of shared memory.
#[inline(always)]
pub unsafe fn join_rows<const V: usize, const RELATIVE: bool>(
    p: &ChannelwiseParams,
    slots: *mut f32,
    there: bool,
    index: u32,
    [a, b]: [[f32; V]; 2],
    put: impl Fn(u32, f32, [f32; 2]),
) {
    let (lanes, rows, threads) = (p.share.lanes, p.share.rows, block_dim_x());
    let pitch = row_pitch(p);
    let second = slots.add((V as u32 * pitch) as usize);
    if there {
        for_each!(I < V, {
            let to = (I as u32 * pitch + index) as usize;
            if !RELATIVE || index >= lanes {
                *slots.add(to) = *a.get_unchecked(I);
            }
            *second.add(to) = *b.get_unchecked(I);
        });
    }
    sync_threads();
    let channels = V as u32 * lanes;
    // Neighbouring threads have neighbouring lanes of one channel of their vectors; groups of threads have some rows each.
    let groups = match core::intrinsics::unchecked_div(threads, channels) {
        0 => 1,
        groups => groups,
    };
    let of_groups = slots.add((2 * V as u32 * pitch) as usize);
    let place = #[inline(always)]
    |channel: u32| {
        let (i, lane) = p.share.by_lanes.div_rem(channel);
        (i * pitch + lane, (block_idx_x() * lanes + lane) * V as u32 + i)
    };
    let give = #[inline(always)]
    |channel: u32, sums: [f32; 2]| {
        let (at, channel) = place(channel);
        if channel < p.share.channels {
            put(channel, if RELATIVE { *slots.add(at as usize) } else { 0.0 }, sums);
        }
    };
    let mut item = thread_idx_x();
    while item < groups * channels {
        let group = core::intrinsics::unchecked_div(item, channels);
        let channel = item - group * channels;
        let (from, _) = place(channel);
        let mut sums = [0.0f32; 2];
        let mut row = group;
        while row < rows {
            let at = (from + row * lanes) as usize;
            if !RELATIVE || row > 0 {
                sums[0] += *slots.add(at);
            }
            sums[1] += *second.add(at);
            row += groups;
        }
        if groups == 1 {
            give(channel, sums);
        } else {
            *of_groups.add(item as usize) = sums[0];
            *of_groups.add((threads + item) as usize) = sums[1];
        }
        item += threads;
    }
    if groups == 1 {
        return;
    }
    sync_threads();
    let channel = thread_idx_x();
    if channel < channels {
        let mut sums = [0.0f32; 2];
        let mut at = channel;
        while at < groups * channels {
            sums[0] += *of_groups.add(at as usize);
            sums[1] += *of_groups.add((threads + at) as usize);
            at += channels;
        }
        give(channel, sums);
    }
}
