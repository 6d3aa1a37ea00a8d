//! `cp.async`.

use cuda_std::{cp_async, kernel, mbarrier, shared, shared_array, thread};

/// Copies 32 bytes a thread through shared memory, in pieces of 16, 8, 4 and 4, of which the last three are cut to
/// `valid` bytes; the neighbour's piece is written.
///
/// # Safety
/// 128 threads; `x` and `out` have 8 numbers a thread.
#[kernel(threads = 128)]
pub unsafe fn unit_cp_async_copy(x: u64, out: u64, valid: u32) {
    let t = thread::thread_idx_x();
    let from = (x as *const u8).add(32 * t as usize);
    let base = shared::address(shared_array![u32; 1024]);
    let to = base + 32 * t;
    cp_async::copy_x4(to, from, 16);
    cp_async::commit_group();
    cp_async::copy_x2(to + 16, from.add(16), valid.min(8));
    cp_async::commit_group();
    cp_async::copy_x1(to + 24, from.add(24), valid.min(4));
    cp_async::copy_x1(to + 28, from.add(28), valid.min(4));
    cp_async::commit_group();
    cp_async::wait_group::<1>();
    cp_async::wait_group::<0>();
    thread::sync_threads();
    let other = base + 32 * (t ^ 1);
    let at = (out as *mut u32).add(8 * t as usize);
    for i in 0..8 {
        *at.add(i as usize) = shared::load_u32(other + 4 * i);
    }
}

/// As [`unit_cp_async_copy`] for 16 bytes, with a barrier that counts the copies.
///
/// # Safety
/// 128 threads; `x` and `out` have 4 numbers a thread.
#[kernel(threads = 128, arch = "sm_90a")]
pub unsafe fn unit_cp_async_barrier(x: u64, out: u64) {
    let t = thread::thread_idx_x();
    let bar = shared::address(shared_array![u64; 1]);
    let base = shared::address(shared_array![u32; 512]);
    if t == 0 {
        mbarrier::init(bar, 128);
        mbarrier::fence_init();
    }
    thread::sync_threads();
    cp_async::copy_x4_cached(base + 16 * t, (x as *const u8).add(16 * t as usize), 16);
    cp_async::arrive(bar);
    mbarrier::wait(bar, 0);
    let v = shared::load_x4(base + 16 * (t ^ 1));
    let at = (out as *mut u32).add(4 * t as usize);
    for (i, v) in v.into_iter().enumerate() {
        *at.add(i) = v;
    }
}
