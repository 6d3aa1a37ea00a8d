//! Static and dynamic shared memory.

use cuda_std::{kernel, shared, shared_array, thread};

/// Reverses 256 numbers through one static array and adds what another one holds.
///
/// # Safety
/// 256 threads; `x` and `out` have 256 numbers.
#[kernel(threads = 256)]
pub unsafe fn unit_shared_static(x: u64, out: u64) {
    let reversed = shared_array![u32; 256];
    let squares = shared_array![u32; 256];
    let t = thread::thread_idx_x() as usize;
    *reversed.add(255 - t) = *(x as *const u32).add(t);
    *squares.add(t) = (t * t) as u32;
    thread::sync_threads();
    *(out as *mut u32).add(t) = *reversed.add(t) + *squares.add(t);
}

/// Rotates `n` numbers through dynamic memory, written by pointer and read by address; then size and alignment.
///
/// # Safety
/// One block of `n` threads with at least `4 n` bytes of dynamic shared memory; `out` has n + 2 numbers.
#[kernel]
pub unsafe fn unit_shared_dynamic(x: u64, out: u64, n: u32) {
    let t = thread::thread_idx_x();
    let slots = shared::dynamic::<u32>();
    *slots.add(t as usize) = *(x as *const u32).add(t as usize);
    thread::sync_threads();
    let next = if t + 1 == n { 0 } else { t + 1 };
    let at = (out as *mut u32).add(t as usize);
    *at = shared::load_u32(shared::dynamic_address() + 4 * next);
    if t == 0 {
        *at.add(n as usize) = shared::dynamic_bytes();
        *at.add(n as usize + 1) = shared::dynamic_address() % 1024 + shared::address(slots) - shared::dynamic_address();
    }
}

/// Each width of store, read back by another one, one thread.
///
/// # Safety
/// One thread; `out` has 16 numbers.
#[kernel(threads = 1)]
pub unsafe fn unit_shared_widths(out: u64) {
    let base = shared::address(shared_array![u32; 16]);
    let out = out as *mut u32;
    shared::store_x4(base, [1, 2, 3, 4]);
    shared::store_x2(base + 16, [5, 6]);
    shared::store_u64(base + 24, 8 << 32 | 7);
    shared::store_u16(base + 32, 9);
    shared::store_u16(base + 34, 10);
    shared::store_f32(base + 36, 11.0);
    shared::store_f64(base + 40, 12.0);
    let [a, b] = shared::load_x2(base);
    let [c, d] = shared::load_x2(base + 8);
    let [e, f, g, h] = shared::load_x4(base + 16);
    for (i, v) in [a, b, c, d, e, f, g, h].into_iter().enumerate() {
        *out.add(i) = v;
    }
    *out.add(8) = shared::load_u32(base + 32);
    *out.add(9) = shared::load_f32(base + 36) as u32;
    *out.add(10) = shared::load_f64(base + 40) as u32;
    *out.add(11) = u32::from(shared::load_u16(base + 34));
    *out.add(12) = shared::load_u64(base + 8) as u32;
    *out.add(13) = (shared::load_u64(base + 8) >> 32) as u32;
    // The same memory by a generic pointer.
    *out.add(14) = *shared::generic::<u32>(base + 4);
    *out.add(15) = u32::from(shared::address(shared::generic::<u32>(base + 4)) == base + 4);
}
