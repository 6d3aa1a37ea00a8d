//! Cross-entropy against the reference, its laws and its refusals.

use kernel_abi::ops::crossentropy::CrossEntropyProblem;
use kernel_abi::{DType, Problem};
use oxidnn::{Args, Policy, Verdict};
use oxidnn_reference::ops::crossentropy::{backward, forward};
use oxidnn_tests::oracle::check_case;
use oxidnn_tests::{Case, Fill, check, check_exact, check_in_place, contexts, problems, refusal};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::crossentropy::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn rows_match_the_reference(problem in problems::crossentropy::rows(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn rows_that_lie_anywhere_match_the_reference(
        problem in problems::crossentropy::rows(),
        shift in 1i64..8,
        seed in any::<u64>(),
    ) {
        check_case(&problem, &Case::normal(seed).scaled(1.5, -0.75).shifted(shift))?;
    }

    #[test]
    fn integers_are_exact(problem in problems::crossentropy::integers(), seed in any::<u64>()) {
        check_exact(&problem, seed, 3)?;
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
    for context in contexts() {
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

/// Rows for several blocks each, around the numbers of classes where the parts of rows begin and end.
#[test]
fn few_long_rows() {
    for (i, n) in [8191, 8192, 8193, 16_383, 16_384, 16_385, 40_000, 65_537].into_iter().enumerate() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            for reduction in ["none", "mean"] {
                let total = if reduction == "mean" { " total=1:f32" } else { "" };
                let text = format!("reduction={reduction} ignore=7 x=2x{n}:{dtype} target=2:i64 lse=2:f32{total}");
                for pass in ["forward", "backward"] {
                    let problem: CrossEntropyProblem = format!("crossentropy:{pass} {text}").parse().unwrap();
                    check(&problem, i as u64).unwrap();
                }
            }
        }
    }
}

#[test]
fn gradients_in_place_of_logits_and_probabilities() {
    for (i, n) in [1, 31, 700, 3001, 20_000].into_iter().enumerate() {
        let words = format!("smoothing=0.1 x=3x{n}:f16 lse=3:f32");
        let of = |rest: &str| format!("crossentropy:backward {words} {rest}").parse::<CrossEntropyProblem>().unwrap();
        check_in_place(&of("target=3:i32 total=1:f32"), "x", i as u64).unwrap();
        check_in_place(&of(&format!("target=3x{n}:f16")), "target", i as u64).unwrap();
    }
}

/// A class of probability 0 makes the loss infinite if it is the target; a row of nothing else, or with a NaN, is NaN.
#[test]
fn rows_with_infinities() {
    const LOW: f32 = f32::NEG_INFINITY;
    for n in [4usize, 300, 9000, 20_000] {
        let text = format!("crossentropy:forward reduction=none x=4x{n}:f32 target=4:i32 lse=4:f32");
        let problem: CrossEntropyProblem = text.parse().unwrap();
        let mut x = vec![0.0f32; 4 * n];
        x[..n].fill(LOW);
        x[n] = f32::NAN;
        x[2 * n] = LOW;
        x[3 * n + 1..].fill(LOW);
        for context in contexts() {
            let stream = context.stream().unwrap();
            let x = context.tensor_from(problem.x(), &x).unwrap();
            let target = context.tensor_from(problem.target(), &[1, 1, 0, 0]).unwrap();
            for candidate in oxidnn::operators::AnyProblem::candidates(&problem, context) {
                if !matches!(candidate.verdict, Verdict::Able { .. }) {
                    continue;
                }
                let name = if context.is_gpu() { candidate.config } else { candidate.algorithm };
                let plan = context.plan(&problem, Policy::fixed(name)).unwrap();
                let [mut loss, mut lse] = [problem.loss(), problem.lse().unwrap()].map(|d| context.tensor(d).unwrap());
                let args = Args::new().input("x", &x).input("target", &target);
                let args = args.output("loss", &mut loss).output("lse", &mut lse);
                plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
                let [loss, lse] = [loss, lse].map(|tensor| tensor.to_vec::<f32>(&stream).unwrap());
                assert!(loss[0].is_nan() && loss[1].is_nan() && lse[0].is_nan() && lse[1].is_nan(), "{name}: {loss:?}");
                assert!(loss[2] == f32::INFINITY && loss[3] == 0.0 && lse[3] == 0.0, "{name}: {loss:?} {lse:?}");
            }
        }
    }
}

#[test]
fn refusals_of_rows() {
    let Some(gpu) = oxidnn_tests::gpu("refusals_of_rows") else { return };
    let refused = |text: &str, algorithm: &str| {
        refusal(&gpu, &format!("crossentropy:{text}").parse::<CrossEntropyProblem>().unwrap(), algorithm)
    };
    let looped = |text: &str| refused(&format!("forward {text}"), "looped_rows");
    assert!(looped("x=4x5:f64 target=4:i32").contains("takes f32, f16 and bf16, given f64"));
    assert!(looped("x=4x5x3:f32 target=4x3:i32").contains("contiguous classes, given 4x5x3:f32"));
    assert!(looped("x=1x1073741825:f16 target=1:i32").contains("takes up to 1073741824 classes, given 1073741825"));
    let split = |text: &str| refused(text, "split_rows");
    assert!(split("forward x=4x5:f32 target=4:i32").contains("few and longer than 8192 classes, given 4 of 5"));
    assert!(split("forward smoothing=0.1 x=1x50000:f32 target=1:i32").contains("a smoothing of 0.1"));
    assert!(split("backward reduction=sum x=1x50000:f32 target=1:i32 lse=1:f32").contains("takes the forward pass"));
    assert_eq!(split("forward x=1x50000:f32 target=1:i32"), "");
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
        text("crossentropy:forward x=4x5:f16 target=4:i32 loss=1:bf16")
            .contains("bad loss: expected the element type f16 of x or its accumulator type f32, given bf16")
    );
    assert!(
        text("crossentropy:forward x=4x5:bf16 target=4:i32 weight=5:f64")
            .contains("bad weight: expected the element type bf16 of x or its accumulator type f32, given f64")
    );
    assert!(
        text("crossentropy:forward x=4x5:f32 target=4:i32 loss=1:f16").contains("expected the element type f32 of x,")
    );
    assert!(
        text("crossentropy:backward reduction=sum x=4x5:f64 target=4:i32 lse=4:f64 dloss=1:f32")
            .contains("bad dloss: expected the element type f64 of x, given f32")
    );
    assert!(
        text("crossentropy:forward x=4x5:f16 target=4:i32 lse=4:f16")
            .contains("bad lse: expected the accumulator type f32 of x, given f16")
    );
    assert!(
        text("crossentropy:forward x=4x5:f16 target=4:i32 total=1:f16")
            .contains("bad total: expected the accumulator type f32 of x, given f16")
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
