//! Asynchronous copies from global to shared memory by threads: `cp.async`.

use core::arch::asm;

macro_rules! copy {
    ($($(#[$meta:meta])* $name:ident = $instruction:literal, $bytes:literal;)*) => { $(
        $(#[$meta])*
        ///
        /// The last bytes beyond `valid_bytes` become zero; with 0 nothing is read. The bytes are there after
        /// [`wait_group`], for this thread.
        ///
        /// # Safety
        #[doc = concat!("`to` is a shared-window address of ", $bytes, " bytes, `from` one of `valid_bytes` (at most ",
                        $bytes, ") of global memory, both multiples of ", $bytes, ".")]
        #[inline(always)]
        pub unsafe fn $name(to: u32, from: *const u8, valid_bytes: u32) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!($instruction, " [{0}], [{1}], ", $bytes, ", {2};"), in(reg32) to, in(reg64) from,
                     in(reg32) valid_bytes, options(nostack));
            };
        }
    )* };
}

copy! {
    /// Copies 16 bytes past the first-level cache: `cp.async.cg.shared.global`.
    copy_x4 = "cp.async.cg.shared.global", "16";
    /// Copies 16 bytes through the first-level cache: `cp.async.ca.shared.global`.
    copy_x4_cached = "cp.async.ca.shared.global", "16";
    /// Copies 8 bytes: `cp.async.ca.shared.global`.
    copy_x2 = "cp.async.ca.shared.global", "8";
    /// Copies 4 bytes: `cp.async.ca.shared.global`.
    copy_x1 = "cp.async.ca.shared.global", "4";
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

/// Waits for all copies of this thread: `cp.async.wait_all`.
#[inline(always)]
pub fn wait_all() {
    // SAFETY: waits.
    unsafe { asm!("cp.async.wait_all;", options(nostack)) };
}

/// Has a barrier count an arrival when this thread's copies so far are done, among the arrivals it was prepared for:
/// `cp.async.mbarrier.arrive.noinc`.
///
/// # Safety
/// `bar` is an initialized [`mbarrier`](super::mbarrier) of this block.
#[inline(always)]
pub unsafe fn arrive(bar: u32) {
    // SAFETY: the caller's promise.
    unsafe { asm!("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [{0}];", in(reg32) bar, options(nostack)) };
}
