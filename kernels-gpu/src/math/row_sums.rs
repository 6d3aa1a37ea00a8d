//! Sums over the threads of a row, which are lanes of a warp or a block.

use super::vector::for_each;
use cuda_std::thread::{sync_threads, thread_idx_x};
use cuda_std::{shared_array, warp};

/// Threads of a warp.
pub const LANES: u32 = 32;

/// Sums over the threads of a row, in all of them.
///
/// # Safety
/// All threads of the block call it together.
#[inline(always)]
pub unsafe fn row_sums<const THREADS: u32, const N: usize>(mut values: [f32; N]) -> [f32; N] {
    let mut lane = if THREADS < LANES { THREADS / 2 } else { LANES / 2 };
    while lane > 0 {
        for_each!(I < N, {
            let value = values.get_unchecked_mut(I);
            *value += warp::shuffle_xor_f32(*value, lane);
        });
        lane /= 2;
    }
    if THREADS <= LANES {
        return values;
    }
    let slots = shared_array![f32; 64];
    let (warp_idx, lane) = (thread_idx_x() / LANES, thread_idx_x() % LANES);
    // Nobody may still read what is written now.
    sync_threads();
    if lane == 0 {
        for_each!(I < N, {
            *slots.add(32 * I + warp_idx as usize) = *values.get_unchecked(I);
        });
    }
    sync_threads();
    // Lanes take what the warps left in turns, so that few steps are left between them; of a number of warps that is no
    // power of two, each lane takes one.
    let warps = (THREADS / LANES).max(1);
    let in_turns = warps.is_power_of_two();
    for_each!(I < N, {
        let mut sum = 0.0;
        if in_turns || lane < warps {
            sum = *slots.add(32 * I + (lane % warps) as usize);
        }
        let mut other = if in_turns { warps / 2 } else { LANES / 2 };
        while other > 0 {
            sum += warp::shuffle_xor_f32(sum, other);
            other /= 2;
        }
        *values.get_unchecked_mut(I) = sum;
    });
    values
}
