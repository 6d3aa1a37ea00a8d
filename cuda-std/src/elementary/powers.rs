//! Powers and remainders.

use super::exact::{product, sum};
use super::{exp_f64, ln_tail_f64, split_f64};
use core::num::NonZeroU64;

/// ln x as two numbers, for x > 0 and finite.
#[inline(always)]
fn ln_pair(x: f64) -> [f64; 2] {
    // ln 2 as 33 bits, whose product with an exponent is exact, and the rest.
    const LN2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];
    let (e, f) = split_f64(x);
    // s = f / (2 + f), and ln(1 + f) = 2 s + 2/3 s³ + s · tail, whose last term is below 2⁻¹⁰ of the first.
    let [d, d_low] = sum(2.0, f);
    let s = f / d;
    let [back, back_low] = product(s, d);
    let s_low = ((f - back) - back_low - s * d_low) / d;
    let [z, z_low] = product(s, s);
    let z_low = z_low + 2.0 * s * s_low;
    // The polynomial begins with 2/3, which is taken out as two numbers.
    const TWO_THIRDS: [f64; 2] = [0.666_666_666_666_666_6, 3.700_743_415_417_188e-17];
    let rest = z * (ln_tail_f64(z) - TWO_THIRDS[0]) - z * TWO_THIRDS[1];
    let [c, c_low] = product(z, TWO_THIRDS[0]);
    let c_low = c_low + z_low * TWO_THIRDS[0] + z * TWO_THIRDS[1];
    // s (2 + c + rest), with s z the cube.
    let [q, q_low] = sum(c, rest);
    let [p, p_low] = product(s, q);
    let p_low = p_low + s * (q_low + c_low) + s_low * q;
    let [h, h_low] = sum(2.0 * s, p);
    let [high, low] = sum(e * LN2[0], h);
    sum(high, low + (h_low + p_low + 2.0 * s_low + e * LN2[1]))
}

/// xʸ; NaN for x < 0 unless y is an integer, 1 for y = 0 and for x = 1.
#[inline]
pub fn pow_f64(x: f64, y: f64) -> f64 {
    if y == 0.0 || x == 1.0 {
        return 1.0;
    }
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    // Beyond 2⁵³ every f64 is an even integer.
    let small = y.abs() < 9_007_199_254_740_992.0;
    let is_integer = !small || (y as i64) as f64 == y;
    let is_odd = small && is_integer && (y as i64) & 1 == 1;
    if x < 0.0 && !is_integer && x != f64::NEG_INFINITY {
        return f64::NAN;
    }
    let a = x.abs();
    let power = if a == 1.0 {
        1.0
    } else if a == 0.0 || a == f64::INFINITY {
        if (a == 0.0) == (y > 0.0) { 0.0 } else { f64::INFINITY }
    } else if y.abs() == f64::INFINITY {
        if (a < 1.0) == (y > 0.0) { 0.0 } else { f64::INFINITY }
    } else {
        let [high, low] = ln_pair(a);
        let [p, p_low] = product(y, high);
        if p.abs() > 800.0 || !p.is_finite() {
            // Beyond what exponentials give, either way; the error of the product would be none there.
            if p > 0.0 { f64::INFINITY } else { 0.0 }
        } else {
            let e = exp_f64(p);
            if e == f64::INFINITY { e } else { e + e * (p_low + y * low) }
        }
    };
    // The sign of a zero counts too.
    if is_odd && x.to_bits() >> 63 == 1 { -power } else { power }
}

/// x - n y for the integer n next to x / y towards zero, exactly; NaN for an infinite x and for y = 0.
#[inline]
pub fn fmod_f64(x: f64, y: f64) -> f64 {
    let (a, b) = (x.abs(), y.abs());
    if !(a < f64::INFINITY) || !(b > 0.0) {
        return f64::NAN;
    }
    if a < b {
        return x;
    }
    // As mantissa and exponent, subnormal numbers with exponent 1.
    let parts = |v: f64| {
        let (exponent, mantissa) = ((v.to_bits() >> 52) as i64, v.to_bits() & ((1 << 52) - 1));
        if exponent == 0 { (1, mantissa) } else { (exponent, mantissa | 1 << 52) }
    };
    let ((mut e, mut m), (last, divisor)) = (parts(a), parts(b));
    // 11 bits at a time, as many as a word has beyond the mantissa's.
    let Some(divisor) = NonZeroU64::new(divisor) else { return f64::NAN };
    m %= divisor;
    while e > last {
        let step = if e - last > 11 { 11 } else { e - last };
        m = (m << step) % divisor;
        e -= step;
    }
    // m 2^(last - 1075): put together again, both factors exact.
    let unit = f64::from_bits(1);
    let shift = last - 1;
    let half = shift >> 1;
    let power = |n: i64| f64::from_bits(((n + 1023) as u64) << 52);
    let value = m as f64 * unit * power(half) * power(shift - half);
    if x < 0.0 { -value } else { value }
}

/// As [`fmod_f64`].
#[inline]
pub fn fmod_f32(x: f32, y: f32) -> f32 {
    fmod_f64(x as f64, y as f64) as f32
}
