//! 8×8 matrices of 16-bit elements between shared memory and a warp's registers: `ldmatrix`, `stmatrix`.
//!
//! Lane l's register i holds of matrix i the pair (row l/4, columns 2 (l%4) and the next); transposed, the pair
//! (rows 2 (l%4) and the next, column l/4). Lane l gives the address of row l%8 of matrix l/8; lanes beyond the last
//! matrix give any address of that kind.

use core::arch::asm;

macro_rules! load {
    ($($(#[$meta:meta])* $x1:ident, $x2:ident, $x4:ident = $trans:literal;)*) => { $(
        $(#[$meta])*
        /// One matrix.
        ///
        /// # Safety
        /// `row` is a shared-window address of 16 readable bytes, a multiple of 16; all lanes take part.
        #[inline(always)]
        pub unsafe fn $x1(row: u32) -> u32 {
            let a: u32;
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("ldmatrix.sync.aligned.m8n8.x1", $trans, ".shared.b16 {{{0}}}, [{1}];"), out(reg32) a,
                     in(reg32) row, options(nostack));
            };
            a
        }

        $(#[$meta])*
        /// Two matrices.
        ///
        /// # Safety
        /// `row` is a shared-window address of 16 readable bytes, a multiple of 16; all lanes take part.
        #[inline(always)]
        pub unsafe fn $x2(row: u32) -> [u32; 2] {
            let (a, b): (u32, u32);
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("ldmatrix.sync.aligned.m8n8.x2", $trans, ".shared.b16 {{{0}, {1}}}, [{2}];"),
                     out(reg32) a, out(reg32) b, in(reg32) row, options(nostack));
            };
            [a, b]
        }

        $(#[$meta])*
        /// Four matrices.
        ///
        /// # Safety
        /// `row` is a shared-window address of 16 readable bytes, a multiple of 16; all lanes take part.
        #[inline(always)]
        pub unsafe fn $x4(row: u32) -> [u32; 4] {
            let (a, b, c, d): (u32, u32, u32, u32);
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("ldmatrix.sync.aligned.m8n8.x4", $trans, ".shared.b16 {{{0}, {1}, {2}, {3}}}, [{4}];"),
                     out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) row, options(nostack));
            };
            [a, b, c, d]
        }
    )* };
}

load! {
    /// Loads: `ldmatrix.sync.aligned.m8n8.shared.b16`.
    load_x1, load_x2, load_x4 = "";
    /// Loads transposed: `ldmatrix.sync.aligned.m8n8.trans.shared.b16`.
    load_x1_transposed, load_x2_transposed, load_x4_transposed = ".trans";
}

macro_rules! store {
    ($($(#[$meta:meta])* $x1:ident, $x2:ident, $x4:ident = $trans:literal;)*) => { $(
        $(#[$meta])*
        /// One matrix.
        ///
        /// # Safety
        /// `row` is a shared-window address of 16 writable bytes, a multiple of 16; all lanes take part.
        #[inline(always)]
        pub unsafe fn $x1(row: u32, v: u32) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("stmatrix.sync.aligned.m8n8.x1", $trans, ".shared.b16 [{0}], {{{1}}};"), in(reg32) row,
                     in(reg32) v, options(nostack));
            };
        }

        $(#[$meta])*
        /// Two matrices.
        ///
        /// # Safety
        /// `row` is a shared-window address of 16 writable bytes, a multiple of 16; all lanes take part.
        #[inline(always)]
        pub unsafe fn $x2(row: u32, v: [u32; 2]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("stmatrix.sync.aligned.m8n8.x2", $trans, ".shared.b16 [{0}], {{{1}, {2}}};"),
                     in(reg32) row, in(reg32) v[0], in(reg32) v[1], options(nostack));
            };
        }

        $(#[$meta])*
        /// Four matrices.
        ///
        /// # Safety
        /// `row` is a shared-window address of 16 writable bytes, a multiple of 16; all lanes take part.
        #[inline(always)]
        pub unsafe fn $x4(row: u32, v: [u32; 4]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("stmatrix.sync.aligned.m8n8.x4", $trans, ".shared.b16 [{0}], {{{1}, {2}, {3}, {4}}};"),
                     in(reg32) row, in(reg32) v[0], in(reg32) v[1], in(reg32) v[2], in(reg32) v[3],
                     options(nostack));
            };
        }
    )* };
}

store! {
    /// Stores: `stmatrix.sync.aligned.m8n8.shared.b16`. `sm_90`.
    store_x1, store_x2, store_x4 = "";
    /// Stores transposed: `stmatrix.sync.aligned.m8n8.trans.shared.b16`. `sm_90`.
    store_x1_transposed, store_x2_transposed, store_x4_transposed = ".trans";
}
