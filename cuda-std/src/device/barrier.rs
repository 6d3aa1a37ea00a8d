//! Barriers of a block: `bar.sync`, `bar.arrive`, `membar`/`fence`.

use core::arch::asm;

/// All threads of the block: `bar.sync 0`. Memory written before is seen by the block after.
#[inline(always)]
pub fn sync_threads() {
    // SAFETY: a barrier; the compiler may not move memory accesses across, since the block is not `nomem`.
    unsafe { asm!("bar.sync 0;", options(nostack)) };
}

/// `count` threads meet at barrier `id` (1 to 15; 0 is [`sync_threads`]'s): `bar.sync id, count`.
#[inline(always)]
pub fn sync_named(id: u32, count: u32) {
    // SAFETY: as above.
    unsafe { asm!("bar.sync {0}, {1};", in(reg32) id, in(reg32) count, options(nostack)) };
}

/// Arrives at barrier `id` without waiting: `bar.arrive id, count`.
#[inline(always)]
pub fn arrive_named(id: u32, count: u32) {
    // SAFETY: as above.
    unsafe { asm!("bar.arrive {0}, {1};", in(reg32) id, in(reg32) count, options(nostack)) };
}

/// Orders this thread's memory accesses for the block: `fence.acq_rel.cta`.
#[inline(always)]
pub fn fence_block() {
    // SAFETY: a fence.
    unsafe { asm!("fence.acq_rel.cta;", options(nostack)) };
}

/// Orders this thread's memory accesses for the device: `fence.acq_rel.gpu`.
#[inline(always)]
pub fn fence_device() {
    // SAFETY: a fence.
    unsafe { asm!("fence.acq_rel.gpu;", options(nostack)) };
}

/// Makes ordinary writes to shared memory visible to TMA and wgmma: `fence.proxy.async.shared::cta`. `sm_90`.
#[inline(always)]
pub fn fence_proxy_async_shared() {
    // SAFETY: a fence.
    unsafe { asm!("fence.proxy.async.shared::cta;", options(nostack)) };
}

/// Makes ordinary writes to global memory visible to TMA: `fence.proxy.async.global`. `sm_90`.
#[inline(always)]
pub fn fence_proxy_async_global() {
    // SAFETY: a fence.
    unsafe { asm!("fence.proxy.async.global;", options(nostack)) };
}
