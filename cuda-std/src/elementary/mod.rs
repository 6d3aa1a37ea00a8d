//! Elementary functions in plain arithmetic, for host and device alike.
//!
//! `core`'s own have no lowering for nvptx64. Arguments are reduced with constants split in two, so that the high part
//! times a small integer is exact; the rest is polynomials. Errors in units in the last place, measured by the tests
//! against the host's library: below 1 for `exp`, `ln`, `log1p`; below 2 for `expm1`, `tanh`;
//! below 2.5 for `sigmoid`, `erf`, below 8 for `erfc`, `normal_cdf`, `gauss` as far as results are normal numbers, below 1 for `sin`, `cos`, `atan2`, below 2 for `tan`, `pow`. Fused multiply-adds, which the device's code generator forms, make them smaller.
//!
//! NaN gives NaN; each function names its other special values.

// Comparisons are written so that NaN takes the branch it should.
#![allow(clippy::neg_cmp_op_on_partial_ord, clippy::eq_op)]

mod angles;
mod exact;
#[macro_use]
mod polynomials;
mod powers;

use polynomials::*;

pub use angles::{atan2_f32, atan2_f64, cos_f32, cos_f64, sin_f32, sin_f64, tan_f32, tan_f64};
pub use powers::{fmod_f32, fmod_f64, pow_f64};

macro_rules! elementary {
    ($exp:ident, $ln:ident, $expm1:ident, $log1p:ident, $tanh:ident, $sigmoid:ident, $erf:ident, $scale:ident,
     $split:ident, $ln_sum:ident, $exp_tail:ident, $ln_tail:ident, $tanh_tail:ident, $erf_tail:ident, $erfc_log:ident,
     $erfc:ident, $normal_cdf:ident, $gauss:ident, $exp_of_square:ident, $erfc_scaled:ident, $erfc_scaled_tail:ident,
     $t:ident, $bits:ident, $int:ident,
     magic = $magic:literal, ln2_hi = $ln2_hi:literal, ln2_lo = $ln2_lo:literal,
     overflow = $overflow:literal, underflow = $underflow:literal, mantissa = $mantissa:literal, bias = $bias:literal,
     subnormal = $subnormal:literal, one_is_lost = $one_is_lost:literal, erf_is_one = $erf_is_one:literal,
     low_half = $low_half:literal, erfc_slope = $erfc_slope:literal) => {
        /// eˣ; ∞ and 0 beyond the range.
        #[inline]
        pub fn $exp(x: $t) -> $t {
            if x != x {
                return x;
            }
            if x > $overflow {
                return $t::INFINITY;
            }
            if x < $underflow {
                return 0.0;
            }
            // Adding and subtracting the magic number rounds to an integer.
            let n = (x * core::$t::consts::LOG2_E + $magic) - $magic;
            let r = (x - n * $ln2_hi) - n * $ln2_lo;
            $scale(1.0 + (r + r * r * $exp_tail(r)), n as $int)
        }

        /// x 2ⁿ, in two steps, so that neither factor leaves the exponent's range.
        #[inline(always)]
        fn $scale(x: $t, n: $int) -> $t {
            let half = n >> 1;
            let power = |n: $int| $t::from_bits((((n + $bias) as $bits) << $mantissa) as $bits);
            x * power(half) * power(n - half)
        }

        /// x = 2ᵉ (1 + f) with 1 + f from 1/√2 to √2, for x > 0 and finite.
        #[inline(always)]
        fn $split(x: $t) -> ($t, $t) {
            let (x, shift): ($t, $int) = if x < $t::MIN_POSITIVE { (x * $subnormal, $mantissa) } else { (x, 0) };
            let bits = x.to_bits();
            let mut e = (bits >> $mantissa) as $int - $bias - shift;
            let mut m = $t::from_bits(bits & ((1 << $mantissa) - 1) | ($bias as $bits) << $mantissa);
            if m > core::$t::consts::SQRT_2 {
                m *= 0.5;
                e += 1;
            }
            (e as $t, m - 1.0)
        }

        /// e ln 2 + ln(1 + f) + c, for a small correction c.
        #[inline(always)]
        fn $ln_sum(e: $t, f: $t, c: $t) -> $t {
            // ln(1 + f) = 2 artanh s, and 2 s = f - f²/2 + s f²/2.
            let s = f / (2.0 + f);
            let z = s * s;
            let half_square = 0.5 * f * f;
            e * $ln2_hi - ((half_square - (s * (half_square + z * $ln_tail(z)) + (e * $ln2_lo + c))) - f)
        }

        /// Natural logarithm; NaN below 0, -∞ at 0.
        #[inline]
        pub fn $ln(x: $t) -> $t {
            if !(x > 0.0) {
                return if x == 0.0 { $t::NEG_INFINITY } else { $t::NAN };
            }
            if x == $t::INFINITY {
                return x;
            }
            let (e, f) = $split(x);
            $ln_sum(e, f, 0.0)
        }

        /// ln(1 + x), without cancellation near 0; NaN below -1, -∞ at -1.
        #[inline]
        pub fn $log1p(x: $t) -> $t {
            if x > -0.29 && x < 0.41 {
                return if x == 0.0 { x } else { $ln_sum(0.0, x, 0.0) };
            }
            if !(x > -1.0) {
                return if x == -1.0 { $t::NEG_INFINITY } else { $t::NAN };
            }
            let u = 1.0 + x;
            if u == $t::INFINITY {
                return u;
            }
            // What the sum lost, to first order.
            let lost = if x > 1.0 { 1.0 - (u - x) } else { x - (u - 1.0) };
            let (e, f) = $split(u);
            $ln_sum(e, f, lost / u)
        }

        /// eˣ - 1, without cancellation near 0.
        #[inline]
        pub fn $expm1(x: $t) -> $t {
            if x == 0.0 || x != x {
                return x;
            }
            if x > $one_is_lost {
                return $exp(x);
            }
            if x < -$one_is_lost {
                return -1.0;
            }
            let n = (x * core::$t::consts::LOG2_E + $magic) - $magic;
            let (high, low) = (x - n * $ln2_hi, n * $ln2_lo);
            let r = high - low;
            let lost = (high - r) - low;
            let e = r + (r * r * $exp_tail(r) + lost);
            let power = $t::from_bits(((n as $int + $bias) as $bits) << $mantissa);
            power * e + (power - 1.0)
        }

        /// Hyperbolic tangent.
        #[inline]
        pub fn $tanh(x: $t) -> $t {
            let a = x.abs();
            if !(a > 0.6) {
                let z = x * x;
                return x + x * (z * $tanh_tail(z));
            }
            let t = 1.0 - 2.0 / ($exp(a + a) + 1.0);
            if x < 0.0 { -t } else { t }
        }

        /// 1 / (1 + e⁻ˣ).
        #[inline]
        pub fn $sigmoid(x: $t) -> $t {
            // The same e at x and -x, where the exponential does not overflow.
            let e = $exp(-x.abs());
            (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
        }

        /// 2/√π ∫ e^(-t²) dt from 0 to x.
        #[inline]
        pub fn $erf(x: $t) -> $t {
            let a = x.abs();
            if !(a > 1.0) {
                return x + x * $erf_tail(x * x);
            }
            let t = if a > $erf_is_one { 1.0 } else { 1.0 - $exp(-$erfc_log(a)) };
            if x < 0.0 { -t } else { t }
        }

        /// 1 - erf x; relative to itself as exact where it is small.
        #[inline]
        pub fn $erfc(x: $t) -> $t {
            let a = if x.abs() > 40.0 { 40.0 } else { x.abs() };
            let tail = $erfc_scaled(a) * $exp_of_square(a, 1.0);
            if x < 0.0 { 2.0 - tail } else { tail }
        }

        /// The normal distribution function Φ(x) = erfc(-x/√2) / 2. The square is not taken of a rounded x/√2, so that the
        /// tail is as exact relative to itself.
        #[inline]
        pub fn $normal_cdf(x: $t) -> $t {
            let a = if x.abs() > 40.0 { 40.0 } else { x.abs() };
            let tail = 0.5 * $erfc_scaled(core::$t::consts::FRAC_1_SQRT_2 * a) * $exp_of_square(a, 0.5);
            if x < 0.0 { tail } else { 1.0 - tail }
        }

        /// e^(-x²/2).
        #[inline]
        pub fn $gauss(x: $t) -> $t {
            let a = if x.abs() > 40.0 { 40.0 } else { x.abs() };
            $exp_of_square(a, 0.5)
        }

        /// e^(-factor x²) for a factor that is a power of two, 0 ≤ x ≤ 40, beyond which it is 0 in `f64` too: with what rounding takes from the square.
        #[inline(always)]
        fn $exp_of_square(x: $t, factor: $t) -> $t {
            let square = x * x;
            let high = $t::from_bits(x.to_bits() & !$low_half);
            let low = x - high;
            let lost = ((high * high - square) + 2.0 * high * low) + low * low;
            $exp(-factor * square) * (1.0 - factor * lost)
        }

        /// e^(x²) erfc x, 0 ≤ x ≤ 29; beyond 11, f32's is not used, since the power is 0.
        #[inline(always)]
        fn $erfc_scaled(x: $t) -> $t {
            let t = 1.0 / (1.0 + $erfc_slope * x);
            t * $erfc_scaled_tail(t - 0.5)
        }
    };
}

elementary!(
    exp_f32,
    ln_f32,
    expm1_f32,
    log1p_f32,
    tanh_f32,
    sigmoid_f32,
    erf_f32,
    scale_f32,
    split_f32,
    ln_sum_f32,
    exp_tail_f32,
    ln_tail_f32,
    tanh_tail_f32,
    erf_tail_f32,
    minus_ln_erfc_f32,
    erfc_f32,
    normal_cdf_f32,
    gauss_f32,
    exp_of_square_f32,
    erfc_scaled_f32,
    erfc_scaled_tail_f32,
    f32,
    u32,
    i32,
    magic = 12_582_912.0,
    ln2_hi = 0.693_359_4,
    ln2_lo = -2.121_944_4e-4,
    overflow = 88.722_84,
    underflow = -103.972_08,
    mantissa = 23,
    bias = 127,
    subnormal = 8_388_608.0,
    one_is_lost = 18.0,
    erf_is_one = 3.95,
    low_half = 0xfff,
    erfc_slope = 0.5
);

elementary!(
    exp_f64,
    ln_f64,
    expm1_f64,
    log1p_f64,
    tanh_f64,
    sigmoid_f64,
    erf_f64,
    scale_f64,
    split_f64,
    ln_sum_f64,
    exp_tail_f64,
    ln_tail_f64,
    tanh_tail_f64,
    erf_tail_f64,
    minus_ln_erfc_f64,
    erfc_f64,
    normal_cdf_f64,
    gauss_f64,
    exp_of_square_f64,
    erfc_scaled_f64,
    erfc_scaled_tail_f64,
    f64,
    u64,
    i64,
    magic = 6_755_399_441_055_744.0,
    ln2_hi = 0.693_147_180_369_123_8,
    ln2_lo = 1.908_214_929_270_587_7e-10,
    overflow = 709.782_712_893_384,
    underflow = -745.133_219_101_941_2,
    mantissa = 52,
    bias = 1023,
    subnormal = 4_503_599_627_370_496.0,
    one_is_lost = 38.0,
    erf_is_one = 5.95,
    low_half = 0x7ff_ffff,
    erfc_slope = 0.35
);

/// -ln erfc x, 1 ≤ x ≤ 4.
#[inline(always)]
fn minus_ln_erfc_f32(x: f32) -> f32 {
    erfc_log_f32(x - 2.5)
}

/// -ln erfc x, 1 ≤ x ≤ 6.
#[inline(always)]
fn minus_ln_erfc_f64(x: f64) -> f64 {
    if x < 2.0 {
        erfc_log_low_f64(x - 1.5)
    } else if x < 3.5 {
        erfc_log_middle_f64(x - 2.75)
    } else {
        erfc_log_high_f64(x - 4.75)
    }
}

/// e^(a²) erfc a from 1 / (1 + [`ERFC_SLOPE_APPROX`] a) for 0 ≤ a ≤ 11, off by less than 2⁻²¹ of itself.
#[inline(always)]
pub fn erfc_scaled_approx(reciprocal: f32) -> f32 {
    reciprocal * erfc_scaled_tail_approx(reciprocal - 0.5)
}

/// What [`erfc_scaled_approx`] multiplies a with.
pub const ERFC_SLOPE_APPROX: f32 = 0.45;

/// xʸ, through `f64`; NaN for x < 0 unless y is an integer, 1 for y = 0 and for x = 1.
#[inline]
pub fn pow_f32(x: f32, y: f32) -> f32 {
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    // Beyond 2²⁴ every f32 is an even integer.
    let is_integer = y.abs() >= 16_777_216.0 || (y as i32) as f32 == y;
    let is_odd = y.abs() < 16_777_216.0 && is_integer && (y as i32) & 1 == 1;
    if x < 0.0 && !is_integer && x != f32::NEG_INFINITY {
        return f32::NAN;
    }
    if x == -1.0 {
        return if is_odd { -1.0 } else { 1.0 };
    }
    let power = exp_f64(y as f64 * ln_f64(x.abs() as f64)) as f32;
    // The sign of a zero counts too.
    if is_odd && x.to_bits() >> 31 == 1 { -power } else { power }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests;
