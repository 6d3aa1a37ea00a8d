//! Atomic operations on global memory, relaxed, device scope.

use core::arch::asm;

macro_rules! atomic {
    ($($(#[$meta:meta])* $name:ident($t:ty, $class:ident) = $instruction:literal;)*) => { $(
        $(#[$meta])*
        /// Gives the prior value.
        ///
        /// # Safety
        /// `at` points to a writable, aligned value in global memory.
        #[inline(always)]
        pub unsafe fn $name(at: *mut $t, value: $t) -> $t {
            let prior: $t;
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!($instruction, " {0}, [{1}], {2};"), out($class) prior, in(reg64) at, in($class) value,
                     options(nostack));
            };
            prior
        }
    )* };
}

atomic! {
    /// Adds: `atom.global.add.u32`.
    add_u32(u32, reg32) = "atom.relaxed.gpu.global.add.u32";
    /// Adds: `atom.global.add.u64`.
    add_u64(u64, reg64) = "atom.relaxed.gpu.global.add.u64";
    /// Adds: `atom.global.add.f32`.
    add_f32(f32, reg32) = "atom.relaxed.gpu.global.add.f32";
    /// Adds: `atom.global.add.f64`.
    add_f64(f64, reg64) = "atom.relaxed.gpu.global.add.f64";
    /// Larger of both: `atom.global.max.u32`.
    max_u32(u32, reg32) = "atom.relaxed.gpu.global.max.u32";
    /// Smaller of both: `atom.global.min.u32`.
    min_u32(u32, reg32) = "atom.relaxed.gpu.global.min.u32";
    /// Exchanges: `atom.global.exch.b32`.
    exchange_u32(u32, reg32) = "atom.relaxed.gpu.global.exch.b32";
}

/// Stores `new` where `expected` is: `atom.global.cas.b32`. Gives the prior value.
///
/// # Safety
/// `at` points to a writable, aligned value in global memory.
#[inline(always)]
pub unsafe fn compare_exchange_u32(at: *mut u32, expected: u32, new: u32) -> u32 {
    let prior: u32;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("atom.relaxed.gpu.global.cas.b32 {0}, [{1}], {2}, {3};", out(reg32) prior, in(reg64) at,
             in(reg32) expected, in(reg32) new, options(nostack));
    };
    prior
}

/// Adds two neighbouring floats without an answer: `red.global.add.v2.f32`. `sm_90`.
///
/// # Safety
/// `at` points to two writable floats in global memory and is a multiple of 8.
#[inline(always)]
pub unsafe fn reduce_add_f32x2(at: *mut f32, a: f32, b: f32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("red.relaxed.gpu.global.add.v2.f32 [{0}], {{{1}, {2}}};", in(reg64) at, in(reg32) a, in(reg32) b,
             options(nostack));
    };
}

/// Loads, acquiring: `ld.acquire.gpu.global.u32`.
///
/// # Safety
/// `at` points to a readable, aligned value in global memory.
#[inline(always)]
pub unsafe fn load_acquire_u32(at: *const u32) -> u32 {
    let value: u32;
    // SAFETY: the caller's promise.
    unsafe { asm!("ld.acquire.gpu.global.u32 {0}, [{1}];", out(reg32) value, in(reg64) at, options(nostack)) };
    value
}

/// Adds, releasing, without an answer: `red.release.gpu.global.add.u32`.
///
/// # Safety
/// `at` points to a writable, aligned value in global memory.
#[inline(always)]
pub unsafe fn reduce_add_release_u32(at: *mut u32, value: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("red.release.gpu.global.add.u32 [{0}], {1};", in(reg64) at, in(reg32) value, options(nostack));
    };
}
