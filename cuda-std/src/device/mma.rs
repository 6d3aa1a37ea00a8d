//! Tensor-core products of a warp from registers: `mma.sync`.
//!
//! With l the lane, g = l/4 and t = l%4, D's registers hold rows g and g+8, columns 2t and 2t+1:
//! d0 = (g, 2t), d1 = (g, 2t+1), d2 = (g+8, 2t), d3 = (g+8, 2t+1). A of 16-bit elements: a0 = (g, 2t..), a1 = (g+8,
//! 2t..), a2 = (g, 2t+8..), a3 = (g+8, 2t+8..). B: b0 = (2t.., g), b1 = (2t+8.., g). For tf32, steps of 4 and single
//! elements: a0 = (g, t), a1 = (g+8, t), a2 = (g, t+4), a3 = (g+8, t+4), b0 = (t, g), b1 = (t+4, g). For 8-bit, four
//! neighbours a register: a0 = (g, 4t..), a2 = (g, 4t+16..), b0 = (4t.., g), b1 = (4t+16.., g).

use core::arch::asm;

macro_rules! mma {
    ($($(#[$meta:meta])* $name:ident($t:ty) = $shape:literal;)*) => { $(
        $(#[$meta])*
        /// All lanes take part.
        #[inline(always)]
        pub fn $name(d: &mut [$t; 4], a: [u32; 4], b: [u32; 2]) {
            // SAFETY: arithmetic on the registers of the warp.
            unsafe {
                asm!(concat!("mma.sync.aligned.", $shape, " {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}}, {{{0}, {1}, {2}, {3}}};"),
                     inout(reg32) d[0], inout(reg32) d[1], inout(reg32) d[2], inout(reg32) d[3], in(reg32) a[0],
                     in(reg32) a[1], in(reg32) a[2], in(reg32) a[3], in(reg32) b[0], in(reg32) b[1],
                     options(nomem, nostack));
            };
        }
    )* };
}

mma! {
    /// D += A B for bf16, 16×8×16: `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32`.
    m16n8k16_bf16(f32) = "m16n8k16.row.col.f32.bf16.bf16.f32";
    /// D += A B for f16, 16×8×16: `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32`.
    m16n8k16_f16(f32) = "m16n8k16.row.col.f32.f16.f16.f32";
    /// D += A B for tf32, 16×8×8: `mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32`.
    m16n8k8_tf32(f32) = "m16n8k8.row.col.f32.tf32.tf32.f32";
    /// D += A B for i8, 16×8×32: `mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32`.
    m16n8k32_s8(i32) = "m16n8k32.row.col.s32.s8.s8.s32";
    /// D += A B for u8, 16×8×32: `mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32`.
    m16n8k32_u8(i32) = "m16n8k32.row.col.s32.u8.u8.s32";
    /// D += A B for e4m3, 16×8×32: `mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32`. `sm_90`, PTX 8.4.
    m16n8k32_e4m3(f32) = "m16n8k32.row.col.f32.e4m3.e4m3.f32";
    /// D += A B for e5m2, 16×8×32: `mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32`. `sm_90`, PTX 8.4.
    m16n8k32_e5m2(f32) = "m16n8k32.row.col.f32.e5m2.e5m2.f32";
}

macro_rules! half_mma {
    ($($(#[$meta:meta])* $name:ident = $shape:literal;)*) => { $(
        $(#[$meta])*
        /// All lanes take part.
        #[inline(always)]
        pub fn $name(d: &mut [f32; 4], a: [u32; 2], b: u32) {
            // SAFETY: arithmetic on the registers of the warp.
            unsafe {
                asm!(concat!("mma.sync.aligned.", $shape, " {{{0}, {1}, {2}, {3}}}, {{{4}, {5}}}, {{{6}}}, {{{0}, {1}, {2}, {3}}};"),
                     inout(reg32) d[0], inout(reg32) d[1], inout(reg32) d[2], inout(reg32) d[3], in(reg32) a[0],
                     in(reg32) a[1], in(reg32) b, options(nomem, nostack));
            };
        }
    )* };
}

half_mma! {
    /// D += A B for bf16, 16×8×8: `mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32`.
    m16n8k8_bf16 = "m16n8k8.row.col.f32.bf16.bf16.f32";
    /// D += A B for f16, 16×8×8: `mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32`.
    m16n8k8_f16 = "m16n8k8.row.col.f32.f16.f16.f32";
}

/// D += A B for f64, 8×8×4: `mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64`.
///
/// With g = l/4 and t = l%4: d0 = (g, 2t), d1 = (g, 2t+1), a = (g, t), b = (t, g). All lanes take part.
#[inline(always)]
pub fn m8n8k4_f64(d: &mut [f64; 2], a: f64, b: f64) {
    // SAFETY: arithmetic on the registers of the warp.
    unsafe {
        asm!("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{{0}, {1}}}, {{{2}}}, {{{3}}}, {{{0}, {1}}};",
             inout(reg64) d[0], inout(reg64) d[1], in(reg64) a, in(reg64) b, options(nomem, nostack));
    };
}
