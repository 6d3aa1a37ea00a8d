//! Activations at the ends of the number range: infinities, NaN, the largest and the smallest numbers, and factors with
//! which something overflows or vanishes on the way though the result is ordinary. Expected values are limits, or plain
//! formulas in f64 of numbers that f64 holds with room to spare.

use kernel_abi::ops::activation::{Activation, ActivationMode, ActivationProblem};
use kernel_abi::{DType, TensorDesc};
use oxidnn::{Args, Context, Policy};
use oxidnn_tests::contexts;
use oxidnn_tests::fill::round;

const INF: f64 = f64::INFINITY;

/// f and f' at -∞ and +∞ with the default parameters.
fn limits(mode: ActivationMode) -> [[f64; 2]; 2] {
    use ActivationMode as M;
    let [a, b, _] = mode.defaults();
    match mode {
        M::Identity => [[-INF, INF], [1.0, 1.0]],
        M::Relu => [[0.0, INF], [0.0, 1.0]],
        M::ClippedRelu => [[0.0, 1.0], [0.0, 0.0]],
        M::Elu | M::Celu => [[-1.0, INF], [0.0, 1.0]],
        M::Sigmoid => [[0.0, 1.0], [0.0, 0.0]],
        M::Tanh => [[-1.0, 1.0], [0.0, 0.0]],
        M::Swish | M::Gelu | M::GeluTanh | M::Softplus | M::Hardswish | M::Mish | M::ThresholdedRelu => {
            [[0.0, INF], [0.0, 1.0]]
        }
        M::Hardsigmoid => [[0.0, 1.0], [0.0, 0.0]],
        M::Selu => [[-a * b, INF], [0.0, b]],
        M::Softsign => [[-1.0, 1.0], [0.0, 0.0]],
        M::Exp => [[0.0, INF], [0.0, INF]],
        M::LogSigmoid => [[-INF, 0.0], [1.0, 0.0]],
    }
}

/// f and f' of NaN.
fn of_nan(mode: ActivationMode) -> [f64; 2] {
    match mode {
        ActivationMode::Identity => [f64::NAN, 1.0],
        ActivationMode::ThresholdedRelu => [0.0; 2],
        _ => [f64::NAN; 2],
    }
}

/// f(x), and f'(x) for dy of ones.
fn both(context: &Context, activation: Activation, dtype: DType, x: &[f64]) -> [Vec<f64>; 2] {
    let desc = TensorDesc::packed(dtype, &[x.len() as i64]).unwrap();
    let stream = context.stream().unwrap();
    let on_device = context.tensor_from(&desc, x).unwrap();
    let ones = context.tensor_from(&desc, &vec![1.0; x.len()]).unwrap();
    [false, true].map(|slope| {
        let problem = match slope {
            false => ActivationProblem::forward(activation, &desc, &desc),
            true => ActivationProblem::backward(activation, &desc, &desc, &desc),
        };
        let plan = context.plan(&problem.unwrap(), Policy::Heuristic).unwrap();
        let mut out = context.tensor(&desc).unwrap();
        let args = Args::new().input("x", &on_device);
        let args = if slope { args.input("dy", &ones).output("dx", &mut out) } else { args.output("y", &mut out) };
        plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
        out.to_vec::<f64>(&stream).unwrap()
    })
}

fn same(got: f64, expected: f64, tolerance: f64) -> bool {
    got == expected
        || (got.is_nan() && expected.is_nan())
        || ((got - expected).abs() <= tolerance * expected.abs() && expected.is_finite())
}

fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 2f64.powi(-52),
        DType::F32 => 2f64.powi(-23),
        DType::F16 => 2f64.powi(-10),
        _ => 2f64.powi(-7),
    }
}

const DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

#[test]
fn every_mode_at_the_ends() {
    for context in contexts() {
        for dtype in DTYPES {
            for &mode in ActivationMode::ALL {
                let got = both(context, mode.into(), dtype, &[-INF, INF, f64::NAN]);
                for (pass, got) in got.iter().enumerate() {
                    let [low, high] = limits(mode)[pass];
                    for (got, expected) in got.iter().zip([low, high, of_nan(mode)[pass]]) {
                        let near = same(*got, round(expected, dtype), 4.0 * epsilon(dtype));
                        assert!(near, "{mode} of {dtype}, pass {pass}: {got}, expected {expected}");
                    }
                }
            }
        }
    }
}

/// The largest numbers and the smallest: ends of the line that f is there, or its first term at 0.
#[test]
fn every_mode_of_largest_and_smallest_numbers() {
    for context in contexts() {
        for (dtype, largest, smallest) in [
            (DType::F32, f64::from(f32::MAX), 1e-40),
            (DType::F64, f64::MAX, 1e-310),
            (DType::F16, 65504.0, 2f64.powi(-24)),
            (DType::BF16, 3.389e38, 1e-40),
        ] {
            for &mode in ActivationMode::ALL {
                let x: Vec<f64> = [-largest, largest, smallest, -smallest, 0.0, -0.0].map(|x| round(x, dtype)).to_vec();
                let [y, dx] = both(context, mode.into(), dtype, &x);
                for (i, x) in x.iter().enumerate() {
                    assert!(!y[i].is_nan() && !dx[i].is_nan(), "{mode} of {dtype} at {x}: {} {}", y[i], dx[i]);
                }
                // Beside it, what is infinite at infinity is x, but for the exponential and selu's factor.
                for (i, at) in [(0usize, 0usize), (1, 1)] {
                    let limit = limits(mode)[0][at];
                    let expected = match mode {
                        ActivationMode::Exp | ActivationMode::Selu if at == 1 => INF,
                        _ if limit.is_infinite() => x[i],
                        _ => round(limit, dtype),
                    };
                    let near = same(y[i], expected, 4.0 * epsilon(dtype))
                        || (dtype == DType::F16 && at < 2 && expected == 0.0 && y[i].abs() < 1e-7);
                    let softened = mode == ActivationMode::Softsign && dtype == DType::F16;
                    let selu = mode == ActivationMode::Selu && at == 1;
                    assert!(near || softened || selu, "{mode} of {dtype} at {}: {}, expected {expected}", x[i], y[i]);
                }
            }
        }
    }
}

/// What overflows or vanishes on the way, with the right value.
#[test]
fn ordinary_results_of_extreme_factors() {
    use ActivationMode as M;
    let softplus_tail = |x: f64, a: f64| (x * a).exp().ln_1p() / a;
    // Mode, parameters, x, f(x).
    let rows: Vec<(M, &[f64], f64, f64)> = vec![
        (M::Softplus, &[5.0], 1e38, 1e38),
        (M::Softplus, &[1e30], 1e30, 1e30),
        (M::Softplus, &[-5.0], -1e38, -1e38),
        (M::Softplus, &[1e-30], -1e32, softplus_tail(-1e32, 1e-30)),
        (M::Swish, &[5.0], 1e38, 1e38),
        (M::Swish, &[5.0], -1e38, 0.0),
        (M::Swish, &[-5.0], 1e38, 0.0),
        (M::Swish, &[0.0], INF, INF),
        (M::Swish, &[0.0], -INF, -INF),
        (M::Swish, &[-1.0], INF, 0.0),
        (M::Swish, &[1e-30], -1.1e32, -1.1e32 / (1.0 + 110f64.exp())),
        (M::Celu, &[1e-30], -1e20, -1e-30),
        (M::Celu, &[1e30], -1e-30, -1e-30),
        (M::Celu, &[-1e-30], -1e-28, -1e-30 * 100f64.exp_m1()),
        (M::Elu, &[1e38], -1e-38, -1.0),
        (M::Elu, &[0.0], -INF, 0.0),
        (M::Hardsigmoid, &[5.0, 0.5], 1e38, 1.0),
        (M::Hardsigmoid, &[5.0, 0.5], -1e38, 0.0),
        (M::Hardsigmoid, &[0.0, 0.25], INF, 0.25),
        (M::Selu, &[1e-30, 1e30], -1e-20, -1e-20),
        (M::Selu, &[1e30, 1e-30], -1e-20, -1e-20),
        (M::Relu, &[2e38, INF, 0.1], -3e38, 2e38 - 0.1 * 5e38),
        (M::Relu, &[-INF, INF, 0.5], -INF, -INF),
        (M::Softsign, &[], 3e38, 1.0),
        (M::Hardswish, &[], -3.0, 0.0),
        (M::ThresholdedRelu, &[-1e38], f64::NAN, 0.0),
    ];
    for context in contexts() {
        for dtype in [DType::F32, DType::F64] {
            for (mode, parameters, x, expected) in &rows {
                let [y, _] = both(context, Activation::new(*mode, parameters), dtype, &[*x]);
                // Factors and x are rounded to the type, and the power enlarges that.
                let near = same(y[0], *expected, 2000.0 * epsilon(dtype));
                assert!(near, "{mode} {parameters:?} of {dtype} at {x}: {}, expected {expected}", y[0]);
            }
        }
        let [_, dx] = both(context, Activation::new(M::Elu, &[1e38]), DType::F32, &[-150.0]);
        assert!(same(dx[0], 1e38 * (-150f64).exp(), 1e-4), "{dx:?}");
        let [_, dx] = both(context, Activation::new(M::Selu, &[1e38, 1e38]), DType::F32, &[-170.0]);
        assert!(same(dx[0], 1e76 * (-170f64).exp(), 1e-4), "{dx:?}");
        let [_, dx] = both(context, M::Relu.into(), DType::F32, &[INF]);
        assert_eq!(dx[0], 1.0);
    }
}

/// x Φ(x) by the continued fraction of the tail, and its slope Φ(x) + x φ(x).
#[test]
fn the_tail_of_gelu() {
    for context in contexts() {
        for dtype in DTYPES {
            // As far as results are normal numbers of the type.
            let most = match dtype {
                DType::F16 => 3.7,
                DType::F64 => 36.0,
                _ => 12.5,
            };
            let x: Vec<f64> = (0..64).map(|i| round(-2.5 - f64::from(i) / 63.0 * (most - 2.5), dtype)).collect();
            let [y, dx] = both(context, ActivationMode::Gelu.into(), dtype, &x);
            for (i, &x) in x.iter().enumerate() {
                let a = -x;
                let fraction = (1..600).rev().fold(a, |fraction, k| a + f64::from(k) / fraction);
                let square = a * a;
                let power = (-0.5 * square).exp() * (1.0 - 0.5 * a.mul_add(a, -square));
                let density = power / (2.0 * std::f64::consts::PI).sqrt();
                let (value, slope) = (x * density / fraction, density / fraction + x * density);
                // The tuned kernels of 16-bit types are off by less than half of the rounding.
                let tolerance = 16.0 * epsilon(dtype);
                assert!(same(y[i], value, tolerance), "gelu of {dtype} at {x}: {:e}, expected {value:e}", y[i]);
                assert!(same(dx[i], slope, tolerance), "slope of {dtype} at {x}: {:e}, expected {slope:e}", dx[i]);
            }
        }
        let [y, _] = both(context, ActivationMode::Gelu.into(), DType::F32, &[-5.0]);
        assert!(same(y[0], -1.433_257_859_7e-6, 1e-6), "{:e}", y[0]);
    }
}
