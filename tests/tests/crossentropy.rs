//! Cross-entropy against the reference, its laws and its refusals.

use kernel_abi::ops::crossentropy::CrossEntropyProblem;
use kernel_abi::{DType, Problem};
use oxidnn::{Args, Policy};
use oxidnn_reference::ops::crossentropy::{backward, forward};
use oxidnn_tests::{Fill, check, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::crossentropy::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn packed_rows_match_the_reference(problem in problems::crossentropy::rows(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    /// The backward pass is the forward pass's derivative, by a central difference.
    #[test]
    fn the_gradient_is_the_derivative(
        seed in any::<u64>(),
        reduction in prop::sample::select(&["none", "mean", "sum"][..]),
        input in prop::sample::select(&["logits", "log_probs"][..]),
        target in prop::sample::select(&["4x3:i32", "4x5x3:f64"][..]),
    ) {
        let lse = if input == "logits" { " lse=4x3:f64" } else { "" };
        let total = if reduction == "mean" && target == "4x3:i32" { " total=1:f64" } else { "" };
        let words = format!("input={input} reduction={reduction} smoothing=0.2 x=4x5x3:f64 target={target} weight=5:f64{lse}{total}");
        let problem: CrossEntropyProblem = format!("crossentropy:forward {words}").parse().unwrap();
        let gradient: CrossEntropyProblem = format!("crossentropy:backward {words}").parse().unwrap();
        let draw = |i: u64, n: i64| Fill::Normal.values(n as usize, DType::F64, seed.wrapping_add(i));
        let [x, step] = [0, 1].map(|i| draw(i, problem.x().n_elems()));
        let weight: Vec<f64> = draw(2, 5).iter().map(|w| w.abs()).collect();
        let classes = problem.operands()[1].domain;
        let target: Vec<f64> = draw(3, problem.target().n_elems()).iter().map(|&t| classes.map(t)).collect();
        let dloss = draw(4, problem.loss().n_elems());
        let (_, lse, total) = forward(&problem, &x, &target, &weight);
        let along = |sign: f64| {
            let x: Vec<f64> = x.iter().zip(&step).map(|(x, s)| x + sign * 1e-6 * s).collect();
            forward(&problem, &x, &target, &weight).0.iter().zip(&dloss).map(|(a, b)| a * b).sum::<f64>()
        };
        let difference = (along(1.0) - along(-1.0)) / 2e-6;
        let total = problem.total().map(|_| total);
        let dx = backward(&gradient, &x, &target, &weight, &lse, total, &dloss);
        let expected: f64 = dx.iter().zip(&step).map(|(a, b)| a * b).sum();
        prop_assert!((difference - expected).abs() < 1e-6 * (1.0 + expected.abs()), "{difference} and {expected}");
    }
}

/// What PyTorch's documentation says of `ignore_index`, of means, and of classes that there are not.
#[test]
fn classes_that_do_not_count_and_classes_that_there_are_not() {
    let text = "ignore=-100 reduction=none x=3x4:f32 target=3:i64 lse=3:f32";
    let problem: CrossEntropyProblem = format!("crossentropy:forward {text}").parse().unwrap();
    let gradient: CrossEntropyProblem = format!("crossentropy:backward {text}").parse().unwrap();
    for context in oxidnn_tests::contexts() {
        let stream = context.stream().unwrap();
        let x = context.tensor_from(problem.x(), &[0.0f32; 12]).unwrap();
        let target = context.tensor_from(problem.target(), &[-100i64, 4, 1]).unwrap();
        let [mut loss, mut lse] = [problem.loss(), problem.lse().unwrap()].map(|desc| context.tensor(desc).unwrap());
        let plan = context.plan(&problem, Policy::Heuristic).unwrap();
        let args =
            Args::new().input("x", &x).input("target", &target).output("loss", &mut loss).output("lse", &mut lse);
        plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
        let loss = loss.to_vec::<f32>(&stream).unwrap();
        assert!(loss[0] == 0.0 && loss[1].is_nan() && (loss[2] - 4f32.ln()).abs() < 1e-6, "{loss:?}");
        let dloss = context.tensor_from(gradient.loss(), &[1.0f32; 3]).unwrap();
        let mut dx = context.tensor(gradient.dx().unwrap()).unwrap();
        let plan = context.plan(&gradient, Policy::Heuristic).unwrap();
        let args = Args::new().input("x", &x).input("target", &target).input("lse", &lse);
        let args = args.input("dloss", &dloss).output("dx", &mut dx);
        plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
        let dx = dx.to_vec::<f32>(&stream).unwrap();
        assert!(dx[..4] == [0.0; 4] && dx[4..8].iter().all(|dx| dx.is_nan()), "{dx:?}");
        assert!(
            dx[8..].iter().zip([0.25, -0.75, 0.25, 0.25]).all(|(dx, e): (&f32, f32)| (dx - e).abs() < 1e-6),
            "{dx:?}"
        );
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<CrossEntropyProblem>().unwrap_err().to_string();
    assert!(text("crossentropy:forward x=4:f32 target=4:i32").contains("bad x: expected a rank of at least 2"));
    assert!(
        text("crossentropy:forward x=4x5:f32 target=5:i32").contains("bad target: expected the extents 4 of x without")
    );
    assert!(text("crossentropy:forward x=4x5:f32 target=4:i8").contains("expected classes as i32 or i64"));
    assert!(
        text("crossentropy:forward x=4x5:f32 target=4x5:f16").contains("bad target: expected the element type f32")
    );
    assert!(text("crossentropy:forward ignore=1 x=4x5:f32 target=4x5:f32").contains("no ignored class"));
    assert!(text("crossentropy:forward smoothing=1.5 x=4x5:f32 target=4:i32").contains("from 0 to 1, given 1.5"));
    assert!(
        text("crossentropy:forward x=4x5:f16 target=4:i32 loss=1:f16").contains("accumulator type f32 of x, given f16")
    );
    assert!(
        text("crossentropy:forward x=4x5:f32 target=4:i32 loss=4:f32").contains("extents 1 of one number, given 4")
    );
    assert!(
        text("crossentropy:forward x=4x5:f32 target=4:i32 weight=4:f32").contains("bad weight: expected the extents 5")
    );
    assert!(text("crossentropy:forward reduction=sum x=4x5:f32 target=4:i32 total=1:f32").contains("bad total"));
    assert!(text("crossentropy:forward input=log_probs x=4x5:f32 target=4:i32 lse=4:f32").contains("bad lse"));
    assert!(
        text("crossentropy:backward x=4x5:f32 target=4:i32 total=1:f32").contains("lse: expected that of the forward")
    );
    assert!(
        text("crossentropy:backward x=4x5:f32 target=4:i32 lse=4:f32").contains("total: expected that of the forward")
    );
    assert!(text("crossentropy:forward reduction=most x=4x5:f32 target=4:i32").contains("one of none, mean, sum"));
    assert!(
        text("crossentropy:forward reduction=none x=4x5:f32 target=4:i32 loss=4:f32:s0").contains("do not overlap")
    );
}
