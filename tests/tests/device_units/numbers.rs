//! Conversions and arithmetic.

use super::encode::{BF16, F16, fp8, rounded};
use super::unit::{assert_same, hopper_unit, n, random, unit};
use cuda_std::elementary;
use oxidnn::half::{bf16, f16};

fn same_value(got: f64, expected: f64) -> bool {
    got == expected || (got.is_nan() && expected.is_nan())
}

fn awkward() -> Vec<f32> {
    let tiny = 2f32.powi(-24);
    let mut values = vec![
        0.0,
        -0.0,
        1.0,
        -1.5,
        65_504.0,
        65_519.9,
        65_520.0,
        -65_520.0,
        1e-8,
        6e-8,
        tiny,
        tiny / 2.0,
        tiny / 2.0 * 1.01,
        tiny * 1.5,
        3.389e38,
        3.395e38,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-40,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        0.1,
        0.5,
        1.5,
        2.5,
        3.5,
        -0.5,
        127.4,
        127.5,
        128.5,
        -128.5,
        -129.0,
        254.5,
        255.5,
        300.0,
        -300.0,
        1e10,
        -1e10,
        2_147_483_520.0,
        1.003_906_2,
        1.007_812_5,
        1.011_718_8,
        1.000_488_3,
        1.001_464_8,
    ];
    values.extend(random(3).take(4000).map(f32::from_bits));
    values.extend(random(4).take(4000).map(|v| (v as i32 >> 12) as f32 / 64.0));
    values
}

#[test]
fn widening() {
    let Some(unit) = unit("widening") else { return };
    const ALL: usize = 65_536;
    let out = unit.zeros::<u32>(4 * ALL);
    unit.run("unit_convert_widen", 256, 256, &[out.arg()]);
    let got = out.read::<u32>();
    for bits in 0..ALL {
        let (half, brain) = (f16::from_bits(bits as u16).to_f32(), bf16::from_bits(bits as u16).to_f32());
        let of = |row: usize| got[row * ALL + bits];
        let same = |bits: u32, expected: f32| {
            bits == expected.to_bits() || (f32::from_bits(bits).is_nan() && expected.is_nan())
        };
        assert!(same(of(0), half) && same(of(2), half), "f16 {bits:#x}: {:#x} {:#x}", of(0), of(2));
        assert!(same(of(1), brain), "bf16 {bits:#x}: {:#x}", of(1));
        let mixed = half.to_bits() ^ (bits as u32) << 16;
        assert!(half.is_nan() || of(3) == mixed, "pairs {bits:#x}: {:#x}, expected {mixed:#x}", of(3));
    }
}

#[test]
fn narrowing() {
    let Some(unit) = unit("narrowing") else { return };
    let x = awkward();
    let (values, out) = (unit.upload(&x), unit.zeros::<u32>(8 * x.len()));
    let blocks = x.len().div_ceil(128) as u32;
    unit.run("unit_convert_narrow", blocks, 128, &[values.arg(), out.arg(), n(x.len())]);
    let got = out.read::<u32>();
    for (i, &a) in x.iter().enumerate() {
        let b = x[(i + 1) % x.len()];
        let row = &got[8 * i..8 * i + 8];
        let half = |bits: u32, expected: f32| {
            same_value(f16::from_bits(bits as u16).to_f64(), rounded(f64::from(expected), F16))
        };
        let brain = |bits: u32, expected: f32| {
            same_value(bf16::from_bits(bits as u16).to_f64(), rounded(f64::from(expected), BF16))
        };
        assert!(half(row[0], a) && brain(row[0] >> 16, a), "{a:e}: {:#x}", row[0]);
        assert!(half(row[1], a) && half(row[1] >> 16, b), "f16 of {a:e}, {b:e}: {:#x}", row[1]);
        assert!(brain(row[2], a) && brain(row[2] >> 16, b), "bf16 of {a:e}, {b:e}: {:#x}", row[2]);
        // Ties away from zero; the low 13 bits are not looked at by anyone.
        let tf32 = a.to_bits().wrapping_add(0x1000) >> 13;
        assert!(a.abs() > 1e38 || a.is_nan() || row[3] >> 13 == tf32, "tf32 of {a:e}: {:#x}", row[3]);
        let integer = a.round_ties_even();
        assert_eq!(row[4] as i32, integer as i32, "i32 of {a:e}");
        if !a.is_nan() {
            assert_eq!(row[5] as i32, integer.clamp(-128.0, 127.0) as i32, "i8 of {a:e}");
            assert_eq!(row[6] as i32, integer.clamp(0.0, 255.0) as i32, "u8 of {a:e}");
        }
        assert!(half(row[7], a), "the language's f16 of {a:e}: {:#x}", row[7]);
    }
}

#[test]
fn narrowing_rounds_f64_once() {
    let Some(unit) = unit("narrowing_rounds_f64_once") else { return };
    let mut x: Vec<f64> = awkward().into_iter().map(f64::from).collect();
    // A hair beside ties of f16 and bf16: rounding to f32 on the way would make them ties.
    for base in [1.0, -1.5, 1000.0, 0.001, 3e-5] {
        for half_unit in [2f64.powi(-11), 2f64.powi(-8), 3.0 * 2f64.powi(-8), 3.0 * 2f64.powi(-11)] {
            x.extend([0.0, 1.0, -1.0].map(|hair| base * (1.0 + half_unit + hair * 2f64.powi(-45))));
        }
    }
    x.extend([1e300, -1e300, 1e-300, 3.3961e38, 3.395e38]);
    let (values, out) = (unit.upload(&x), unit.zeros::<u32>(x.len()));
    let blocks = x.len().div_ceil(128) as u32;
    unit.run("unit_convert_narrow_f64", blocks, 128, &[values.arg(), out.arg(), n(x.len())]);
    for (&x, bits) in x.iter().zip(out.read::<u32>()) {
        let (half, brain) = (f16::from_bits(bits as u16).to_f64(), bf16::from_bits((bits >> 16) as u16).to_f64());
        assert!(same_value(half, rounded(x, F16)), "f16 of {x:e}: {half:e}, expected {:e}", rounded(x, F16));
        assert!(same_value(brain, rounded(x, BF16)), "bf16 of {x:e}: {brain:e}, expected {:e}", rounded(x, BF16));
    }
}

#[test]
fn eight_bits() {
    let Some(unit) = hopper_unit("eight_bits") else { return };
    let out = unit.zeros::<u32>(3 * 256);
    unit.run("unit_convert_fp8", 1, 256, &[out.arg()]);
    for (bits, row) in out.read::<u32>().chunks(3).enumerate() {
        for (i, mantissa_bits) in [3, 2].into_iter().enumerate() {
            let value = f16::from_bits(row[i] as u16).to_f64();
            assert_eq!(row[i] >> 16, 0, "the other half");
            match fp8(bits as u8, mantissa_bits) {
                Some(expected) => assert_eq!(value, expected, "{bits:#x} with {mantissa_bits} bits of mantissa"),
                None => assert!(value.is_nan(), "{bits:#x} with {mantissa_bits} bits of mantissa: {value}"),
            }
            if fp8(bits as u8, mantissa_bits).is_some_and(f64::is_finite) {
                assert_eq!((row[2] >> (16 * i)) as usize & 0xffff, bits, "and back");
            }
        }
    }
}

/// Whether results agree to this many units in the last place of f32, or are both NaN.
fn within(got: f32, expected: f64, ulps: f64) -> bool {
    if expected.is_nan() || expected.abs() > f64::from(f32::MAX) || got.is_infinite() {
        return same_value(f64::from(got), expected) || f64::from(got) == f64::from(expected as f32);
    }
    let size = (expected.abs() as f32).max(f32::MIN_POSITIVE);
    let ulp = f64::from(f32::from_bits(size.to_bits() + 1) - size);
    (f64::from(got) - expected).abs() <= ulps * ulp
}

#[test]
fn elementary_functions() {
    let Some(unit) = unit("elementary_functions") else { return };
    let x: Vec<f32> = (0..40_000).map(|i| (i as f32 - 20_000.0) / 1000.0 + 0.0003).collect();
    let (values, out) = (unit.upload(&x), unit.zeros::<f32>(16 * x.len()));
    let blocks = x.len().div_ceil(128) as u32;
    unit.run("unit_math_f32", blocks, 128, &[values.arg(), out.arg(), n(x.len())]);
    let got = out.read::<f32>();
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    type Row<'a> = (&'a str, &'a dyn Fn(f64) -> f64, f64);
    let accurate: [Row<'_>; 9] = [
        ("exp", &f64::exp, 1.5),
        ("ln", &f64::ln, 1.5),
        ("expm1", &f64::exp_m1, 2.0),
        ("log1p", &f64::ln_1p, 1.5),
        ("tanh", &f64::tanh, 2.0),
        ("sigmoid", &sigmoid, 2.5),
        ("erf", &elementary::erf_f64, 2.5),
        ("pow", &|x| x.powf(1.75), 1.0),
        ("sqrt", &f64::sqrt, 0.5),
    ];
    for (row, (name, exact, ulps)) in accurate.into_iter().enumerate() {
        for (i, &x) in x.iter().enumerate() {
            let (got, expected) = (got[row * 40_000 + i], exact(f64::from(x)));
            assert!(within(got, expected, ulps), "{name} of {x}: {got:e}, expected {expected:e}");
        }
    }
    // Functions, and their errors as documented: absolute, relative.
    type Approximation<'a> = (&'a str, &'a dyn Fn(f64) -> f64, &'a dyn Fn(f64) -> (f64, f64));
    let approximate: [Approximation<'_>; 7] = [
        ("exp_approx", &f64::exp, &|x| (0.0, 4e-7 + x.abs() * 1.2e-7)),
        ("ln_approx", &f64::ln, &|_| (4e-7, 4e-7)),
        ("tanh_approx", &f64::tanh, &|_| (0.0, 6e-4)),
        ("sigmoid_approx", &sigmoid, &|_| (3e-4, 0.0)),
        ("reciprocal_approx", &|x| 1.0 / x, &|_| (0.0, 2.4e-7)),
        ("rsqrt_approx", &|x| 1.0 / x.sqrt(), &|_| (0.0, 4e-7)),
        ("divide and sqrt_approx", &|x| 1.0 / x.sqrt(), &|_| (0.0, 8e-7)),
    ];
    for (row, (name, exact, error)) in approximate.into_iter().enumerate() {
        for (i, &x) in x.iter().enumerate() {
            let (got, expected) = (f64::from(got[(9 + row) * 40_000 + i]), exact(f64::from(x)));
            let (absolute, relative) = error(f64::from(x));
            let near = (got - expected).abs() <= absolute + relative * expected.abs();
            assert!(near || (got.is_nan() && expected.is_nan()), "{name} of {x}: {got:e}, expected {expected:e}");
        }
    }
}

#[test]
fn elementary_functions_of_f64() {
    let Some(unit) = unit("elementary_functions_of_f64") else { return };
    let x: Vec<f64> = (0..40_000).map(|i| (f64::from(i) - 20_000.0) / 1000.0 + 0.000_3).collect();
    let (values, out) = (unit.upload(&x), unit.zeros::<f64>(8 * x.len()));
    let blocks = x.len().div_ceil(128) as u32;
    unit.run("unit_math_f64", blocks, 128, &[values.arg(), out.arg(), n(x.len())]);
    let got = out.read::<f64>();
    type Row<'a> = (&'a str, &'a dyn Fn(f64) -> f64);
    let rows: [Row<'_>; 8] = [
        ("exp", &f64::exp),
        ("ln", &f64::ln),
        ("expm1", &f64::exp_m1),
        ("log1p", &f64::ln_1p),
        ("tanh", &f64::tanh),
        ("sigmoid", &|x| 1.0 / (1.0 + (-x).exp())),
        // Itself, on the host: fused multiply-adds must not change more than the last bits.
        ("erf", &elementary::erf_f64),
        ("sqrt", &f64::sqrt),
    ];
    for (row, (name, exact)) in rows.into_iter().enumerate() {
        for (i, &x) in x.iter().enumerate() {
            let (got, expected) = (got[row * 40_000 + i], exact(x));
            let near = (got - expected).abs() <= 4.0 * f64::EPSILON * expected.abs();
            assert!(near || same_value(got, expected), "{name} of {x}: {got:e}, expected {expected:e}");
        }
    }
}

#[test]
fn exact_arithmetic() {
    let Some(unit) = unit("exact_arithmetic") else { return };
    let values = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3.5, 0.1, -7.75, 1e20, 1e-20, f32::INFINITY, f32::NAN];
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for x in values {
        for y in values {
            a.push(x);
            b.push(y);
        }
    }
    let count = a.len();
    let (in_a, in_b, out) = (unit.upload(&a), unit.upload(&b), unit.zeros::<f32>(12 * count));
    let blocks = count.div_ceil(128) as u32;
    unit.run("unit_math_exact", blocks, 128, &[in_a.arg(), in_b.arg(), out.arg(), n(count)]);
    let got = out.read::<f32>();
    let nan_first = |x: f32, y: f32, pick: f32| if x.is_nan() || y.is_nan() { f32::NAN } else { pick };
    for (i, (&a, &b)) in a.iter().zip(&b).enumerate() {
        let expected = [
            a.mul_add(b, a),
            f64::from(a).mul_add(f64::from(b), 0.5) as f32,
            a.max(b),
            a.min(b),
            nan_first(a, b, a.max(b)),
            nan_first(a, b, a.min(b)),
            nan_first(a, b, a.max(b)),
            a.min(b),
            a.floor(),
            a.ceil(),
            a.round_ties_even(),
            a.round_ties_even() + b.floor(),
        ];
        for (row, expected) in expected.into_iter().enumerate() {
            let got = got[row * count + i];
            assert!(same_value(got.into(), expected.into()), "row {row} of {a}, {b}: {got}, expected {expected}");
        }
    }

    let out = unit.zeros::<u32>(8);
    unit.run("unit_math_packed", 1, 1, &[out.arg()]);
    let expected = [0x4700_4000, 0x40e0_4000, 0x40e0_0000, 0x3f80_4000, 0x4000_4200, 125, 0x6622_4400, 3];
    assert_same("packed", &out.read::<u32>(), &expected);
}
