//! Arithmetic instructions: fused multiply-add, minimum and maximum, roots, packed 16-bit arithmetic, and the fast
//! approximations of the special-function unit.
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

macro_rules! binary {
    ($($(#[$meta:meta])* $name:ident($t:ty, $class:ident) = $instruction:literal;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name(a: $t, b: $t) -> $t {
            let y: $t;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(concat!($instruction, " {0}, {1}, {2};"), out($class) y, in($class) a, in($class) b,
                     options(pure, nomem, nostack));
            };
            y
        }
    )* };
}

macro_rules! ternary {
    ($($(#[$meta:meta])* $name:ident($t:ty, $class:ident) = $instruction:literal;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name(a: $t, b: $t, c: $t) -> $t {
            let y: $t;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(concat!($instruction, " {0}, {1}, {2}, {3};"), out($class) y, in($class) a, in($class) b,
                     in($class) c, options(pure, nomem, nostack));
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
    /// √x, relative error 2⁻²³: `sqrt.approx.ftz.f32`.
    sqrt_approx(f32, reg32) = "sqrt.approx.ftz.f32";
    /// tanh x, relative error 2⁻¹¹: `tanh.approx.f32`.
    tanh_approx(f32, reg32) = "tanh.approx.f32";
    /// sin x, absolute error 2⁻²⁰ between -π and π, worse beyond: `sin.approx.ftz.f32`.
    sin_approx(f32, reg32) = "sin.approx.ftz.f32";
    /// cos x, absolute error 2⁻²⁰ between -π and π, worse beyond: `cos.approx.ftz.f32`.
    cos_approx(f32, reg32) = "cos.approx.ftz.f32";
    /// √x, correctly rounded: `sqrt.rn.f32`.
    sqrt_f32(f32, reg32) = "sqrt.rn.f32";
    /// √x, correctly rounded: `sqrt.rn.f64`.
    sqrt_f64(f64, reg64) = "sqrt.rn.f64";
    /// Largest integer not above x: `cvt.rmi.f32.f32`.
    floor_f32(f32, reg32) = "cvt.rmi.f32.f32";
    /// Smallest integer not below x: `cvt.rpi.f32.f32`.
    ceil_f32(f32, reg32) = "cvt.rpi.f32.f32";
    /// Nearest integer, ties to even: `cvt.rni.f32.f32`.
    round_f32(f32, reg32) = "cvt.rni.f32.f32";
    /// Largest integer not above x: `cvt.rmi.f64.f64`.
    floor_f64(f64, reg64) = "cvt.rmi.f64.f64";
    /// Smallest integer not below x: `cvt.rpi.f64.f64`.
    ceil_f64(f64, reg64) = "cvt.rpi.f64.f64";
    /// Nearest integer, ties to even: `cvt.rni.f64.f64`.
    round_f64(f64, reg64) = "cvt.rni.f64.f64";
}

/// eˣ, relative error about 2⁻²² and |x| 2⁻²⁴: one multiplication and `ex2.approx.ftz.f32`.
#[inline(always)]
pub fn exp_approx(x: f32) -> f32 {
    exp2_approx(x * core::f32::consts::LOG2_E)
}

/// ln x, absolute error about 2⁻²²: `lg2.approx.ftz.f32` and one multiplication.
#[inline(always)]
pub fn ln_approx(x: f32) -> f32 {
    log2_approx(x) * core::f32::consts::LN_2
}

/// 1 / (1 + e⁻ˣ), absolute error about 2⁻¹²: `tanh.approx.f32` and one multiply-add.
#[inline(always)]
pub fn sigmoid_approx(x: f32) -> f32 {
    fma_f32(0.5, tanh_approx(0.5 * x), 0.5)
}

binary! {
    /// a / b to 2 units, for |b| up to 2¹²⁶: `div.approx.ftz.f32`.
    divide_approx(f32, reg32) = "div.approx.ftz.f32";
    /// a / b to 2 units, for any b: `div.full.f32`.
    divide_full(f32, reg32) = "div.full.f32";
    /// Larger of both; the other one if one is NaN: `max.f32`.
    max_f32(f32, reg32) = "max.f32";
    /// Smaller of both; the other one if one is NaN: `min.f32`.
    min_f32(f32, reg32) = "min.f32";
    /// Larger of both; NaN if one is: `max.NaN.f32`.
    max_nan_f32(f32, reg32) = "max.NaN.f32";
    /// Smaller of both; NaN if one is: `min.NaN.f32`.
    min_nan_f32(f32, reg32) = "min.NaN.f32";
    /// Larger of both; the other one if one is NaN: `max.f64`.
    max_f64(f64, reg64) = "max.f64";
    /// Smaller of both; the other one if one is NaN: `min.f64`.
    min_f64(f64, reg64) = "min.f64";
    /// Larger of each pair of f16; the other one if one is NaN: `max.f16x2`.
    max_f16x2(u32, reg32) = "max.f16x2";
    /// Larger of each pair of bf16; the other one if one is NaN: `max.bf16x2`.
    max_bf16x2(u32, reg32) = "max.bf16x2";
    /// Larger of each pair of f16; NaN if one is: `max.NaN.f16x2`.
    max_nan_f16x2(u32, reg32) = "max.NaN.f16x2";
    /// Larger of each pair of bf16; NaN if one is: `max.NaN.bf16x2`.
    max_nan_bf16x2(u32, reg32) = "max.NaN.bf16x2";
    /// Smaller of each pair of f16; NaN if one is: `min.NaN.f16x2`.
    min_nan_f16x2(u32, reg32) = "min.NaN.f16x2";
    /// Smaller of each pair of bf16; NaN if one is: `min.NaN.bf16x2`.
    min_nan_bf16x2(u32, reg32) = "min.NaN.bf16x2";
    /// Sums of two pairs of f16: `add.rn.f16x2`.
    add_f16x2(u32, reg32) = "add.rn.f16x2";
    /// Products of two pairs of f16: `mul.rn.f16x2`.
    mul_f16x2(u32, reg32) = "mul.rn.f16x2";
    /// Sums of two pairs of bf16: `add.rn.bf16x2`. `sm_90`.
    add_bf16x2(u32, reg32) = "add.rn.bf16x2";
    /// Products of two pairs of bf16: `mul.rn.bf16x2`. `sm_90`.
    mul_bf16x2(u32, reg32) = "mul.rn.bf16x2";
    /// All bits where two numbers are equal, else none: `set.eq.u32.f32`.
    equal_mask_f32(u32, reg32) = "set.eq.u32.f32";
    /// The same for each pair of f16: `set.eq.u32.f16x2`.
    equal_mask_f16x2(u32, reg32) = "set.eq.u32.f16x2";
    /// The same for each pair of bf16: `set.eq.u32.bf16x2`. `sm_90`.
    equal_mask_bf16x2(u32, reg32) = "set.eq.u32.bf16x2";
    /// All bits where a number is less than another one, else none: `set.lt.u32.f32`.
    less_mask_f32(u32, reg32) = "set.lt.u32.f32";
    /// The same for each pair of f16: `set.lt.u32.f16x2`.
    less_mask_f16x2(u32, reg32) = "set.lt.u32.f16x2";
    /// The same for each pair of bf16: `set.lt.u32.bf16x2`. `sm_90`.
    less_mask_bf16x2(u32, reg32) = "set.lt.u32.bf16x2";
    /// High half of the product: `mul.hi.u32`.
    mul_high_u32(u32, reg32) = "mul.hi.u32";
}

/// Larger of both; NaN if one is.
#[inline(always)]
#[allow(clippy::eq_op)]
pub fn max_nan_f64(a: f64, b: f64) -> f64 {
    if a > b || a != a { a } else { b }
}

/// Smaller of both; NaN if one is.
#[inline(always)]
#[allow(clippy::eq_op)]
pub fn min_nan_f64(a: f64, b: f64) -> f64 {
    if a < b || a != a { a } else { b }
}

ternary! {
    /// a · b + c, rounded once: `fma.rn.f32`.
    fma_f32(f32, reg32) = "fma.rn.f32";
    /// a · b + c, rounded once: `fma.rn.f64`.
    fma_f64(f64, reg64) = "fma.rn.f64";
    /// a · b + c for two pairs of f16: `fma.rn.f16x2`.
    fma_f16x2(u32, reg32) = "fma.rn.f16x2";
    /// a · b + c for two pairs of bf16: `fma.rn.bf16x2`.
    fma_bf16x2(u32, reg32) = "fma.rn.bf16x2";
    /// max(a · b + c, 0) for two pairs of f16: `fma.rn.relu.f16x2`.
    fma_relu_f16x2(u32, reg32) = "fma.rn.relu.f16x2";
    /// max(a · b + c, 0) for two pairs of bf16: `fma.rn.relu.bf16x2`.
    fma_relu_bf16x2(u32, reg32) = "fma.rn.relu.bf16x2";
    /// The bytes of (b, a) that c's four nibbles pick, b above a: `prmt.b32`.
    permute_bytes(u32, reg32) = "prmt.b32";
}

/// Any function of three words' bits in one instruction, by its table: what it gives for a = 0xf0, b = 0xcc, c = 0xaa:
/// `lop3.b32`. Parts of it are no values that a compiler would keep.
#[inline(always)]
pub fn bits_of_three<const TABLE: u32>(a: u32, b: u32, c: u32) -> u32 {
    let y: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("lop3.b32 {0}, {1}, {2}, {3}, {4};", out(reg32) y, in(reg32) a, in(reg32) b, in(reg32) c, const TABLE,
             options(pure, nomem, nostack));
    };
    y
}

/// c + the four products of signed bytes of a and b: `dp4a.s32.s32`.
#[inline(always)]
pub fn dot_i8x4(a: u32, b: u32, c: i32) -> i32 {
    let y: i32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("dp4a.s32.s32 {0}, {1}, {2}, {3};", out(reg32) y, in(reg32) a, in(reg32) b, in(reg32) c,
             options(pure, nomem, nostack));
    };
    y
}

/// Sums to which a value is added where the halves of a and b are equal as f16: `setp.eq.f16x2`, `@p add.f32`.
#[inline(always)]
pub fn add_where_equal_f16x2(a: u32, b: u32, values: [f32; 2], sums: [f32; 2]) -> [f32; 2] {
    let [mut low, mut high] = sums;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("{{ .reg .pred p, q; setp.eq.f16x2 p|q, {a}, {b}; @p add.f32 {low}, {low}, {x}; @q add.f32 {high}, {high}, {y}; }}",
             a = in(reg32) a, b = in(reg32) b, x = in(reg32) values[0], y = in(reg32) values[1],
             low = inout(reg32) low, high = inout(reg32) high, options(pure, nomem, nostack));
    };
    [low, high]
}
