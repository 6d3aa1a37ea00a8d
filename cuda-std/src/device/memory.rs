//! Global memory: wide accesses and cache hints.
//!
//! A plain load through a pointer to [`X4`] or [`X2`] is one access too; the functions here add hints.
//!
//! Streaming loads go with streaming stores: beside plain ones, whose lines stay in the second-level cache while those that
//! were read leave it first, kernels that read and write as much took 2 to 7 % longer than without any hint (ARCHITECTURE.md,
//! "activation and pointwise"). Streaming leaves the first-level cache to what is read again. Sums, which write next to nothing,
//! take 2 to 8 % less with plain loads where elements have 16 bits; of f32, and of a few columns, as long.

use core::arch::asm;

/// Four 32-bit values that move as one 16-byte access.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(16))]
pub struct X4<T>(pub [T; 4]);

/// Two 32-bit values that move as one 8-byte access.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(8))]
pub struct X2<T>(pub [T; 2]);

macro_rules! load {
    ($($(#[$meta:meta])* $x1:ident, $x2:ident, $x4:ident = $instruction:literal, $($option:ident),*;)*) => { $(
        $(#[$meta])*
        ///
        /// # Safety
        /// `from` points to 4 readable bytes of global memory and is a multiple of 4.
        #[inline(always)]
        pub unsafe fn $x1(from: *const u32) -> u32 {
            let a: u32;
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!($instruction, ".b32 {0}, [{1}];"), out(reg32) a, in(reg64) from, options($($option),*));
            };
            a
        }

        $(#[$meta])*
        ///
        /// # Safety
        /// `from` points to 8 readable bytes of global memory and is a multiple of 8.
        #[inline(always)]
        pub unsafe fn $x2(from: *const u32) -> [u32; 2] {
            let (a, b): (u32, u32);
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!($instruction, ".v2.b32 {{{0}, {1}}}, [{2}];"), out(reg32) a, out(reg32) b,
                     in(reg64) from, options($($option),*));
            };
            [a, b]
        }

        $(#[$meta])*
        ///
        /// # Safety
        /// `from` points to 16 readable bytes of global memory and is a multiple of 16.
        #[inline(always)]
        pub unsafe fn $x4(from: *const u32) -> [u32; 4] {
            let (a, b, c, d): (u32, u32, u32, u32);
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!($instruction, ".v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}];"), out(reg32) a, out(reg32) b,
                     out(reg32) c, out(reg32) d, in(reg64) from, options($($option),*));
            };
            [a, b, c, d]
        }
    )* };
}

load! {
    /// Loads: `ld.global`.
    load_x1, load_x2, load_x4 = "ld.global", readonly, nostack;
    /// Loads what nobody writes during the kernel: `ld.global.nc`.
    load_x1_readonly, load_x2_readonly, load_x4_readonly = "ld.global.nc", pure, readonly, nostack;
    /// Loads what nobody writes during the kernel and what is read once: `ld.global.nc.L1::no_allocate.L2::256B`.
    load_x1_streaming, load_x2_streaming, load_x4_streaming =
        "ld.global.nc.L1::no_allocate.L2::256B", pure, readonly, nostack;
}

macro_rules! store {
    ($($(#[$meta:meta])* $x1:ident, $x2:ident, $x4:ident = $instruction:literal;)*) => { $(
        $(#[$meta])*
        ///
        /// # Safety
        /// `to` points to 4 writable bytes of global memory and is a multiple of 4.
        #[inline(always)]
        pub unsafe fn $x1(to: *mut u32, v: u32) {
            // SAFETY: the caller's promise.
            unsafe { asm!(concat!($instruction, ".b32 [{0}], {1};"), in(reg64) to, in(reg32) v, options(nostack)) };
        }

        $(#[$meta])*
        ///
        /// # Safety
        /// `to` points to 8 writable bytes of global memory and is a multiple of 8.
        #[inline(always)]
        pub unsafe fn $x2(to: *mut u32, v: [u32; 2]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!($instruction, ".v2.b32 [{0}], {{{1}, {2}}};"), in(reg64) to, in(reg32) v[0],
                     in(reg32) v[1], options(nostack));
            };
        }

        $(#[$meta])*
        ///
        /// # Safety
        /// `to` points to 16 writable bytes of global memory and is a multiple of 16.
        #[inline(always)]
        pub unsafe fn $x4(to: *mut u32, v: [u32; 4]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!($instruction, ".v4.b32 [{0}], {{{1}, {2}, {3}, {4}}};"), in(reg64) to, in(reg32) v[0],
                     in(reg32) v[1], in(reg32) v[2], in(reg32) v[3], options(nostack));
            };
        }
    )* };
}

store! {
    /// Stores: `st.global`.
    store_x1, store_x2, store_x4 = "st.global";
    /// Stores what is not read again soon: `st.global.cs`.
    store_x1_streaming, store_x2_streaming, store_x4_streaming = "st.global.cs";
}

/// Loads 16 bytes with a cache policy, such as [`EVICT_LAST`](super::tma::EVICT_LAST), for the second-level cache:
/// `ld.global.L2::cache_hint`.
///
/// # Safety
/// As [`load_x4`].
#[inline(always)]
pub unsafe fn load_x4_cached(from: *const u32, policy: u64) -> [u32; 4] {
    let (a, b, c, d);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ld.global.L2::cache_hint.v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}], {5};", out(reg32) a, out(reg32) b,
             out(reg32) c, out(reg32) d, in(reg64) from, in(reg64) policy, options(readonly, nostack));
    };
    [a, b, c, d]
}

/// Stores 16 bytes with a cache policy, such as [`EVICT_FIRST`](super::tma::EVICT_FIRST), for the second-level cache:
/// `st.global.L2::cache_hint`.
///
/// # Safety
/// `to` points to 16 writable bytes of global memory and is a multiple of 16.
#[inline(always)]
pub unsafe fn store_x4_cached(to: *mut u32, v: [u32; 4], policy: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.global.L2::cache_hint.v4.b32 [{0}], {{{1}, {2}, {3}, {4}}}, {5};", in(reg64) to, in(reg32) v[0],
             in(reg32) v[1], in(reg32) v[2], in(reg32) v[3], in(reg64) policy, options(nostack));
    };
}

/// Brings the line of an address to the second-level cache: `prefetch.global.L2`.
///
/// # Safety
/// `at` lies in global memory.
#[inline(always)]
pub unsafe fn prefetch_l2(at: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { asm!("prefetch.global.L2 [{0}];", in(reg64) at, options(nostack)) };
}
