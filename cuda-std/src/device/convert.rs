//! 16-bit and 8-bit types as bits: conversions to and from `f32` and `f64`, rounding to nearest even.

use core::arch::asm;

/// f16 bits to `f32`: `cvt.f32.f16`.
#[inline(always)]
pub fn f32_from_f16(bits: u16) -> f32 {
    let y: f32;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("cvt.f32.f16 {0}, {1};", out(reg32) y, in(reg16) bits, options(pure, nomem, nostack)) };
    y
}

/// `f32` to f16 bits: `cvt.rn.f16.f32`.
#[inline(always)]
pub fn f16_from_f32(x: f32) -> u16 {
    let bits: u16;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("cvt.rn.f16.f32 {0}, {1};", out(reg16) bits, in(reg32) x, options(pure, nomem, nostack)) };
    bits
}

/// `f64` to f16 bits, rounded once: `cvt.rn.f16.f64`.
#[inline(always)]
pub fn f16_from_f64(x: f64) -> u16 {
    let bits: u16;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("cvt.rn.f16.f64 {0}, {1};", out(reg16) bits, in(reg64) x, options(pure, nomem, nostack)) };
    bits
}

/// bf16 bits to `f32`: a shift.
#[inline(always)]
pub fn f32_from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// `f32` to bf16 bits: `cvt.rn.bf16.f32`.
#[inline(always)]
pub fn bf16_from_f32(x: f32) -> u16 {
    let bits: u16;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("cvt.rn.bf16.f32 {0}, {1};", out(reg16) bits, in(reg32) x, options(pure, nomem, nostack)) };
    bits
}

/// `f64` to bf16 bits, rounded once: through `f32` rounded to odd, which keeps what decides the second rounding.
#[inline(always)]
pub fn bf16_from_f64(x: f64) -> u16 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    let bits = nearest.to_bits();
    // Round to odd: where the conversion was inexact, take the neighbour towards zero with the last bit set.
    let odd = if back == x || x != x || bits << 1 == 0xff00_0000 {
        bits
    } else if (back.abs() > x.abs()) && bits & 1 == 0 {
        bits - 1
    } else {
        bits | 1
    };
    bf16_from_f32(f32::from_bits(odd))
}

/// Two `f32` to packed f16, `low` in the low half: `cvt.rn.f16x2.f32`.
#[inline(always)]
pub fn f16x2_from_f32(low: f32, high: f32) -> u32 {
    let bits: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("cvt.rn.f16x2.f32 {0}, {1}, {2};", out(reg32) bits, in(reg32) high, in(reg32) low,
             options(pure, nomem, nostack));
    };
    bits
}

/// Two `f32` to packed bf16, `low` in the low half: `cvt.rn.bf16x2.f32`.
#[inline(always)]
pub fn bf16x2_from_f32(low: f32, high: f32) -> u32 {
    let bits: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("cvt.rn.bf16x2.f32 {0}, {1}, {2};", out(reg32) bits, in(reg32) high, in(reg32) low,
             options(pure, nomem, nostack));
    };
    bits
}

/// `f32` rounded to tf32, ties away from zero: `cvt.rna.tf32.f32`.
#[inline(always)]
pub fn tf32_from_f32(x: f32) -> u32 {
    let bits: u32;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("cvt.rna.tf32.f32 {0}, {1};", out(reg32) bits, in(reg32) x, options(pure, nomem, nostack)) };
    bits
}

/// Packed f16 to two `f32`, the low half first: two `cvt.f32.f16`.
#[inline(always)]
pub fn f32_from_f16x2(bits: u32) -> [f32; 2] {
    [f32_from_f16(bits as u16), f32_from_f16((bits >> 16) as u16)]
}

/// Packed bf16 to two `f32`, the low half first: a shift and a mask.
#[inline(always)]
pub fn f32_from_bf16x2(bits: u32) -> [f32; 2] {
    [f32::from_bits(bits << 16), f32::from_bits(bits & 0xffff_0000)]
}

macro_rules! fp8 {
    ($($(#[$meta:meta])* $name:ident = $instruction:literal;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name(low: f32, high: f32) -> u16 {
            let bits: u16;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(concat!($instruction, " {0}, {1}, {2};"), out(reg16) bits, in(reg32) high, in(reg32) low,
                     options(pure, nomem, nostack));
            };
            bits
        }
    )* };
}

fp8! {
    /// Two `f32` to packed e4m3, saturating, `low` in the low byte: `cvt.rn.satfinite.e4m3x2.f32`. `sm_90`.
    e4m3x2_from_f32 = "cvt.rn.satfinite.e4m3x2.f32";
    /// Two `f32` to packed e5m2, saturating, `low` in the low byte: `cvt.rn.satfinite.e5m2x2.f32`. `sm_90`.
    e5m2x2_from_f32 = "cvt.rn.satfinite.e5m2x2.f32";
}

macro_rules! from_fp8 {
    ($($(#[$meta:meta])* $name:ident = $instruction:literal;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name(bits: u16) -> u32 {
            let pair: u32;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(concat!($instruction, " {0}, {1};"), out(reg32) pair, in(reg16) bits,
                     options(pure, nomem, nostack));
            };
            pair
        }
    )* };
}

from_fp8! {
    /// Packed e4m3 to packed f16, exact: `cvt.rn.f16x2.e4m3x2`. `sm_90`.
    f16x2_from_e4m3x2 = "cvt.rn.f16x2.e4m3x2";
    /// Packed e5m2 to packed f16, exact: `cvt.rn.f16x2.e5m2x2`. `sm_90`.
    f16x2_from_e5m2x2 = "cvt.rn.f16x2.e5m2x2";
}

macro_rules! to_integer {
    ($($(#[$meta:meta])* $name:ident = $instruction:literal;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name(x: f32) -> i32 {
            let y: i32;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(concat!($instruction, " {0}, {1};"), out(reg32) y, in(reg32) x, options(pure, nomem, nostack));
            };
            y
        }
    )* };
}

to_integer! {
    /// Nearest integer, ties to even, saturating; 0 for NaN: `cvt.rni.s32.f32`.
    i32_from_f32 = "cvt.rni.s32.f32";
    /// Nearest integer within -128..=127, ties to even: `cvt.rni.sat.s8.f32`.
    i8_from_f32 = "cvt.rni.sat.s8.f32";
    /// Nearest integer within 0..=255, ties to even: `cvt.rni.sat.u8.f32`.
    u8_from_f32 = "cvt.rni.sat.u8.f32";
}

macro_rules! to_integer_f64 {
    ($($(#[$meta:meta])* $name:ident = $instruction:literal;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name(x: f64) -> i32 {
            let y: i32;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(concat!($instruction, " {0}, {1};"), out(reg32) y, in(reg64) x, options(pure, nomem, nostack));
            };
            y
        }
    )* };
}

to_integer_f64! {
    /// Nearest integer, ties to even, saturating; -2³¹ for NaN: `cvt.rni.s32.f64`.
    i32_from_f64 = "cvt.rni.s32.f64";
    /// Nearest integer within -128..=127, ties to even; -128 for NaN: `cvt.rni.sat.s8.f64`.
    i8_from_f64 = "cvt.rni.sat.s8.f64";
    /// Nearest integer within 0..=255, ties to even; 0 for NaN: `cvt.rni.sat.u8.f64`.
    u8_from_f64 = "cvt.rni.sat.u8.f64";
}

/// Nearest integer, ties to even, saturating; -2⁶³ for NaN: `cvt.rni.s64.f64`.
#[inline(always)]
pub fn i64_from_f64(x: f64) -> i64 {
    let y: i64;
    // SAFETY: arithmetic on registers.
    unsafe { asm!("cvt.rni.s64.f64 {0}, {1};", out(reg64) y, in(reg64) x, options(pure, nomem, nostack)) };
    y
}
