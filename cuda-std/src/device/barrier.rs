//! Barriers of a block and fences: `bar`, `fence`.

use core::arch::asm;

/// All threads of the block: `bar.sync 0`. Memory written before is seen by the block after.
#[inline(always)]
pub fn sync_threads() {
    // SAFETY: a barrier; the compiler may not move memory accesses across, since the block is not `nomem`.
    unsafe { asm!("bar.sync 0;", options(nostack)) };
}

/// [`sync_threads`]; gives how many threads' `predicate` held: `bar.red.popc`.
#[inline(always)]
pub fn sync_threads_count(predicate: bool) -> u32 {
    let count: u32;
    // SAFETY: as above.
    unsafe {
        asm!("{{ .reg .pred p; setp.ne.u32 p, {1}, 0; bar.red.popc.u32 {0}, 0, p; }}", out(reg32) count,
             in(reg32) u32::from(predicate), options(nostack));
    };
    count
}

/// [`sync_threads`]; whether every thread's `predicate` held: `bar.red.and`.
#[inline(always)]
pub fn sync_threads_and(predicate: bool) -> bool {
    let result: u32;
    // SAFETY: as above.
    unsafe {
        asm!("{{ .reg .pred p, q; setp.ne.u32 p, {1}, 0; bar.red.and.pred q, 0, p; selp.u32 {0}, 1, 0, q; }}",
             out(reg32) result, in(reg32) u32::from(predicate), options(nostack));
    };
    result != 0
}

/// [`sync_threads`]; whether some thread's `predicate` held: `bar.red.or`.
#[inline(always)]
pub fn sync_threads_or(predicate: bool) -> bool {
    let result: u32;
    // SAFETY: as above.
    unsafe {
        asm!("{{ .reg .pred p, q; setp.ne.u32 p, {1}, 0; bar.red.or.pred q, 0, p; selp.u32 {0}, 1, 0, q; }}",
             out(reg32) result, in(reg32) u32::from(predicate), options(nostack));
    };
    result != 0
}

/// `count` threads (a multiple of 32) meet at barrier `id` (1 to 15; 0 is [`sync_threads`]'s): `bar.sync id, count`.
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

macro_rules! fences {
    ($($(#[$meta:meta])* $name:ident = $instruction:literal;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name() {
            // SAFETY: a fence; not `nomem`, so the compiler keeps memory accesses on their side too.
            unsafe { asm!(concat!($instruction, ";"), options(nostack)) };
        }
    )* };
}

fences! {
    /// Orders this thread's memory accesses for the block: `fence.acq_rel.cta`.
    fence_block = "fence.acq_rel.cta";
    /// Orders this thread's memory accesses for the cluster: `fence.acq_rel.cluster`. `sm_90`.
    fence_cluster = "fence.acq_rel.cluster";
    /// Orders this thread's memory accesses for the device: `fence.acq_rel.gpu`.
    fence_device = "fence.acq_rel.gpu";
    /// Orders this thread's memory accesses for all devices and the host: `fence.acq_rel.sys`.
    fence_system = "fence.acq_rel.sys";
    /// Makes ordinary writes to shared memory visible to TMA and wgmma: `fence.proxy.async.shared::cta`. `sm_90`.
    fence_proxy_async_shared = "fence.proxy.async.shared::cta";
    /// Makes ordinary writes to global memory visible to TMA: `fence.proxy.async.global`. `sm_90`.
    fence_proxy_async_global = "fence.proxy.async.global";
    /// Both, and other blocks' shared memory: `fence.proxy.async`. `sm_90`.
    fence_proxy_async = "fence.proxy.async";
}

/// Makes a tensor map that was written in global memory usable by this thread's TMA instructions:
/// `fence.proxy.tensormap::generic.acquire.gpu`. `sm_90`, PTX 8.3.
///
/// # Safety
/// `map` is the address of 128 bytes that are a tensor map.
#[inline(always)]
pub unsafe fn fence_tensor_map(map: u64) {
    // SAFETY: the caller's promise.
    unsafe { asm!("fence.proxy.tensormap::generic.acquire.gpu [{0}], 128;", in(reg64) map, options(nostack)) };
}
