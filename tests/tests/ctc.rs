//! Connectionist temporal classification against the reference, its laws and its refusals.

use kernel_abi::ops::ctc::CtcProblem;
use kernel_abi::{DType, Problem};
use oxidnn::{Args, Policy};
use oxidnn_reference::ops::ctc::{backward, forward, sequences};
use oxidnn_tests::{Fill, check, contexts, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::ctc::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    /// The loss is -ln of the summed probabilities of all ways to write the labels.
    #[test]
    fn the_loss_counts_every_alignment(seed in any::<u64>(), n_labels in 0usize..4) {
        let problem: CtcProblem = "ctc:forward reduction=none x=5x1x3:f64 target=1x3:i32".parse().unwrap();
        let x = Fill::Normal.values(15, DType::F64, seed);
        let labels: Vec<f64> = Fill::Normal.values(3, DType::F64, !seed).iter().map(|&v| 1.0 + f64::from(v > 0.0)).collect();
        let [loss] = forward(&problem, &sequences(&problem, &x, &labels, &[5.0], &[n_labels as f64]))[..] else { panic!() };
        let expected: Vec<usize> = labels[..n_labels].iter().map(|&label| label as usize).collect();
        let p = |t: usize, c: usize| x[3 * t + c].exp() / (0..3).map(|c| x[3 * t + c].exp()).sum::<f64>();
        let mut sum = 0.0;
        for path in 0..3usize.pow(5) {
            let classes: Vec<usize> = (0..5u32).map(|t| path / 3usize.pow(t) % 3).collect();
            let mut written = classes.clone();
            written.dedup();
            written.retain(|&c| c != 0);
            if written == expected {
                sum += classes.iter().enumerate().map(|(t, &c)| p(t, c)).product::<f64>();
            }
        }
        prop_assert!(loss == -sum.ln() || (loss + sum.ln()).abs() < 1e-12, "{loss} and {}", -sum.ln());
    }

    /// The backward pass is the forward pass's derivative, by a central difference.
    #[test]
    fn the_gradient_is_the_derivative(seed in any::<u64>(), reduction in prop::sample::select(&["none", "mean", "sum"][..])) {
        let words = format!("reduction={reduction} blank=2 x=7x3x5:f64 target=3x3:i32");
        let problem: CtcProblem = format!("ctc:forward {words}").parse().unwrap();
        let gradient: CtcProblem = format!("ctc:backward {words}").parse().unwrap();
        let draw = |i: u64, n: i64| Fill::Normal.values(n as usize, DType::F64, seed.wrapping_add(i));
        let [x, step] = [0, 1].map(|i| draw(i, problem.x().n_elems()));
        let labels: Vec<f64> = draw(2, 9).iter().map(|&t| problem.operands()[1].domain.map(t)).collect();
        let dloss = draw(3, problem.loss().n_elems());
        let all = |x: &[f64]| sequences(&problem, x, &labels, &[7.0, 6.0, 7.0], &[3.0, 0.0, 2.0]);
        let along = |sign: f64| {
            let x: Vec<f64> = x.iter().zip(&step).map(|(x, s)| x + sign * 1e-6 * s).collect();
            forward(&problem, &all(&x)).iter().zip(&dloss).map(|(a, b)| a * b).sum::<f64>()
        };
        let difference = (along(1.0) - along(-1.0)) / 2e-6;
        let expected: f64 = backward(&gradient, &all(&x), &dloss).iter().zip(&step).map(|(a, b)| a * b).sum();
        prop_assert!((difference - expected).abs() < 1e-5 * (1.0 + expected.abs()), "{difference} and {expected}");
    }
}

/// Sequences that are too short, and lengths and labels that are out of range.
#[test]
fn infinite_and_illegal_sequences() {
    for (zero, expected) in [(0, f32::INFINITY), (1, 0.0)] {
        let words = format!("reduction=none zero_infinity={zero} x=3x4x5:f32 target=4x3:i64");
        let problem: CtcProblem = format!("ctc:forward {words}").parse().unwrap();
        let gradient: CtcProblem = format!("ctc:backward {words}").parse().unwrap();
        for context in contexts() {
            let stream = context.stream().unwrap();
            let x = context.tensor_from(problem.x(), &[0.0f32; 60]).unwrap();
            let target = context.tensor_from(problem.target(), &[1i64, 1, 1, 1, 2, 3, 5, 1, 1, 1, 2, 3]).unwrap();
            let x_lengths = context.tensor_from(problem.x_lengths(), &[3i32, 2, 3, 4]).unwrap();
            let target_lengths = context.tensor_from(problem.target_lengths(), &[3i32, 1, 1, 1]).unwrap();
            let mut loss = context.tensor(problem.loss()).unwrap();
            let inputs = || Args::new().input("x", &x).input("target", &target).input("x_lengths", &x_lengths);
            let plan = context.plan(&problem, Policy::Heuristic).unwrap();
            let args = inputs().input("target_lengths", &target_lengths).output("loss", &mut loss);
            plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
            let loss = loss.to_vec::<f32>(&stream).unwrap();
            assert_eq!(loss[0], expected);
            assert!(loss[1].is_finite() && loss[2].is_nan() && loss[3].is_nan(), "{loss:?}");
            let dloss = context.tensor_from(gradient.loss(), &[1.0f32; 4]).unwrap();
            let mut dx = context.tensor(gradient.dx().unwrap()).unwrap();
            let plan = context.plan(&gradient, Policy::Heuristic).unwrap();
            let args = inputs().input("target_lengths", &target_lengths).input("dloss", &dloss).output("dx", &mut dx);
            plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
            let dx = dx.to_vec::<f32>(&stream).unwrap();
            for (row, dx) in dx.chunks(5).enumerate() {
                let right = match (row % 4, row / 4) {
                    (0, _) if zero == 1 => dx == [0.0; 5],
                    (1, 2) => dx == [0.0; 5],
                    (1, _) => dx.iter().all(|dx| dx.is_finite() && *dx != 0.0),
                    _ => dx.iter().all(|dx| dx.is_nan()),
                };
                assert!(right, "row {row}: {dx:?}");
            }
        }
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<CtcProblem>().unwrap_err().to_string();
    assert!(text("ctc:forward x=5x4:f32 target=4x3:i32").contains("bad x: expected rank 3, [T, N, C], given 2"));
    assert!(
        text("ctc:forward blank=5 x=3x4x5:f32 target=4x3:i32")
            .contains("bad blank: expected one of 5 classes, given 5")
    );
    assert!(text("ctc:forward x=3x4x5:f32 target=12:i32").contains("bad target: expected [N, S]"));
    assert!(text("ctc:forward x=3x4x5:f32 target=3x3:i32").contains("given 3x3"));
    assert!(text("ctc:forward x=3x4x5:f32 target=4x3:f32").contains("bad target: expected i32 or i64, given f32"));
    assert!(
        text("ctc:forward x=3x4x5:f32 target=4x3:i32 x_lengths=3:i32")
            .contains("bad x_lengths: expected one number a sequence, 4, given 3")
    );
    assert!(text("ctc:forward x=3x4x5:f32 target=4x3:i32 target_lengths=4:f32").contains("bad target_lengths"));
    assert!(
        text("ctc:forward x=3x4x5:f32 target=4x3:i32 loss=4:f32").contains("bad loss: expected one number, given 4")
    );
    assert!(
        text("ctc:forward x=3x4x5:bf16 target=4x3:i32 loss=1:f16")
            .contains("bad loss: expected the element type bf16 of x or its accumulator type f32, given f16")
    );
    assert!(text("ctc:backward x=3x4x5:f32 target=4x3:i32 dloss=1:bf16").contains("bad dloss: expected the element"));
    assert!(text("ctc:backward x=3x4x5:f32 target=4x3:i32 dx=3x4x5:f16").contains("bad dx"));
    assert!(text("ctc:forward zero_infinity=2 x=3x4x5:f32 target=4x3:i32").contains("expected 0 or 1, given 2"));
}
