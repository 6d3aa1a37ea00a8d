//! Arithmetic instructions: fused multiply-add, roots, and the fast approximations of the special-function unit.
//!
//! Accurate exponentials and logarithms are in [`elementary`](crate::elementary).

use core::arch::asm;

macro_rules! unary {
    ($($(#[$meta:meta])* $name:ident($t:ty, $class:ident) = $instruction:literal;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name(x: $t) -> $t {
            let y: $t;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(concat!($instruction, " {0}, {1};"), out($class) y, in($class) x, options(pure, nomem, nostack));
            };
            y
        }
    )* };
}

unary! {
    /// 2ˣ to 2 units in the last place, subnormals flushed: `ex2.approx.ftz.f32`.
    exp2_approx(f32, reg32) = "ex2.approx.ftz.f32";
    /// log₂ x, absolute error 2⁻²²: `lg2.approx.ftz.f32`.
    log2_approx(f32, reg32) = "lg2.approx.ftz.f32";
    /// 1/x to 1 unit: `rcp.approx.ftz.f32`.
    reciprocal_approx(f32, reg32) = "rcp.approx.ftz.f32";
    /// 1/√x, relative error 2⁻²²: `rsqrt.approx.ftz.f32`.
    rsqrt_approx(f32, reg32) = "rsqrt.approx.ftz.f32";
    /// tanh x, relative error 2⁻¹¹: `tanh.approx.f32`.
    tanh_approx(f32, reg32) = "tanh.approx.f32";
    /// √x, correctly rounded: `sqrt.rn.f32`.
    sqrt_f32(f32, reg32) = "sqrt.rn.f32";
    /// √x, correctly rounded: `sqrt.rn.f64`.
    sqrt_f64(f64, reg64) = "sqrt.rn.f64";
}

/// a · b + c, rounded once: `fma.rn.f32`.
#[inline(always)]
pub fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    let d: f32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("fma.rn.f32 {0}, {1}, {2}, {3};", out(reg32) d, in(reg32) a, in(reg32) b, in(reg32) c,
             options(pure, nomem, nostack));
    };
    d
}

/// a · b + c, rounded once: `fma.rn.f64`.
#[inline(always)]
pub fn fma_f64(a: f64, b: f64, c: f64) -> f64 {
    let d: f64;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("fma.rn.f64 {0}, {1}, {2}, {3};", out(reg64) d, in(reg64) a, in(reg64) b, in(reg64) c,
             options(pure, nomem, nostack));
    };
    d
}
