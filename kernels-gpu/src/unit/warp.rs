//! Shuffles, votes and reductions.

use cuda_std::{kernel, thread, warp};

/// Row r of `out`, 32 lanes wide, holds one function of the lanes' values; see the test for the list.
///
/// # Safety
/// 32 threads; `x` has 32 numbers, `out` 24 rows.
#[kernel(threads = 32)]
pub unsafe fn unit_warp_lanes(x: u64, out: u64) {
    let lane = thread::lane_id();
    let v = *(x as *const u32).add(lane as usize);
    let mut at = (out as *mut u32).add(lane as usize);
    let mut put = |value: u32| {
        *at = value;
        at = at.add(32);
    };
    put(warp::shuffle(v, lane + 5));
    put(warp::shuffle_xor(v, 9));
    put(warp::shuffle_up(v, 3));
    put(warp::shuffle_down(v, 4));
    put(warp::shuffle_xor_f32(v as f32, 1) as u32);
    put(warp::shuffle_up_f64(f64::from(v), 1) as u32);
    put(warp::shuffle_within::<8>(warp::FULL_MASK, v, 2));
    put(warp::uniform(v));
    put(warp::ballot(v % 3 == 0));
    put(u32::from(warp::all(v > 0)) | u32::from(warp::any(v % 7 == 3)) << 1);
    put(warp::active_mask());
    put(warp::match_any(v % 4));
    put(warp::sum_u32(v));
    put(warp::sum_i32(-(v as i32)) as u32);
    put(warp::max_u32(v));
    put(warp::min_u32(v));
    put(warp::max_i32(-(v as i32)) as u32);
    put(warp::min_i32(-(v as i32)) as u32);
    put(warp::and_u32(v | 0xff00));
    put(warp::or_u32(v));
    put(warp::xor_u32(v));
    put(warp::sum_f32(v as f32) as u32);
    put(warp::max_f64(f64::from(v)) as u32 + warp::min_f32(v as f32) as u32);
    put(warp::prefix_sum_u32(v));
}

/// Lanes of the mask 0x0000ffff exchange among themselves while the others do something else.
///
/// # Safety
/// 32 threads; `out` has 32 numbers.
#[kernel(threads = 32)]
pub unsafe fn unit_warp_masked(out: u64) {
    let lane = thread::lane_id();
    let at = (out as *mut u32).add(lane as usize);
    if lane < 16 {
        *at = warp::shuffle_within::<4>(0xffff, 100 + lane, 3) + warp::ballot_of(0xffff, lane % 2 == 0);
    } else {
        *at = lane;
    }
    warp::sync_warp();
}

/// Exactly one lane is elected.
///
/// # Safety
/// 32 threads; `out` has 32 numbers.
#[kernel(threads = 32, arch = "sm_90a")]
pub unsafe fn unit_warp_elect(out: u64) {
    *(out as *mut u32).add(thread::lane_id() as usize) = u32::from(warp::elect());
}
