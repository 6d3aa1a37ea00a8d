//! Indices and the barriers of a block.

use cuda_std::{barrier, kernel, shared, shared_array, thread};

/// Every thread writes its twelve index registers at its place in the grid, x fastest, threads before blocks.
///
/// # Safety
/// `out` has 12 numbers a thread.
#[kernel]
pub unsafe fn unit_threads_indices(out: u64) {
    let block = (thread::block_idx_z() * thread::grid_dim_y() + thread::block_idx_y()) * thread::grid_dim_x()
        + thread::block_idx_x();
    let threads = thread::block_dim_x() * thread::block_dim_y() * thread::block_dim_z();
    let at = (out as *mut u32).add(12 * (block * threads + thread::index_in_block()) as usize);
    *at = thread::thread_idx_x();
    *at.add(1) = thread::thread_idx_y();
    *at.add(2) = thread::thread_idx_z();
    *at.add(3) = thread::block_idx_x();
    *at.add(4) = thread::block_idx_y();
    *at.add(5) = thread::block_idx_z();
    *at.add(6) = thread::block_dim_x();
    *at.add(7) = thread::block_dim_y();
    *at.add(8) = thread::block_dim_z();
    *at.add(9) = thread::grid_dim_x();
    *at.add(10) = thread::grid_dim_y();
    *at.add(11) = thread::grid_dim_z();
}

/// Every thread writes index, number of threads, lane, warp, warpgroup and the lanes below.
///
/// # Safety
/// A one-dimensional launch; `out` has 6 numbers a thread.
#[kernel]
pub unsafe fn unit_threads_linear(out: u64) {
    let at = (out as *mut u32).add(6 * thread::index_1d() as usize);
    *at = thread::index_1d() as u32;
    *at.add(1) = thread::grid_threads_1d() as u32;
    *at.add(2) = thread::lane_id();
    *at.add(3) = thread::warp_idx();
    *at.add(4) = thread::warpgroup_idx();
    *at.add(5) = thread::lanes_below();
}

/// Writes the predicate's count, conjunction and disjunction over the block, where it is `thread < n`.
///
/// # Safety
/// 128 threads; `out` has 3 numbers a thread.
#[kernel(threads = 128)]
pub unsafe fn unit_threads_votes(out: u64, n: u32) {
    let t = thread::thread_idx_x();
    let at = (out as *mut u32).add(3 * t as usize);
    *at = barrier::sync_threads_count(t < n);
    *at.add(1) = u32::from(barrier::sync_threads_and(t < n));
    *at.add(2) = u32::from(barrier::sync_threads_or(t < n));
}

/// Warp 1 fills shared memory and arrives; warp 0 waits and copies it out. The other two warps stay away.
///
/// # Safety
/// 128 threads; `out` has 32 numbers.
#[kernel(threads = 128)]
pub unsafe fn unit_threads_named_barrier(out: u64) {
    let slots = shared::address(shared_array![u32; 32]);
    let (warp, lane) = (thread::warp_idx(), thread::lane_id());
    if warp == 1 {
        // So that warp 0 would be first without the barrier.
        thread::nanosleep(20_000);
        shared::store_u32(slots + 4 * lane, 1000 + lane);
        barrier::arrive_named(3, 64);
    } else if warp == 0 {
        barrier::sync_named(3, 64);
        *(out as *mut u32).add(lane as usize) = shared::load_u32(slots + 4 * lane);
    }
}

/// One barrier between two branches on one condition, which optimizers like to copy into both: the block would hang or
/// read too early.
///
/// # Safety
/// 128 threads; `out` has 128 numbers.
#[kernel(threads = 128)]
pub unsafe fn unit_threads_convergence(out: u64, n: u32) {
    let slots = shared_array![u32; 128];
    let t = thread::thread_idx_x();
    if t < n {
        *slots.add(t as usize) = 7 * t;
    } else {
        *slots.add(t as usize) = 5 * t;
    }
    thread::sync_threads();
    let at = (out as *mut u32).add(t as usize);
    if t < n {
        *at = *slots.add(127 - t as usize) + 1;
    } else {
        *at = *slots.add(127 - t as usize) + 2;
    }
}
