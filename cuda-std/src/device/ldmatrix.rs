//! 8×8 matrices of 16-bit elements between shared memory and a warp's registers: `ldmatrix`, `stmatrix`.
//!
//! Lane l's register i of a matrix holds the pair (row l/4, columns 2 (l%4) and the next). Lane l gives the address of row l%8
//! of matrix l/8.

use core::arch::asm;

/// Loads four matrices: `ldmatrix.sync.aligned.m8n8.x4.shared.b16`.
///
/// # Safety
/// `row` is a shared-window address of 16 readable bytes, a multiple of 16; all lanes take part.
#[inline(always)]
pub unsafe fn load_x4(row: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{0}, {1}, {2}, {3}}}, [{4}];", out(reg32) a, out(reg32) b,
             out(reg32) c, out(reg32) d, in(reg32) row, options(nostack));
    };
    [a, b, c, d]
}

/// Loads four matrices transposed: `ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16`.
///
/// # Safety
/// As [`load_x4`].
#[inline(always)]
pub unsafe fn load_x4_transposed(row: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{{0}, {1}, {2}, {3}}}, [{4}];", out(reg32) a,
             out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) row, options(nostack));
    };
    [a, b, c, d]
}

/// Stores four matrices: `stmatrix.sync.aligned.m8n8.x4.shared.b16`. `sm_90`.
///
/// # Safety
/// `row` is a shared-window address of 16 writable bytes, a multiple of 16; all lanes take part.
#[inline(always)]
pub unsafe fn store_x4(row: u32, v: [u32; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("stmatrix.sync.aligned.m8n8.x4.shared.b16 [{0}], {{{1}, {2}, {3}, {4}}};", in(reg32) row, in(reg32) v[0],
             in(reg32) v[1], in(reg32) v[2], in(reg32) v[3], options(nostack));
    };
}

/// Stores four matrices transposed: `stmatrix.sync.aligned.m8n8.x4.trans.shared.b16`. `sm_90`.
///
/// # Safety
/// As [`store_x4`].
#[inline(always)]
pub unsafe fn store_x4_transposed(row: u32, v: [u32; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [{0}], {{{1}, {2}, {3}, {4}}};", in(reg32) row,
             in(reg32) v[0], in(reg32) v[1], in(reg32) v[2], in(reg32) v[3], options(nostack));
    };
}
