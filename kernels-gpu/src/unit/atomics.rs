//! Atomic operations.

use cuda_std::atomics::{self, block, shared as in_shared, system};
use cuda_std::{kernel, shared, shared_array, thread};

/// All threads combine `i + 1`, i their index, into the words of `out`.
///
/// # Safety
/// `out` has 24 words of 8 bytes: zero, but the minima all ones, and the conjunction all ones.
#[kernel]
pub unsafe fn unit_atomics_global(out: u64) {
    let v = thread::index_1d() as u32 + 1;
    let word = |i: u64| out + 8 * i;
    atomics::add_u32(word(0) as *mut u32, v);
    atomics::add_i32(word(1) as *mut i32, -(v as i32));
    atomics::add_u64(word(2) as *mut u64, u64::from(v) << 32);
    atomics::add_f32(word(3) as *mut f32, v as f32);
    atomics::add_f64(word(4) as *mut f64, f64::from(v));
    atomics::min_u32(word(5) as *mut u32, v);
    atomics::max_u32(word(6) as *mut u32, v);
    atomics::min_i32(word(7) as *mut i32, -(v as i32));
    atomics::max_i32(word(8) as *mut i32, v as i32);
    atomics::min_u64(word(9) as *mut u64, u64::from(v) << 33);
    atomics::max_u64(word(10) as *mut u64, u64::from(v) << 33);
    atomics::min_i64(word(11) as *mut i64, -(i64::from(v) << 33));
    atomics::max_i64(word(12) as *mut i64, i64::from(v) << 33);
    atomics::and_u32(word(13) as *mut u32, !(v & 8));
    atomics::or_u32(word(14) as *mut u32, v);
    atomics::xor_u32(word(15) as *mut u32, v);
    // What is exchanged in must come out again: the sum of the answers and the last value is that of all.
    let prior = atomics::exchange_u32(word(16) as *mut u32, v);
    atomics::add_u32(word(17) as *mut u32, prior);
    let prior = atomics::exchange_u64(word(18) as *mut u64, u64::from(v));
    atomics::add_u64(word(19) as *mut u64, prior);
    increment(word(20) as *mut u32);
    increment_wide(word(21) as *mut u64);
    system::add_u32(word(22) as *mut u32, v);
    atomics::reduce_add_f32(word(23) as *mut f32, v as f32);
}

unsafe fn increment(at: *mut u32) {
    let mut seen = atomics::load_acquire_u32(at);
    loop {
        let prior = atomics::compare_exchange_u32(at, seen, seen + 1);
        if prior == seen {
            return;
        }
        seen = prior;
    }
}

unsafe fn increment_wide(at: *mut u64) {
    let mut seen = 0;
    loop {
        let prior = atomics::compare_exchange_u64(at, seen, seen + (1 << 32));
        if prior == seen {
            return;
        }
        seen = prior;
    }
}

/// Each block counts in shared memory and, with block scope, in its own word of global memory.
///
/// # Safety
/// 128 threads a block; `out` has 2 numbers a block, zero.
#[kernel(threads = 128)]
pub unsafe fn unit_atomics_block(out: u64) {
    let counter = shared::address(shared_array![u32; 4]);
    let t = thread::thread_idx_x();
    if t == 0 {
        shared::store_u32(counter, 0);
    }
    thread::sync_threads();
    in_shared::add_u32(counter, t);
    let at = (out as *mut u32).add(2 * thread::block_idx_x() as usize);
    block::max_u32(at.add(1), t + thread::block_idx_x());
    thread::sync_threads();
    if t == 0 {
        *at = shared::load_u32(counter);
    }
}

/// Every block leaves a partial sum; the last one to arrive, known by its ticket, adds them up.
///
/// # Safety
/// 32 threads a block; `partial` has a number a block, `ticket` is zero, `out` one number.
#[kernel(threads = 32)]
pub unsafe fn unit_atomics_last_block(partial: u64, ticket: u64, out: u64) {
    if thread::thread_idx_x() != 0 {
        return;
    }
    let (partial, block) = (partial as *mut u32, thread::block_idx_x());
    *partial.add(block as usize) = block * block;
    let blocks = thread::grid_dim_x();
    if atomics::add_acquire_release_u32(ticket as *mut u32, 1) == blocks - 1 {
        let mut sum = 0;
        for i in 0..blocks {
            sum += partial.add(i as usize).read_volatile();
        }
        *(out as *mut u32) = sum;
    }
}

/// Block 0 releases a value, block 1 acquires it.
///
/// # Safety
/// Two blocks that run at the same time; `words` has 3 numbers, zero.
#[kernel(threads = 32)]
pub unsafe fn unit_atomics_release_acquire(words: u64) {
    let words = words as *mut u32;
    if thread::thread_idx_x() != 0 {
        return;
    }
    if thread::block_idx_x() == 0 {
        thread::nanosleep(10_000);
        words.write_volatile(4711);
        atomics::store_release_u32(words.add(1), 1);
    } else {
        while atomics::load_acquire_u32(words.add(1)) == 0 {}
        words.add(2).write_volatile(words.read_volatile() + 1);
    }
}

/// All threads add 1, 2, 3, ... to neighbouring elements with the vector forms.
///
/// # Safety
/// `f32s` has 8 floats, `bf16s` 16 bf16, `f16s` 2 f16, all zero.
#[kernel(arch = "sm_90a")]
pub unsafe fn unit_atomics_vectors(f32s: u64, bf16s: u64, f16s: u64) {
    let f32s = f32s as *mut f32;
    atomics::reduce_add_f32x2(f32s, 1.0, 2.0);
    atomics::reduce_add_f32x4(f32s.add(4), [3.0, 4.0, 5.0, 6.0]);
    // bf16 1.0 is 0x3f80, 2.0 is 0x4000.
    atomics::reduce_add_bf16x2(bf16s as *mut u32, 0x4000_3f80);
    atomics::reduce_add_bf16x8((bf16s as *mut u16).add(8), [0x4000_3f80, 0x3f80_4000, 0x4000_4000, 0x3f80_3f80]);
    // f16 1.0 is 0x3c00, 2.0 is 0x4000.
    atomics::reduce_add_f16x2(f16s as *mut u32, 0x4000_3c00);
}
