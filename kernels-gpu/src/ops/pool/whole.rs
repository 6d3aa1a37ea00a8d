//! One window that is the whole image: channels are summed or searched as columns or rows of a matrix.
//!
//! Where channels lie together, 16 bytes of them a thread: eight such vectors and 32 slots for positions a block, slots
//! joined in shared memory. Where positions lie together, some lanes of a warp a plane, cut at multiples of 16 bytes
//! wherever it begins, lanes joined by shuffles. Both in a fixed order. Backward of averages, where planes lie together, 16
//! bytes of dx a thread, whose elements may be of two planes. Grid: exact, one-dimensional. Block: 256 threads.

use super::strips::{MAXIMUM, MAXIMUM_OF_NUMBERS, SUM, join};
use crate::math::element::{Accumulator, Element};
use crate::math::vector;
use crate::math::words::{self, load_words, store};
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{guarded, thread};
use kernel_abi::ops::pool::{PoolWholeParams, WHOLE_LANES, WHOLE_THREADS};

/// Positions loaded at a time.
const AHEAD: usize = 4;

/// Slots for positions of a block.
const SLOTS: u32 = WHOLE_THREADS / WHOLE_LANES;

/// Elements of shared memory, for vectors of `V` channels.
pub const fn n_partials(v: usize) -> usize {
    WHOLE_THREADS as usize * v
}

/// y = the maximum of each channel, channels together.
pub unsafe fn maximum_columns<T: Element<Acc = f32>, const V: usize>(p: &PoolWholeParams, partials: *mut f32) {
    if p.ignore_nan != 0 {
        columns::<T, V, MAXIMUM_OF_NUMBERS>(p, partials)
    } else {
        columns::<T, V, MAXIMUM>(p, partials)
    }
}

/// y = the average of each channel, channels together.
pub unsafe fn average_columns<T: Element<Acc = f32>, const V: usize>(p: &PoolWholeParams, partials: *mut f32) {
    columns::<T, V, SUM>(p, partials)
}

/// y = the maximum of each channel, positions together.
pub unsafe fn maximum_rows<T: Element<Acc = f32>, const V: usize>(p: &PoolWholeParams) {
    if p.ignore_nan != 0 { rows::<T, V, MAXIMUM_OF_NUMBERS>(p) } else { rows::<T, V, MAXIMUM>(p) }
}

/// y = the average of each channel, positions together.
pub unsafe fn average_rows<T: Element<Acc = f32>, const V: usize>(p: &PoolWholeParams) {
    rows::<T, V, SUM>(p)
}

/// Every `step`-th of the accesses from `first` on, joined.
#[inline(always)]
unsafe fn gather<T: Element<Acc = f32>, const V: usize, const KIND: u32>(
    p: &PoolWholeParams,
    from: i64,
    first: u32,
    n: u32,
    step: u32,
) -> [f32; V] {
    // Elements that are left out change nothing.
    let mut joined = vector::widened::<T, V>(&[p.fill; 4]);
    let mut i = first;
    while i < n {
        let mut loaded = [[0u32; 4]; AHEAD];
        vector::for_each!(I < AHEAD, {
            let at = i + I as u32 * step;
            *loaded.get_unchecked_mut(I) =
                load_words::<T, V>(p.x, from + i64::from(at) * p.x_strides[2], at < n, p.fill);
        });
        vector::for_each!(I < AHEAD, {
            joined = join::<V, KIND>(joined, vector::widened::<T, V>(loaded.get_unchecked(I)));
        });
        i += AHEAD as u32 * step;
    }
    joined
}

#[inline(always)]
fn factor<const KIND: u32>(p: &PoolWholeParams) -> f32 {
    if KIND == SUM { p.alpha / p.positions as f32 } else { p.alpha }
}

#[inline(always)]
unsafe fn columns<T: Element<Acc = f32>, const V: usize, const KIND: u32>(p: &PoolWholeParams, partials: *mut f32) {
    let (lane, slot) = (thread_idx_x() % WHOLE_LANES, thread_idx_x() / WHOLE_LANES);
    let (n, chunk) = p.chunks.div_rem(block_idx_x());
    let channel = chunk * WHOLE_LANES + lane;
    let exists = channel < p.channels;
    let from = i64::from(n) * p.x_strides[0] + i64::from(channel) * p.x_strides[1];
    let n_positions = if exists { p.positions } else { 0 };
    let mut joined = gather::<T, V, KIND>(p, from, slot, n_positions, SLOTS);
    // Lanes of a slot are neighbours, elements of a vector far apart: no two of a warp share a bank.
    let place = |slot: u32, element: usize| {
        partials.add(element * WHOLE_THREADS as usize + (slot * WHOLE_LANES + lane) as usize)
    };
    vector::for_each!(I < V, {
        *place(slot, I) = *joined.get_unchecked(I);
    });
    let mut step = SLOTS / 2;
    while step > 0 {
        thread::sync_threads();
        if slot < step {
            let mut other = joined;
            vector::for_each!(I < V, {
                *other.get_unchecked_mut(I) = *place(slot + step, I);
            });
            joined = join::<V, KIND>(joined, other);
            vector::for_each!(I < V, {
                *place(slot, I) = *joined.get_unchecked(I);
            });
        }
        step /= 2;
    }
    if slot == 0 && exists {
        let to = i64::from(n) * p.y_strides[0] + i64::from(channel) * p.y_strides[1];
        store::<T, V>(p.y, to, joined, factor::<KIND>(p), p.beta);
    }
}

#[inline(always)]
unsafe fn rows<T: Element<Acc = f32>, const V: usize, const KIND: u32>(p: &PoolWholeParams) {
    let thread = thread::index_1d() as u32;
    // A power of two.
    let (plane, lane) = (thread >> p.lanes.trailing_zeros(), thread & (p.lanes - 1));
    let exists = plane < p.channels;
    let (n, c) = p.chunks.div_rem(if exists { plane } else { 0 });
    let offset = i64::from(n) * p.x_strides[0] + i64::from(c) * p.x_strides[1];
    let from = p.x.wrapping_add((offset * size_of::<T>() as i64) as u64);
    let skip = (from & 15) as i32 / size_of::<T>() as i32;
    let positions = p.positions as i32;
    let n_pieces = if exists { (skip + positions + V as i32 - 1) as u32 / V as u32 } else { 0 };
    let mut joined = vector::widened::<T, V>(&[p.fill; 4]);
    let neutral = joined[0];
    let mut first = lane;
    while first < n_pieces {
        let mut loaded = [[0u32; 4]; AHEAD];
        let address = |piece: u32| (from & !15) + u64::from(piece) * 16;
        let is_within = |piece: u32| address(piece) >= p.x && address(piece) + 16 <= p.x_end;
        vector::for_each!(I < AHEAD, {
            let piece = first + I as u32 * p.lanes;
            let condition = piece < n_pieces && is_within(piece);
            *loaded.get_unchecked_mut(I) = guarded::load_x4_own(address(piece), condition as u32);
        });
        vector::for_each!(I < AHEAD, {
            let piece = first + I as u32 * p.lanes;
            if piece < n_pieces {
                let element = (piece * V as u32) as i32 - skip;
                let words = loaded.get_unchecked(I);
                let within = is_within(piece);
                let values = vector::of_run::<T, V>(words, address(piece), element, positions, within, neutral);
                joined = join::<V, KIND>(joined, values);
            }
        });
        first += AHEAD as u32 * p.lanes;
    }
    // Lanes leave the loop at different times.
    cuda_std::warp::sync_warp();
    let mut result = [joined[0]];
    vector::for_each!(I < V, {
        if I > 0 {
            result = join::<1, KIND>(result, [*joined.get_unchecked(I)]);
        }
    });
    let mut other = p.lanes / 2;
    while other > 0 {
        result = join::<1, KIND>(result, [result[0].shuffle_xor(other)]);
        other /= 2;
    }
    if exists && lane == 0 {
        let to = i64::from(n) * p.y_strides[0] + i64::from(c) * p.y_strides[1];
        store::<T, 1>(p.y, to, result, factor::<KIND>(p), p.beta);
    }
}

/// dx = the shares of the averages, planes together.
pub unsafe fn shares_rows<T: Element<Acc = f32>, const V: usize>(p: &PoolWholeParams) {
    let first = thread::index_1d() as u32 * V as u32;
    let n = p.channels * p.positions;
    if first >= n {
        return;
    }
    // A plane has no fewer elements than an access.
    let (plane, begin) = p.chunks.div_rem(first);
    let dy = |plane: u32| words::load::<T, 1>(p.y, i64::from(plane), plane < p.channels, 0)[0];
    let (share, left) = (1.0 / p.positions as f32, p.positions - begin);
    let (here, behind) = (dy(plane) * share, dy(plane + 1) * share);
    let mut values = [here; V];
    vector::for_each!(I < V, {
        if I as u32 >= left {
            *values.get_unchecked_mut(I) = behind;
        }
    });
    if first + V as u32 <= n {
        store::<T, V>(p.x, i64::from(first), values, p.alpha, p.beta);
    } else {
        vector::for_each!(I < V, {
            let at = first + I as u32;
            if at < n {
                store::<T, 1>(p.x, i64::from(at), [*values.get_unchecked(I)], p.alpha, p.beta);
            }
        });
    }
}
