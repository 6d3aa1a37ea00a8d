//! Global memory: 16-byte accesses and cache hints.

use core::arch::asm;

macro_rules! load_x4 {
    ($($(#[$meta:meta])* $name:ident = $instruction:literal, $($option:ident),*;)*) => { $(
        $(#[$meta])*
        ///
        /// # Safety
        /// `from` points to 16 readable bytes of global memory and is a multiple of 16.
        #[inline(always)]
        pub unsafe fn $name(from: *const u32) -> [u32; 4] {
            let (a, b, c, d): (u32, u32, u32, u32);
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!($instruction, " {{{0}, {1}, {2}, {3}}}, [{4}];"), out(reg32) a, out(reg32) b,
                     out(reg32) c, out(reg32) d, in(reg64) from, options($($option),*));
            };
            [a, b, c, d]
        }
    )* };
}

load_x4! {
    /// Loads 16 bytes: `ld.global.v4.b32`.
    load_x4 = "ld.global.v4.b32", readonly, nostack;
    /// Loads 16 bytes that nobody writes during the kernel and that are read once:
    /// `ld.global.nc.L1::no_allocate.L2::256B.v4.b32`.
    load_x4_streaming = "ld.global.nc.L1::no_allocate.L2::256B.v4.b32", pure, readonly, nostack;
}

macro_rules! store_x4 {
    ($($(#[$meta:meta])* $name:ident = $instruction:literal;)*) => { $(
        $(#[$meta])*
        ///
        /// # Safety
        /// `to` points to 16 writable bytes of global memory and is a multiple of 16.
        #[inline(always)]
        pub unsafe fn $name(to: *mut u32, v: [u32; 4]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!($instruction, " [{0}], {{{1}, {2}, {3}, {4}}};"), in(reg64) to, in(reg32) v[0],
                     in(reg32) v[1], in(reg32) v[2], in(reg32) v[3], options(nostack));
            };
        }
    )* };
}

store_x4! {
    /// Stores 16 bytes: `st.global.v4.b32`.
    store_x4 = "st.global.v4.b32";
    /// Stores 16 bytes that are not read again soon: `st.global.cs.v4.b32`.
    store_x4_streaming = "st.global.cs.v4.b32";
}
