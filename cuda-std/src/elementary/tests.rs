use super::*;

/// Distance in units in the last place of the expected value.
fn ulps_f32(got: f32, expected: f64) -> f64 {
    let ulp = f64::from(ulp_f32(expected as f32));
    (f64::from(got) - expected).abs() / ulp
}

fn ulp_f32(x: f32) -> f32 {
    let x = x.abs().max(f32::MIN_POSITIVE);
    f32::from_bits(x.to_bits() + 1) - x
}

/// The host's library has its own half unit.
fn ulps_f64(got: f64, expected: f64) -> f64 {
    let x = expected.abs().max(f64::MIN_POSITIVE);
    (got - expected).abs() / (f64::from_bits(x.to_bits() + 1) - x)
}

fn sweep(low: f64, high: f64) -> impl Iterator<Item = f64> {
    const POINTS: i32 = 200_000;
    (0..=POINTS).map(move |i| low + (high - low) * f64::from(i) / f64::from(POINTS))
}

/// erf by its series, whose terms are all positive; by its continued fraction above 1.
fn erf_slow(x: f64) -> f64 {
    let a = x.abs();
    let value = if a < 1.0 {
        // 2/√π e^(-x²) Σ 2ⁿ x^(2n+1) / (2n+1)!!
        let (mut term, mut sum, mut n) = (a, a, 0.0);
        while term > sum * 1e-18 {
            n += 1.0;
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
        }
        sum * (-a * a).exp() * core::f64::consts::FRAC_2_SQRT_PI
    } else {
        let mut fraction = a;
        for k in (1..200).rev() {
            fraction = a + 0.5 * f64::from(k) / fraction;
        }
        1.0 - (-a * a).exp() * core::f64::consts::FRAC_2_SQRT_PI / 2.0 / fraction
    };
    value.copysign(x)
}

/// erfc by its continued fraction, from 2 on: every term is positive; e^(-x²) of the square in two parts.
fn erfc_slow(x: f64) -> f64 {
    let mut fraction = x;
    for k in (1..400).rev() {
        fraction = x + 0.5 * f64::from(k) / fraction;
    }
    let square = x * x;
    let lost = x.mul_add(x, -square);
    (-square).exp() * (1.0 - lost) * core::f64::consts::FRAC_2_SQRT_PI / 2.0 / fraction
}

/// Φ of a number up to -1.
fn normal_cdf_slow(x: f64) -> f64 {
    let a = -x;
    let mut fraction = a;
    for k in (1..400).rev() {
        fraction = a + f64::from(k) / fraction;
    }
    gauss_slow(x) / (2.0 * core::f64::consts::PI).sqrt() / fraction
}

fn gauss_slow(x: f64) -> f64 {
    let square = x * x;
    let lost = x.mul_add(x, -square);
    (-0.5 * square).exp() * (1.0 - 0.5 * lost)
}

type Row = (&'static str, fn(f32) -> f32, fn(f64) -> f64, fn(f64) -> f64, f64, f64, f64);

#[test]
fn errors_stay_small() {
    let rows: [Row; 18] = [
        ("exp", exp_f32, exp_f64, f64::exp, -86.0, 88.0, 1.0),
        ("ln", ln_f32, ln_f64, f64::ln, 1e-6, 50.0, 1.0),
        ("ln near 1", ln_f32, ln_f64, f64::ln, 0.9, 1.1, 1.0),
        ("expm1", expm1_f32, expm1_f64, f64::exp_m1, -10.0, 20.0, 2.0),
        ("expm1 near 0", expm1_f32, expm1_f64, f64::exp_m1, -0.5, 0.5, 2.0),
        ("log1p", log1p_f32, log1p_f64, f64::ln_1p, -0.99, 10.0, 1.0),
        ("log1p near 0", log1p_f32, log1p_f64, f64::ln_1p, -0.01, 0.01, 1.0),
        ("tanh", tanh_f32, tanh_f64, f64::tanh, -9.0, 9.0, 2.0),
        ("tanh near 0", tanh_f32, tanh_f64, f64::tanh, -0.7, 0.7, 2.0),
        ("sigmoid", sigmoid_f32, sigmoid_f64, |x| 1.0 / (1.0 + (-x).exp()), -60.0, 60.0, 2.5),
        ("erf", erf_f32, erf_f64, erf_slow, -4.5, 4.5, 2.5),
        ("erf near 0", erf_f32, erf_f64, erf_slow, -0.01, 0.01, 2.0),
        ("erfc", erfc_f32, erfc_f64, |x| 1.0 - erf_slow(x), -4.5, 0.4, 8.0),
        ("erfc far", erfc_f32, erfc_f64, erfc_slow, 2.0, 9.2, 8.0),
        ("normal_cdf", normal_cdf_f32, normal_cdf_f64, |x| 0.5 + 0.5 * erf_slow(x / 2f64.sqrt()), -0.5, 6.0, 8.0),
        ("normal_cdf far", normal_cdf_f32, normal_cdf_f64, normal_cdf_slow, -12.9, -1.0, 8.0),
        ("normal_cdf low", normal_cdf_f32, normal_cdf_f64, |x| 0.5 - 0.5 * erf_slow(-x / 2f64.sqrt()), -0.5, 0.0, 8.0),
        ("gauss", gauss_f32, gauss_f64, gauss_slow, -13.0, 13.0, 8.0),
    ];
    for (name, single, double, exact, low, high, limit) in rows {
        let (mut worst_f32, mut worst_f64) = ((0.0, 0.0), (0.0, 0.0));
        for x in sweep(low, high) {
            let error = ulps_f32(single(x as f32), exact(f64::from(x as f32)));
            if error > worst_f32.0 {
                worst_f32 = (error, x);
            }
            let error = ulps_f64(double(x), exact(x));
            if error > worst_f64.0 {
                worst_f64 = (error, x);
            }
        }
        println!("{name}: f32 {worst_f32:?}, f64 {worst_f64:?} (error, argument)");
        assert!(worst_f32.0 <= limit, "f32 {name}: (ulps, argument) {worst_f32:?}");
        // The slow oracles have errors of a few units of their own.
        let slack = if name.starts_with("erf") || name.starts_with("normal") || name == "sigmoid" { 6.0 } else { 1.0 };
        assert!(worst_f64.0 <= limit + slack, "f64 {name}: (ulps, argument) {worst_f64:?}");
    }
}

#[test]
fn ends_of_the_range() {
    assert_eq!((exp_f32(1000.0), exp_f32(-1000.0)), (f32::INFINITY, 0.0));
    assert_eq!((exp_f64(1000.0), exp_f64(-1000.0)), (f64::INFINITY, 0.0));
    assert_eq!((exp_f32(f32::NEG_INFINITY), exp_f64(f64::INFINITY)), (0.0, f64::INFINITY));
    assert_eq!((exp_f32(88.722_83).is_finite(), exp_f64(709.78).is_finite()), (true, true));
    assert_eq!((ln_f32(0.0), ln_f64(f64::INFINITY)), (f32::NEG_INFINITY, f64::INFINITY));
    assert_eq!((log1p_f32(-1.0), log1p_f64(f64::INFINITY)), (f32::NEG_INFINITY, f64::INFINITY));
    assert_eq!((expm1_f32(-1000.0), expm1_f64(1000.0)), (-1.0, f64::INFINITY));
    assert_eq!((tanh_f32(100.0), tanh_f64(-100.0)), (1.0, -1.0));
    assert_eq!((tanh_f32(f32::NEG_INFINITY), tanh_f64(f64::INFINITY)), (-1.0, 1.0));
    assert_eq!((sigmoid_f32(f32::NEG_INFINITY), sigmoid_f64(f64::INFINITY)), (0.0, 1.0));
    assert_eq!((erf_f32(f32::NEG_INFINITY), erf_f64(f64::INFINITY)), (-1.0, 1.0));
    assert_eq!((exp_f32(0.0), expm1_f64(0.0), tanh_f32(0.0), erf_f64(0.0)), (1.0, 0.0, 0.0, 0.0));
    assert!([expm1_f32(-0.0), log1p_f32(-0.0)].iter().all(|x| x.to_bits() == 1 << 31));
    assert_eq!((erfc_f32(f32::INFINITY), erfc_f64(f64::NEG_INFINITY)), (0.0, 2.0));
    assert_eq!((normal_cdf_f32(f32::NEG_INFINITY), normal_cdf_f64(f64::INFINITY)), (0.0, 1.0));
    assert_eq!((normal_cdf_f32(f32::MAX), gauss_f32(f32::MAX), gauss_f64(f64::NEG_INFINITY)), (1.0, 0.0, 0.0));
    // Tails relative to themselves, by the continued fraction.
    for x in sweep(12.0, 37.0).step_by(97) {
        assert!(ulps_f64(normal_cdf_f64(-x), normal_cdf_slow(-x)) <= 6.0, "{x}");
        assert!(x > 26.0 || ulps_f64(erfc_f64(x), erfc_slow(x)) <= 6.0, "{x}");
    }
    assert!(ulps_f32(exp_f32(-100.0), (-100.0f64).exp()) < 1.0);
    assert!(ulps_f32(ln_f32(1e-40), f64::from(1e-40f32).ln()) < 1.0);
    assert!(ulps_f64(ln_f64(1e-310), 1e-310f64.ln()) < 1.5);
}

#[test]
fn not_a_number_stays() {
    let single =
        [exp_f32, ln_f32, expm1_f32, log1p_f32, tanh_f32, sigmoid_f32, erf_f32, erfc_f32, normal_cdf_f32, gauss_f32];
    assert!(single.iter().all(|f| f(f32::NAN).is_nan()));
    let double =
        [exp_f64, ln_f64, expm1_f64, log1p_f64, tanh_f64, sigmoid_f64, erf_f64, erfc_f64, normal_cdf_f64, gauss_f64];
    assert!(double.iter().all(|f| f(f64::NAN).is_nan()));
    assert!(ln_f64(-1.0).is_nan() && log1p_f32(-1.5).is_nan());
}

#[test]
fn powers() {
    let values = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 2.0, 3.25, 1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-30];
    for x in values {
        for y in values {
            let (got, expected) = (pow_f32(x, y), x.powf(y));
            let same = got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
            assert!(same || ulps_f32(got, f64::from(expected)) <= 1.0, "{x} to the {y}: {got}, expected {expected}");
        }
    }
    for x in sweep(0.01, 20.0) {
        for y in [-7.3f32, -0.5, 0.33, 2.0, 9.1] {
            let expected = f64::from(x as f32).powf(f64::from(y));
            assert!(ulps_f32(pow_f32(x as f32, y), expected) <= 0.51, "{x} to the {y}");
        }
    }
}

/// Small, large and huge angles, those that are nearly multiples of π/2 among them.
fn angles() -> impl Iterator<Item = f64> {
    let whole = (0..3000).map(|n| f64::from(n) * core::f64::consts::FRAC_PI_2);
    let huge = (20..1023).map(|n| 1.234_567_890_123 * 2f64.powi(n));
    sweep(-20.0, 20.0).step_by(37).chain(whole).chain(huge).chain([1e-300])
}

#[test]
fn angles_of_any_size() {
    for x in angles().flat_map(|x| [x, -x]) {
        let x32 = x as f32;
        for (name, f64_of, f32_of, expected, limit) in [
            ("sin", sin_f64 as fn(f64) -> f64, sin_f32 as fn(f32) -> f32, f64::sin as fn(f64) -> f64, 1.0),
            ("cos", cos_f64, cos_f32, f64::cos, 1.0),
            ("tan", tan_f64, tan_f32, f64::tan, 2.0),
        ] {
            assert!(ulps_f64(f64_of(x), expected(x)) <= limit, "{name} {x:e}: {} {}", f64_of(x), expected(x));
            if x32.is_finite() {
                let expected = expected(f64::from(x32));
                assert!(ulps_f32(f32_of(x32), expected) <= 0.5001, "{name} of f32 {x:e}");
            }
        }
    }
    // The f64 that is nearest to a multiple of π/2, which not every library gets right.
    let nearest = 6_381_956_970_095_103.0 * 2f64.powi(797);
    assert!(ulps_f64(cos_f64(nearest), -4.687_165_924_254_628e-19) <= 1.0);
    assert!(sin_f64(f64::INFINITY).is_nan() && cos_f64(f64::NAN).is_nan());
    assert!(sin_f64(-0.0).is_sign_negative());
}

#[test]
fn inverse_tangents() {
    let numbers = [0.0, -0.0, 1e-310, 0.3, 1.0, 1.1, 2.5, 1e10, 1e300, f64::INFINITY];
    for y in numbers.into_iter().flat_map(|y| [y, -y]) {
        for x in numbers.into_iter().flat_map(|x| [x, -x]) {
            let (got, expected) = (atan2_f64(y, x), y.atan2(x));
            assert!(ulps_f64(got, expected) <= 1.0 && got.is_sign_negative() == expected.is_sign_negative(), "{y} {x}");
        }
    }
    assert!(atan2_f64(f64::NAN, 1.0).is_nan() && atan2_f64(1.0, f64::NAN).is_nan());
    for x in sweep(-30.0, 30.0).step_by(11) {
        assert!(ulps_f64(atan2_f64(x, 1.0), x.atan()) <= 1.0, "{x}");
    }
}

#[test]
fn powers_of_f64() {
    for x in [1e-300, 1e-5, 0.3, 0.999_999, 1.000_001, 1.5, 7.0, 1e5, 1e300, 5e-320] {
        for y in [-300.25, -2.0, -0.5, 1e-8, 0.5, 1.0, 3.0, 10.1, 700.0, 12_345.678] {
            let (got, expected) = (pow_f64(x, y), f64::powf(x, y));
            let ok = got == expected || (expected > 1e-300 && ulps_f64(got, expected) <= 2.0) || expected <= 1e-300;
            assert!(ok, "{x} {y}: {got:e} {expected:e}");
        }
    }
    let numbers = [0.0, 1.0, 2.0, 3.0, 0.5, 1e20, 1e300, f64::INFINITY, f64::NAN];
    for x in numbers.into_iter().flat_map(|x| [x, -x]) {
        for y in numbers.into_iter().flat_map(|y| [y, -y]) {
            let (got, expected) = (pow_f64(x, y), f64::powf(x, y));
            let same = got == expected && got.is_sign_negative() == expected.is_sign_negative();
            assert!(
                same || (got.is_nan() && expected.is_nan()) || ulps_f64(got, expected) <= 2.0,
                "{x} {y}: {got} {expected}"
            );
        }
    }
}

#[test]
fn remainders_are_exact() {
    let numbers = [0.0, 1.0, 2.5, 0.1, 3e-310, 7e-320, 1e10, 1.1e300, 123_456.789, f64::INFINITY, f64::NAN];
    for x in numbers.into_iter().flat_map(|x| [x, -x]) {
        for y in numbers.into_iter().flat_map(|y| [y, -y]) {
            let (got, expected) = (fmod_f64(x, y), x % y);
            assert!(got == expected || (got.is_nan() && expected.is_nan()), "{x} {y}: {got} {expected}");
            let (x, y) = (x as f32, y as f32);
            let (got, expected) = (fmod_f32(x, y), x % y);
            assert!(got == expected || (got.is_nan() && expected.is_nan()), "{x} {y}: {got} {expected}");
        }
    }
}
