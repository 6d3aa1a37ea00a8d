//! Activation against the reference, exactly where it is exact, and its refusals.

use kernel_abi::ops::activation::{Activation, ActivationMode, ActivationProblem};
use kernel_abi::{DType, TensorDesc};
use oxidnn::{Args, Context, Policy};
use oxidnn_reference::ops::activation;
use oxidnn_tests::fill::round;
use oxidnn_tests::{check, check_exact, contexts, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::activation::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn integers_come_out_exactly(problem in problems::activation::any(), seed in any::<u64>()) {
        use ActivationMode::{ClippedRelu, Identity, Relu, ThresholdedRelu};
        if matches!(problem.mode(), Identity | ClippedRelu | Relu | ThresholdedRelu) {
            let parameters = problem.activation().parameters().map(f64::round);
            let activation = Activation::new(problem.mode(), &parameters);
            let (x, out) = (problem.x(), problem.out());
            let problem = match problem.dy() {
                None => ActivationProblem::forward(activation, x, out),
                Some(dy) => ActivationProblem::backward(activation, x, dy, out),
            };
            check_exact(&problem.unwrap(), seed, 8)?;
        }
    }

    /// f' is the limit of differences of f, but for corners.
    #[test]
    fn slopes_are_those_of_the_values(problem in problems::activation::any(), x in -6.0f64..6.0) {
        let h = 1e-5;
        let f = |x: f64| activation::value(problem.activation(), x);
        let (left, right) = ((f(x) - f(x - h)) / h, (f(x + h) - f(x)) / h);
        let slope = activation::slope(problem.activation(), x);
        let smooth = (left - right).abs() < 1e-3 * (1.0 + slope.abs());
        let error = ((left + right) / 2.0 - slope).abs();
        prop_assert!(!smooth || error < 1e-6 * (1.0 + slope.abs()), "{problem} at {x}: {slope}, {left}, {right}");
    }
}

/// Numbers far from 0, infinite ones and NaN: f has its limits there, and nothing overflows on the way.
#[test]
fn far_from_zero() {
    let values = [-1e30, -200.0, -50.0, 50.0, 200.0, 1e30, f64::NAN, 0.0, -0.0];
    for context in contexts() {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            for &mode in ActivationMode::ALL {
                let x = TensorDesc::packed(dtype, &[values.len() as i64]).unwrap();
                let forward = ActivationProblem::forward(mode, &x, &x).unwrap();
                let backward = ActivationProblem::backward(mode, &x, &x, &x).unwrap();
                let stored: Vec<f64> = values.iter().map(|&v| round(v, dtype)).collect();
                let finite = |v: f64| v.is_finite() || v.is_nan();
                let stored: Vec<f64> = stored.iter().map(|&v| if finite(v) { v } else { v.signum() * 3e4 }).collect();
                let ones = vec![1.0; values.len()];
                let got = [run(context, &forward, &[&stored]), run(context, &backward, &[&stored, &ones])];
                let expected =
                    [activation::forward(&forward, &stored), activation::backward(&backward, &stored, &ones)];
                for (pass, (got, expected)) in got.iter().zip(&expected).enumerate() {
                    for ((got, expected), x) in got.iter().zip(expected).zip(&stored) {
                        let expected = round(*expected, dtype);
                        let close = (got - expected).abs() <= 1e-2 * (1.0 + expected.abs());
                        let same = *got == expected || (got.is_nan() && expected.is_nan()) || close;
                        assert!(same, "{mode} of {dtype}, pass {pass} at {x}: {got}, expected {expected}");
                    }
                }
            }
        }
    }
}

fn run(context: &Context, problem: &ActivationProblem, inputs: &[&Vec<f64>]) -> Vec<f64> {
    let stream = context.stream().unwrap();
    let plan = context.plan(problem, Policy::Heuristic).unwrap();
    let x = context.tensor_from(problem.x(), inputs[0]).unwrap();
    let dy = inputs.get(1).map(|dy| context.tensor_from(problem.x(), dy).unwrap());
    let mut out = context.tensor(problem.out()).unwrap();
    let mut args = Args::new().input("x", &x).output(if dy.is_some() { "dx" } else { "y" }, &mut out);
    if let Some(dy) = &dy {
        args = args.input("dy", dy);
    }
    plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
    out.to_vec::<f64>(&stream).unwrap()
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let desc = |text: &str| text.parse::<TensorDesc>().unwrap();
    let forward = |coef, x: &str, y: &str| {
        ActivationProblem::forward((ActivationMode::ClippedRelu, coef), &desc(x), &desc(y)).unwrap_err().to_string()
    };
    assert_eq!(forward(1.0, "2x3:f32", "3x2:f32"), "activation: bad y: expected the extents 2x3 of x, given 3x2");
    assert_eq!(forward(1.0, "2x3:f32", "2x3:f16"), "activation: bad y: expected the element type f32 of x, given f16");
    assert!(forward(1.0, "2x3:f32", "2x3:f32:s0x1").contains("do not overlap"));
    assert!(forward(-1.0, "2x3:f32", "2x3:f32").contains("given -1"));
    assert!(forward(f64::NAN, "2x3:f32", "2x3:f32").contains("given NaN"));
    let text = |text: &str| text.parse::<ActivationProblem>().unwrap_err().to_string();
    assert!(text("activation:sideways mode=relu x=2:f32").contains("given \"sideways\""));
    assert!(text("activation:forward mode=cube x=2:f32").contains("given \"cube\""));
    assert!(text("activation:forward mode=relu lower=2 upper=1 x=2:f32").contains("upper one, 1, given 2"));
    assert!(text("activation:forward mode=softplus coef=0 x=2:f32").contains("another number than 0"));
    assert!(text("activation:forward mode=selu gamma=inf x=2:f32").contains("bad gamma: expected a finite number"));
    assert!(text("activation:forward mode=gelu coef=1 x=2:f32").contains("repeated key \"coef\""));
    assert!(text("activation:forward mode=relu").contains("expected x="));
    assert!(text("activation:forward mode=relu x=2:f32 z=3").contains("unknown or repeated key \"z\""));
}
