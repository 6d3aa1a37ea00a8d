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
