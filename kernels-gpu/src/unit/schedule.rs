//! Registers among warpgroups, order among kernels.

use cuda_std::{barrier, kernel, schedule, shared, shared_array, thread};

/// Values a consumer keeps at once: more than the 168 registers of an entry with 384 threads leave.
const KEPT: usize = 176;

/// Warpgroup 0 gives registers up and hands a key over; the others take them, keep 176 values across the hand-over and
/// write one sum a thread.
///
/// # Safety
/// 384 threads; `x` has 176 · 256 numbers, `out` 256.
#[kernel(threads = 384, min_blocks = 1, arch = "sm_90a")]
pub unsafe fn unit_schedule_registers(x: u64, out: u64) {
    let slot = shared::address(shared_array![u32; 4]);
    if thread::warpgroup_idx() == 0 {
        schedule::release_registers::<40>();
        if thread::thread_idx_x() == 0 {
            shared::store_u32(slot, 0x55);
        }
        barrier::sync_named(1, 384);
    } else {
        schedule::acquire_registers::<232>();
        let t = thread::thread_idx_x() as usize - 128;
        let x = (x as *const u32).add(t);
        let mut kept: [u32; KEPT] = core::mem::zeroed();
        for (i, value) in kept.iter_mut().enumerate() {
            *value = x.add(256 * i).read_volatile();
        }
        barrier::sync_named(1, 384);
        let key = shared::load_u32(slot);
        let mut sum = 0;
        for (i, value) in kept.into_iter().enumerate() {
            sum += (value ^ key) * (i as u32 + 1);
        }
        *(out as *mut u32).add(t) = sum;
    }
}

/// Lets the next kernel start, then writes late.
///
/// # Safety
/// `out` has a number.
#[kernel(threads = 32, arch = "sm_90a")]
pub unsafe fn unit_schedule_first(out: u64) {
    schedule::launch_dependents();
    thread::nanosleep(100_000);
    if thread::thread_idx_x() == 0 {
        (out as *mut u32).write_volatile(41);
    }
}

/// Launched behind [`unit_schedule_first`] with the programmatic attribute: waits for it and adds 1.
///
/// # Safety
/// `out` has a number.
#[kernel(threads = 32, arch = "sm_90a")]
pub unsafe fn unit_schedule_second(out: u64) {
    schedule::wait_for_predecessors();
    if thread::thread_idx_x() == 0 {
        let out = out as *mut u32;
        out.write_volatile(out.read_volatile() + 1);
    }
}
