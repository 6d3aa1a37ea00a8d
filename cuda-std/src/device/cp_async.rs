//! Asynchronous copies from global to shared memory by threads: `cp.async`.

use core::arch::asm;

/// Copies 16 bytes past the first-level cache: `cp.async.cg.shared.global`; the last `16 - valid_bytes` become zero.
///
/// # Safety
/// `to` is a shared-window address of 16 bytes, `from` one of `valid_bytes` (at most 16) of global memory, both
/// multiples of 16. The bytes are there after [`wait_group`].
#[inline(always)]
pub unsafe fn copy_x4(to: u32, from: *const u8, valid_bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.cg.shared.global [{0}], [{1}], 16, {2};", in(reg32) to, in(reg64) from, in(reg32) valid_bytes,
             options(nostack));
    };
}

/// Copies 4 bytes: `cp.async.ca.shared.global`; zero when `valid_bytes` is 0.
///
/// # Safety
/// As [`copy_x4`], for 4 bytes.
#[inline(always)]
pub unsafe fn copy_x1(to: u32, from: *const u8, valid_bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.ca.shared.global [{0}], [{1}], 4, {2};", in(reg32) to, in(reg64) from, in(reg32) valid_bytes,
             options(nostack));
    };
}

/// Closes a group of copies: `cp.async.commit_group`.
#[inline(always)]
pub fn commit_group() {
    // SAFETY: groups copies.
    unsafe { asm!("cp.async.commit_group;", options(nostack)) };
}

/// Waits until at most `N` groups of this thread are under way: `cp.async.wait_group`.
#[inline(always)]
pub fn wait_group<const N: u32>() {
    // SAFETY: waits.
    unsafe { asm!("cp.async.wait_group {0};", const N, options(nostack)) };
}
