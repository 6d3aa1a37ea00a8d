//! Barriers in shared memory that also count bytes: `mbarrier`. `sm_90` unless said otherwise.
//!
//! A phase ends when the pending arrivals and bytes are both zero; phases alternate in parity, starting at 0.

use core::arch::asm;

/// Prepares a barrier for `count` arrivals a phase: `mbarrier.init`. `sm_80`.
///
/// # Safety
/// `bar` is a shared-window address of eight bytes, a multiple of 8, and nobody uses it yet.
#[inline(always)]
pub unsafe fn init(bar: u32, count: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("mbarrier.init.shared::cta.b64 [{0}], {1};", in(reg32) bar, in(reg32) count, options(nostack));
    };
}

/// Makes initialized barriers visible to the cluster and to TMA: `fence.mbarrier_init.release.cluster`.
#[inline(always)]
pub fn fence_init() {
    // SAFETY: a fence.
    unsafe { asm!("fence.mbarrier_init.release.cluster;", options(nostack)) };
}

/// Arrives: `mbarrier.arrive`. `sm_80`.
///
/// # Safety
/// `bar` is an initialized barrier of this block.
#[inline(always)]
pub unsafe fn arrive(bar: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [{0}]; }}", in(reg32) bar, options(nostack));
    };
}

/// Arrives and adds bytes to wait for: `mbarrier.arrive.expect_tx`.
///
/// # Safety
/// As [`arrive`].
#[inline(always)]
pub unsafe fn arrive_expect_bytes(bar: u32, bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [{0}], {1}; }}", in(reg32) bar,
             in(reg32) bytes, options(nostack));
    };
}

/// Arrives `count` times: `mbarrier.arrive` with a count.
///
/// # Safety
/// As [`arrive`].
#[inline(always)]
pub unsafe fn arrive_count(bar: u32, count: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [{0}], {1}; }}", in(reg32) bar, in(reg32) count,
             options(nostack));
    };
}

/// Adds bytes to wait for, without arriving: `mbarrier.expect_tx.relaxed`.
///
/// # Safety
/// As [`arrive`].
#[inline(always)]
pub unsafe fn expect_bytes(bar: u32, bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{0}], {1};", in(reg32) bar, in(reg32) bytes,
             options(nostack));
    };
}

/// Ends the barrier, so that its memory may hold something else: `mbarrier.inval`. `sm_80`.
///
/// # Safety
/// As [`arrive`]; nobody uses the barrier any more.
#[inline(always)]
pub unsafe fn invalidate(bar: u32) {
    // SAFETY: the caller's promise.
    unsafe { asm!("mbarrier.inval.shared::cta.b64 [{0}];", in(reg32) bar, options(nostack)) };
}

/// Arrives at the barrier at the same offset in block `rank` of the cluster: `mapa`, `mbarrier.arrive` remote.
///
/// # Safety
/// `bar` is an initialized barrier in that block, which has not ended.
#[inline(always)]
pub unsafe fn arrive_remote(bar: u32, rank: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .b32 r; mapa.shared::cluster.u32 r, {0}, {1}; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r]; }}",
             in(reg32) bar, in(reg32) rank, options(nostack));
    };
}

/// [`arrive_remote`] for a thread that has only read what the other block may now overwrite: without a scope, the
/// arrival orders nothing beyond this block, and so costs no fence of the whole device.
///
/// # Safety
/// As [`arrive_remote`].
#[inline(always)]
pub unsafe fn arrive_remote_after_reads(bar: u32, rank: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .b32 r; mapa.shared::cluster.u32 r, {0}, {1}; mbarrier.arrive.shared::cluster.b64 _, [r]; }}",
             in(reg32) bar, in(reg32) rank, options(nostack));
    };
}

/// Whether the phase of this parity has ended; may wait a while: `mbarrier.try_wait.parity`.
///
/// # Safety
/// As [`arrive`].
#[inline(always)]
pub unsafe fn try_wait(bar: u32, parity: u32) -> bool {
    let done: u32;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [{1}], {2}; selp.u32 {0}, 1, 0, p; }}",
             out(reg32) done, in(reg32) bar, in(reg32) parity, options(nostack));
    };
    done != 0
}

/// Whether the phase of this parity has ended, without waiting: `mbarrier.test_wait.parity`. `sm_80`.
///
/// # Safety
/// As [`arrive`].
#[inline(always)]
pub unsafe fn test(bar: u32, parity: u32) -> bool {
    let done: u32;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [{1}], {2}; selp.u32 {0}, 1, 0, p; }}",
             out(reg32) done, in(reg32) bar, in(reg32) parity, options(nostack));
    };
    done != 0
}

/// Waits for the end of the phase of this parity.
///
/// # Safety
/// As [`arrive`].
#[inline(always)]
// The labels are scoped by the braces around them, so repeated inlining is fine.
#[allow(named_asm_labels)]
pub unsafe fn wait(bar: u32, parity: u32) {
    // One block of assembly: the compiler sees no loop around which it could move memory accesses.
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [{0}], {1}; \
              @p bra DONE; bra WAIT; DONE: }}",
             in(reg32) bar, in(reg32) parity, options(nostack));
    };
}

/// [`wait`], which also sees what other blocks of the cluster wrote before their remote arrivals:
/// `mbarrier.try_wait.parity.acquire.cluster`.
///
/// # Safety
/// As [`arrive`].
#[inline(always)]
// As in `wait`.
#[allow(named_asm_labels)]
pub unsafe fn wait_cluster(bar: u32, parity: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .pred p; WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [{0}], {1}; \
              @p bra DONE; bra WAIT; DONE: }}",
             in(reg32) bar, in(reg32) parity, options(nostack));
    };
}
