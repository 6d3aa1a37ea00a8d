//! Sums over the threads of a row.

use super::LANES;
use crate::math::vector::for_each;
use cuda_std::thread::{sync_threads, thread_idx_x};
use cuda_std::{shared_array, warp};

/// Places for what warps leave: each sum of a row has its own, so that one barrier does for it.
pub(in super::super) mod place {
    /// Of elements.
    pub const MEAN: usize = 0;
    /// Of squared deviations.
    pub const SQUARES: usize = 1;
    /// Backward, of what all elements of the row share.
    pub const GRADIENTS: usize = 2;
    /// How many.
    pub const COUNT: usize = 3;
}

/// Floats of a place: two numbers of each warp.
const SLOTS: usize = 64;

/// Sums over the `THREADS` threads of a row, lanes of a warp or a block, in all of them. All threads of the block call it
/// together, and meet again before they come to the same place of another row.
#[inline(always)]
pub(in super::super) unsafe fn over_row<const THREADS: u32, const N: usize, const PLACE: usize>(
    values: [f32; N],
) -> [f32; N] {
    if THREADS <= LANES {
        return over_lanes(values, THREADS);
    }
    let slots = shared_array![f32; place::COUNT * SLOTS].add(PLACE * SLOTS);
    let (warp_idx, lane) = ((thread_idx_x() / LANES) as usize, thread_idx_x() % LANES);
    let values = over_lanes(values, LANES);
    if lane == 0 {
        for_each!(I < N, {
            *slots.add(32 * I + warp_idx) = *values.get_unchecked(I);
        });
    }
    sync_threads();
    // Lanes take what the warps left in turns, so that few steps are left between them.
    let warps = (THREADS / LANES).max(1);
    let mut others = [0.0f32; N];
    for_each!(I < N, {
        *others.get_unchecked_mut(I) = *slots.add(32 * I + (lane % warps) as usize);
    });
    over_lanes(others, warps)
}

/// The value of the first lane of a row's threads, or of the warp's.
#[inline(always)]
pub(in super::super) unsafe fn of_leader<const THREADS: u32>(value: f32) -> f32 {
    let lane = if THREADS < LANES { thread_idx_x() % LANES / THREADS * THREADS } else { 0 };
    f32::from_bits(warp::shuffle(value.to_bits(), lane))
}

/// The mean of a row as the sum of two numbers, of which the first is an element or a mean of some: by sums of differences
/// from `pivot`, which all threads of a row or a warp share. A row has so many vectors of `elems` each, thread t those at
/// t, t + `THREADS`, …. All threads of the block call it together.
#[inline(always)]
pub(in super::super) unsafe fn mean_near<const THREADS: u32>(
    pivot: f32,
    sum: f32,
    n_vectors: u32,
    elems: u32,
    share: f32,
) -> [f32; 2] {
    if THREADS <= LANES {
        let [sum] = over_lanes([sum], THREADS);
        return [pivot, sum * share];
    }
    let slots = shared_array![f32; place::COUNT * SLOTS].add(place::MEAN * SLOTS);
    let (warp_idx, lane) = ((thread_idx_x() / LANES) as usize, thread_idx_x() % LANES);
    let [sum] = over_lanes([sum], LANES);
    if lane == 0 {
        *slots.add(warp_idx) = pivot;
        *slots.add(32 + warp_idx) = sum;
    }
    sync_threads();
    let warps = (THREADS / LANES).max(1);
    let other = lane % warps;
    let (first, pivot, sum) = (*slots, *slots.add(other as usize), *slots.add(32 + other as usize));
    let rest = (n_vectors % THREADS).saturating_sub(LANES * other);
    let count = (n_vectors / THREADS * LANES + if rest < LANES { rest } else { LANES }) * elems;
    let [sum] = over_lanes([sum + count as f32 * (pivot - first)], warps);
    [first, sum * share]
}

/// Sums over so many neighbouring lanes, a power of two, in all of them.
#[inline(always)]
pub(in super::super) unsafe fn over_lanes<const N: usize>(mut values: [f32; N], lanes: u32) -> [f32; N] {
    let mut other = lanes / 2;
    while other > 0 {
        for_each!(I < N, {
            let value = values.get_unchecked_mut(I);
            *value += warp::shuffle_xor_f32(*value, other);
        });
        other /= 2;
    }
    values
}
