//! Sine, cosine, tangent and the inverse tangent, in `f64`; those of `f32` go through it and are rounded once.
//!
//! Arguments are reduced to π/4 with a remainder of two numbers: by a π/2 in three parts up to 2²⁰, beyond by the bits of
//! 2/π that matter (Payne and Hanek, "Radian Reduction for Trigonometric Functions", 1983). Polynomials are fdlibm's.

use super::exact::{product, sum};

/// The first bits of 2/π.
const TWO_OVER_PI: [u64; 20] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// Behind 2/π's binary point come as many bits of nothing as the table has before it, so that every window begins in it.
const LEADING_ZEROS: i64 = 64;

/// π/2 as two numbers.
const HALF_PI: [f64; 2] = [core::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17];

/// Word `i` of the table behind its leading zeros; 0 behind its end.
#[inline(always)]
fn word(i: usize) -> u64 {
    if i == 0 { 0 } else { TWO_OVER_PI.get(i - 1).copied().unwrap_or(0) }
}

/// The upper and the lower half of a product. The device's code generator has no word for numbers of 128 bits.
#[inline(always)]
fn wide_product(a: u64, b: u64) -> (u64, u64) {
    const HALF: u64 = 0xffff_ffff;
    let (a1, a0, b1, b0) = (a >> 32, a & HALF, b >> 32, b & HALF);
    let (cross, other) = (a1 * b0, a0 * b1);
    let middle = ((a0 * b0) >> 32) + (cross & HALF) + (other & HALF);
    (a1 * b1 + (cross >> 32) + (other >> 32) + (middle >> 32), a.wrapping_mul(b))
}

/// The quarter turn that is nearest to x, from 0 to 3, and what x has beyond it as two numbers. x is finite.
#[inline(always)]
fn reduce(x: f64) -> (u32, [f64; 2]) {
    if x.abs() < 1_048_576.0 {
        // 33 bits each, so that products with n are exact, and the rest.
        const PARTS: [f64; 3] = [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_6e-21];
        const MAGIC: f64 = 6_755_399_441_055_744.0;
        let n = (x * core::f64::consts::FRAC_2_PI + MAGIC) - MAGIC;
        let rest = x - n * PARTS[0];
        let second = n * PARTS[1];
        let high = rest - second;
        let low = ((rest - high) - second) - n * PARTS[2];
        return ((n as i64 & 3) as u32, sum(high, low));
    }
    let bits = x.to_bits();
    let mantissa = bits & ((1 << 52) - 1) | 1 << 52;
    // x is mantissa · 2^exponent; bits of 2/π whose product with it is a multiple of 4 do not matter.
    let exponent = (bits >> 52 & 0x7ff) as i64 - 1075;
    let skipped = (exponent - 2 + LEADING_ZEROS) as u64;
    let (first, shift) = ((skipped / 64) as usize, (skipped % 64) as u32);
    let window = |i: usize| {
        let (high, low) = (word(first + i), word(first + i + 1));
        if shift == 0 { high } else { high << shift | low >> (64 - shift) }
    };
    let (carried, low) = wide_product(mantissa, window(2));
    let (above, middle) = wide_product(mantissa, window(1));
    let (middle, carry) = middle.overflowing_add(carried);
    let high = mantissa.wrapping_mul(window(0)).wrapping_add(above).wrapping_add(u64::from(carry));
    // Quarter turns, and 128 bits of the fraction behind them, which is counted from the nearest one.
    let (turns, up) = ((high >> 62) as u32, (high >> 61 & 1) as u32);
    let (mut high, mut low) = (high << 2 | middle >> 62, middle << 2 | low >> 62);
    if up == 1 {
        low = low.wrapping_neg();
        high = (!high).wrapping_add(u64::from(low == 0));
    }
    if high == 0 {
        if low == 0 {
            return (turns, [0.0; 2]);
        }
        return scaled((turns, up), low, 0, 64, x < 0.0);
    }
    scaled((turns, up), high, low, 0, x < 0.0)
}

/// What [`reduce`] gives for a fraction whose first bits are these, behind so many zeros.
#[inline(always)]
fn scaled((turns, up): (u32, u32), high: u64, low: u64, zeros: u32, x_is_negative: bool) -> (u32, [f64; 2]) {
    let more = high.leading_zeros();
    let (high, low) = if more == 0 { (high, low) } else { (high << more | low >> (64 - more), low << more) };
    let power = |n: i64| f64::from_bits(((n + 1023) as u64) << 52);
    let unit = power(-i64::from(zeros + more) - 53);
    let (top, rest) = ((high >> 11) as f64 * unit, ((high & 0x7ff) << 42 | low >> 22) as f64 * unit * power(-53));
    let [r, error] = product(top, HALF_PI[0]);
    let [r, low] = sum(r, error + (top * HALF_PI[1] + rest * HALF_PI[0]));
    let negative = (up == 1) != x_is_negative;
    let turns = if x_is_negative { 4 - (turns + up) } else { turns + up };
    (turns & 3, if negative { [-r, -low] } else { [r, low] })
}

/// Sine of r + low, |r| up to π/4.
#[inline(always)]
fn sin_near_0(r: f64, low: f64) -> f64 {
    let z = r * r;
    let tail = 8.333_333_333_322_49e-3
        + z * (-1.984_126_982_985_795e-4
            + z * (2.755_731_370_707_006_8e-6 + z * (-2.505_076_025_340_686_3e-8 + z * 1.589_690_995_211_55e-10)));
    let cube = z * r;
    r - ((z * (0.5 * low - cube * tail) - low) - cube * -1.666_666_666_666_663_2e-1)
}

/// Cosine of r + low, |r| up to π/4.
#[inline(always)]
fn cos_near_0(r: f64, low: f64) -> f64 {
    let z = r * r;
    let tail = z
        * (4.166_666_666_666_66e-2
            + z * (-1.388_888_888_887_411e-3
                + z * (2.480_158_728_947_673e-5
                    + z * (-2.755_731_435_139_066_3e-7
                        + z * (2.087_572_321_298_175e-9 + z * -1.135_964_755_778_819_5e-11)))));
    let half = 0.5 * z;
    let w = 1.0 - half;
    w + (((1.0 - w) - half) + (z * tail - r * low))
}

/// Sine; NaN for infinities.
#[inline]
pub fn sin_f64(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return if x == 0.0 { x } else { f64::NAN };
    }
    turned(reduce(x), 0)
}

/// Cosine; NaN for infinities.
#[inline]
pub fn cos_f64(x: f64) -> f64 {
    if !x.is_finite() {
        return f64::NAN;
    }
    turned(reduce(x), 1)
}

/// The sine of some quarter turns and an angle.
#[inline(always)]
fn turned((turns, [r, low]): (u32, [f64; 2]), more: u32) -> f64 {
    let turns = (turns + more) & 3;
    let value = if turns & 1 == 0 { sin_near_0(r, low) } else { cos_near_0(r, low) };
    if turns & 2 == 0 { value } else { -value }
}

/// Tangent; NaN for infinities.
#[inline]
pub fn tan_f64(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return if x == 0.0 { x } else { f64::NAN };
    }
    let (turns, [r, low]) = reduce(x);
    let (sine, cosine) = (sin_near_0(r, low), cos_near_0(r, low));
    if turns & 1 == 0 { sine / cosine } else { -cosine / sine }
}

/// Inverse tangent of x ≥ 0.
#[inline(always)]
fn atan_positive(x: f64) -> f64 {
    // tan of the nearest of four angles is taken off; the angles as two numbers.
    let (t, [high, low]) = if x < 0.4375 {
        (x, [0.0, 0.0])
    } else if x < 0.6875 {
        ((2.0 * x - 1.0) / (2.0 + x), [4.636_476_090_008_061e-1, 2.269_877_745_296_168_7e-17])
    } else if x < 1.1875 {
        ((x - 1.0) / (x + 1.0), [core::f64::consts::FRAC_PI_4, 3.061_616_997_868_383e-17])
    } else if x < 2.4375 {
        ((x - 1.5) / (1.0 + 1.5 * x), [9.827_937_232_473_29e-1, 1.390_331_103_123_099_8e-17])
    } else {
        (-1.0 / x, HALF_PI)
    };
    let z = t * t;
    let w = z * z;
    let odd = z
        * (3.333_333_333_333_293e-1
            + w * (1.428_571_427_250_346_6e-1
                + w * (9.090_887_133_436_507e-2
                    + w * (6.661_073_137_387_531e-2
                        + w * (4.976_877_994_615_932e-2 + w * 1.628_582_011_536_578_2e-2)))));
    let even = w
        * (-1.999_999_999_987_648_3e-1
            + w * (-1.111_111_040_546_235_6e-1
                + w * (-7.691_876_205_044_83e-2
                    + w * (-5.833_570_133_790_573_5e-2 + w * -3.653_157_274_421_691_5e-2))));
    high - ((t * (odd + even) - low) - t)
}

/// The angle of the point (x, y), from -π to π; signs of zeros count.
#[inline]
pub fn atan2_f64(y: f64, x: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    let (a, b) = (y.abs(), x.abs());
    let angle = if a == b {
        // Both zero or both infinite, too.
        if a == 0.0 { 0.0 } else { core::f64::consts::FRAC_PI_4 }
    } else {
        atan_positive(a / b)
    };
    let left = x.to_bits() >> 63 == 1;
    let angle = if left { core::f64::consts::PI - (angle - 2.0 * HALF_PI[1]) } else { angle };
    if y.to_bits() >> 63 == 1 { -angle } else { angle }
}

macro_rules! rounded {
    ($($(#[$meta:meta])* $name:ident($($x:ident),+) = $of:ident;)*) => { $(
        $(#[$meta])*
        #[inline]
        pub fn $name($($x: f32),+) -> f32 {
            $of($($x as f64),+) as f32
        }
    )* };
}

rounded! {
    /// Sine; NaN for infinities.
    sin_f32(x) = sin_f64;
    /// Cosine; NaN for infinities.
    cos_f32(x) = cos_f64;
    /// Tangent; NaN for infinities.
    tan_f32(x) = tan_f64;
    /// The angle of the point (x, y), from -π to π; signs of zeros count.
    atan2_f32(y, x) = atan2_f64;
}
