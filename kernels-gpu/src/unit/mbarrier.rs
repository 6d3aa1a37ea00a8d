//! `mbarrier` as the ring of a producer and a consumer.

use cuda_std::{kernel, mbarrier, shared, shared_array, thread};

const STAGES: u32 = 3;

/// Warp 0 puts `n` numbers a lane through a ring of 3 stages, warp 1 takes them out and adds the round: a number that
/// is taken too early or overwritten too soon comes out wrong.
///
/// # Safety
/// 64 threads; `x` and `out` have 32 n numbers.
#[kernel(threads = 64, arch = "sm_90a")]
pub unsafe fn unit_mbarrier_ring(x: u64, out: u64, n: u32) {
    let full = shared::address(shared_array![u64; 3]);
    let empty = shared::address(shared_array![u64; 3]);
    let slots = shared::address(shared_array![u32; 96]);
    let (warp, lane) = (thread::warp_idx(), thread::lane_id());
    if warp == 0 && lane == 0 {
        for stage in 0..STAGES {
            mbarrier::init(full + 8 * stage, 32);
            mbarrier::init(empty + 8 * stage, 1);
        }
        mbarrier::fence_init();
    }
    thread::sync_threads();
    let (mut stage, mut parity) = (0, 0);
    for round in 0..n {
        let slot = slots + 128 * stage + 4 * lane;
        let at = (32 * round + lane) as usize;
        if warp == 0 {
            mbarrier::wait(empty + 8 * stage, parity ^ 1);
            shared::store_u32(slot, *(x as *const u32).add(at));
            mbarrier::arrive(full + 8 * stage);
        } else {
            while !mbarrier::try_wait(full + 8 * stage, parity) {}
            *(out as *mut u32).add(at) = shared::load_u32(slot) + round;
            cuda_std::warp::sync_warp();
            if lane == 0 {
                mbarrier::arrive(empty + 8 * stage);
            }
        }
        stage += 1;
        if stage == STAGES {
            stage = 0;
            parity ^= 1;
        }
    }
}

/// A barrier step by step, one thread: whether the phase has ended after each.
///
/// # Safety
/// One thread; `out` has 6 numbers.
#[kernel(threads = 1, arch = "sm_90a")]
pub unsafe fn unit_mbarrier_steps(out: u64) {
    let bar = shared::address(shared_array![u64; 2]);
    let out = out as *mut u32;
    mbarrier::init(bar, 3);
    // The phase before the first counts as ended.
    *out = u32::from(mbarrier::test(bar, 1)) | u32::from(mbarrier::test(bar, 0)) << 1;
    mbarrier::arrive_count(bar, 2);
    *out.add(1) = u32::from(mbarrier::test(bar, 0));
    mbarrier::arrive(bar);
    *out.add(2) = u32::from(mbarrier::test(bar, 0)) | u32::from(mbarrier::test(bar, 1)) << 1;
    // The second phase also waits for bytes, which nobody sends here.
    mbarrier::expect_bytes(bar, 16);
    mbarrier::arrive_count(bar, 3);
    *out.add(3) = u32::from(mbarrier::test(bar, 1));
    mbarrier::invalidate(bar);
    mbarrier::init(bar, 1);
    mbarrier::arrive(bar);
    *out.add(4) = u32::from(mbarrier::try_wait(bar, 0));
    mbarrier::wait(bar, 0);
    *out.add(5) = 1;
}
