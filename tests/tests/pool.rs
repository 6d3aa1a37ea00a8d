//! Pooling against the reference, exactly where it is exact, its adjoint law and its refusals.

use kernel_abi::ops::pool::{PoolDesc, PoolMode, PoolPass, PoolProblem};
use kernel_abi::{DType, TensorDesc};
use oxidnn::operators::AnyProblem;
use oxidnn::{Args, Policy, Verdict};
use oxidnn_reference::ops::pool::{backward_average, backward_from_index, backward_lp, forward, index};
use oxidnn_tests::oracle::check_case;
use oxidnn_tests::{Case, Fill, check, check_exact, contexts, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::pool::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
        check_case(&problem, &Case::normal(seed).scaled(1.5, -0.75).shifted(1))?;
    }

    #[test]
    fn maxima_come_out_exactly(problem in problems::pool::any(), seed in any::<u64>()) {
        if problem.mode() == PoolMode::Max {
            // Few values, so that windows have several maxima and the first must win.
            check_exact(&problem, seed, 2)?;
        }
    }

    #[test]
    fn the_average_passes_are_adjoint(problem in problems::pool::any(), seed in any::<u64>()) {
        let average = matches!(problem.mode(), PoolMode::AverageIncludePadding | PoolMode::AverageExcludePadding);
        if average && problem.pool_pass() == PoolPass::Forward {
            let x = Fill::Normal.values(problem.x().n_elems() as usize, DType::F64, seed);
            let dy = Fill::Normal.values(problem.y().n_elems() as usize, DType::F64, !seed);
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let (left, right) = (dot(&dy, &forward(&problem, &x)), dot(&backward_average(&problem, &dy), &x));
            prop_assert!((left - right).abs() <= 1e-10 * (1.0 + left.abs()), "{left} and {right}");
        }
    }
}

/// The slope of norms, against differences.
#[test]
fn the_gradient_of_norms_is_their_slope() {
    for p in [1.0, 1.5, 2.0, 3.0, 4.5] {
        let text = format!("pool:forward mode=lp p={p} window=3 stride=2 pad=1 x=1x2x7:f64");
        let problem: PoolProblem = text.parse().unwrap();
        let x = Fill::Normal.values(14, DType::F64, 7);
        let dy = Fill::Normal.values(problem.y().n_elems() as usize, DType::F64, 8);
        let value = |x: &[f64]| forward(&problem, x).iter().zip(&dy).map(|(y, dy)| y * dy).sum::<f64>();
        for (i, slope) in backward_lp(&problem, &x, &dy).into_iter().enumerate() {
            let at = |step: f64| {
                value(&x.iter().enumerate().map(|(j, x)| x + if i == j { step } else { 0.0 }).collect::<Vec<_>>())
            };
            let difference = (at(1e-6) - at(-1e-6)) / 2e-6;
            assert!((difference - slope).abs() < 1e-7, "p = {p}, {i}: {difference} and {slope}");
        }
    }
}

/// Every device's maxima beside NaNs.
#[test]
fn what_a_nan_counts_as() {
    let nan = f64::NAN;
    let x = [1.0, nan, 3.0, 2.0, nan, nan, nan, -1.0];
    for (nan, expected, places) in
        [("propagate", [nan, 3.0, nan, nan], [1, 2, 4, 6]), ("ignore", [1.0, 3.0, nan, -1.0], [0, 2, 4, 7])]
    {
        let text = format!("pool:forward mode=max window=2 nan={nan} x=1x1x8:f64 index=1x1x4:i32");
        let problem: PoolProblem = text.parse().unwrap();
        let same = |y: &[f64]| y.iter().zip(&expected).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
        assert!(same(&forward(&problem, &x)));
        assert_eq!(index(&problem, &x), places.map(f64::from));
        for context in contexts() {
            let stream = context.stream().unwrap();
            let plan = context.plan(&problem, Policy::Heuristic).unwrap();
            let x = context.tensor_from(problem.x(), &x).unwrap();
            let mut y = context.tensor(problem.y()).unwrap();
            let mut index = context.tensor(problem.index().unwrap()).unwrap();
            let args = Args::new().input("x", &x).output("y", &mut y).output("index", &mut index);
            plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
            assert!(same(&y.to_vec::<f64>(&stream).unwrap()), "{nan}");
            assert_eq!(index.to_vec::<i32>(&stream).unwrap(), places, "{nan}");
        }
    }
}

/// Every algorithm's gradient of maxima among numbers of all kinds: NaNs, infinities, zeros of both signs, huge ones.
#[test]
fn gradients_find_the_first_of_any_maxima() {
    let kinds = [f64::NAN, f64::NEG_INFINITY, f64::NEG_INFINITY, f64::INFINITY, -0.0, 0.0, -1.0, -60000.0, 60000.0];
    for (layout, dtype) in [("", "f32"), (":nhwc", "f32"), (":nhwc", "f16"), ("", "bf16"), (":nhwc", "bf16")] {
        for window in [
            "window=3 stride=1 pad=1",
            "window=3 stride=2 pad=1",
            "window=2 stride=2 ceil=1",
            "window=5 stride=3 pad=2",
        ] {
            for nan in ["propagate", "ignore"] {
                let x = format!("2x8x9x7:{dtype}{layout}");
                let text = format!("pool:backward mode=max {} nan={nan} x={x}", in_two_axes(window));
                let problem: PoolProblem = text.parse().unwrap();
                let n = problem.x().n_elems() as usize;
                // Some windows have nothing but the first kinds.
                let kind = |(i, number): (usize, f64)| {
                    let few = if i % 126 < 63 { 3 } else { kinds.len() };
                    let large = if dtype == "f16" { 1.0 } else { 1e33 };
                    kinds[(number.abs() * 1e3) as usize % few] * large
                };
                let x: Vec<f64> = Fill::Normal.values(n, DType::F64, 5).into_iter().enumerate().map(kind).collect();
                let x: Vec<f64> = x.into_iter().map(|value| f64::from(value as f32)).collect();
                let dy = Fill::Integers { max: 4 }.values(problem.y().n_elems() as usize, DType::F64, 6);
                check_gradient(&problem, &x, &dy);
            }
        }
    }
}

/// Every algorithm's gradient where dy is infinite or no number: what other windows have is not touched by it.
#[test]
fn gradients_that_are_no_numbers_stay_where_they_belong() {
    let kinds = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    for (layout, dtype) in [("", "bf16"), (":nhwc", "f16"), (":nhwc", "bf16"), (":nhwc", "f32")] {
        for window in ["window=3 stride=1 pad=1", "window=3 stride=1", "window=3 stride=2 pad=1"] {
            // Wider than what a product takes at once.
            let text = format!("pool:backward mode=max {} x=3x72x6x30:{dtype}{layout}", in_two_axes(window));
            let problem: PoolProblem = text.parse().unwrap();
            let x = Fill::Normal.values(problem.x().n_elems() as usize, problem.x().dtype(), 5);
            let dy = Fill::Integers { max: 4 }.values(problem.y().n_elems() as usize, DType::F64, 6);
            let special = |(i, value): (usize, f64)| if i % 37 == 0 { kinds[i / 37 % kinds.len()] } else { value };
            let dy: Vec<f64> = dy.into_iter().enumerate().map(special).collect();
            check_gradient(&problem, &x, &dy);
        }
    }
}

/// Gradients of images that are cut into strips of rows and tiles of columns, or lie beside each other in a block, and whose channels
/// are no whole slices.
#[test]
fn gradients_of_strips_and_tiles_match_the_reference() {
    for (window, x) in [
        ("window=3 stride=2 ceil=1", "2x64x16x112:bf16:nhwc"),
        ("window=3 stride=2 pad=1", "1x72x33x115:f16:nhwc"),
        ("window=3 stride=2 pad=1", "5x136x29x28:bf16:nhwc"),
        ("window=3 stride=2", "9x8x15x14:f16:nhwc"),
        ("window=3 stride=2 ceil=1", "3x24x3x58:bf16:nhwc"),
        ("window=3 stride=2 pad=1", "2x16x1x1:bf16:nhwc"),
        ("window=3 stride=2 pad=1", "2x40x14x13:bf16"),
    ] {
        let problem: PoolProblem = format!("pool:backward mode=max {} x={x}", in_two_axes(window)).parse().unwrap();
        check(&problem, 3).unwrap();
        check_exact(&problem, 4, 2).unwrap();
        check_case(&problem, &Case::normal(5).scaled(1.5, -0.75).shifted(1)).unwrap();
    }
}

/// `window=3 stride=1 …` for both axes.
fn in_two_axes(words: &str) -> String {
    let twice = |word: &str| match word.split_once('=') {
        Some((name, value)) if name != "ceil" => format!("{name}={value}x{value}"),
        _ => word.to_owned(),
    };
    words.split(' ').map(twice).collect::<Vec<_>>().join(" ")
}

/// Compares the gradient for these x and dy with the reference's on every device.
fn check_gradient(problem: &PoolProblem, x: &[f64], dy: &[f64]) {
    // NaNs are as good as each other.
    let bits = |values: &[f64]| values.iter().map(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }.to_bits()).collect();
    let expected: Vec<u64> = bits(&backward_from_index(problem, &index(problem, x), dy));
    for context in contexts() {
        let stream = context.stream().unwrap();
        for candidate in AnyProblem::candidates(problem, context) {
            if !matches!(candidate.verdict, Verdict::Able { .. }) {
                continue;
            }
            let name = if context.is_gpu() { candidate.config } else { candidate.algorithm };
            let plan = context.plan(problem, Policy::fixed(name)).unwrap();
            let x = context.tensor_from(problem.x(), x).unwrap();
            let dy = context.tensor_from(problem.y(), dy).unwrap();
            let mut dx = context.tensor(problem.dx().unwrap()).unwrap();
            let args = Args::new().input("x", &x).input("dy", &dy).output("dx", &mut dx);
            plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
            let found: Vec<u64> = bits(&dx.to_vec::<f64>(&stream).unwrap());
            let first = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            let numbers = first.map(|i| (i, f64::from_bits(found[i]), f64::from_bits(expected[i])));
            assert_eq!(numbers, None, "{problem}: {name}: place, found and expected");
        }
    }
}

/// Norms of numbers whose powers overflow, and of nothing but zeros.
#[test]
fn norms_neither_overflow_nor_divide_by_zero() {
    for context in contexts() {
        let stream = context.stream().unwrap();
        let run = |text: &str, operands: &[&[f32]]| {
            let problem: PoolProblem = text.parse().unwrap();
            let plan = context.plan(&problem, Policy::Heuristic).unwrap();
            let mut tensors: Vec<_> =
                plan.operands().iter().map(|operand| context.tensor(&operand.desc).unwrap()).collect();
            let mut out = tensors.pop().unwrap();
            let mut args = Args::new();
            for ((tensor, values), operand) in tensors.iter_mut().zip(operands).zip(plan.operands()) {
                tensor.write(&stream, values).unwrap();
                args = args.input(operand.name, &*tensor);
            }
            let name = plan.operands().last().unwrap().name;
            plan.run(&stream, args.output(name, &mut out), &mut plan.workspace().unwrap()).unwrap();
            out.to_vec::<f32>(&stream).unwrap()
        };
        let x = [3e30, 4e30, 0.0, 0.0, 3e-30, -4e-30];
        let y = run("pool:forward mode=lp window=2 x=1x1x6:f32", &[&x]);
        assert!((y[0] / 5e30 - 1.0).abs() < 1e-6 && y[1] == 0.0 && (y[2] / 5e-30 - 1.0).abs() < 1e-6, "{y:?}");
        let dx = run("pool:backward mode=lp window=2 x=1x1x6:f32", &[&x, &[1.0; 3]]);
        let near = |a: f32, b: f32| (a - b).abs() < 1e-6;
        assert!(near(dx[0], 0.6) && near(dx[1], 0.8) && dx[2] == 0.0 && near(dx[5], -0.8), "{dx:?}");
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<PoolProblem>().unwrap_err().to_string();
    assert!(text("pool:forward mode=max window=2x2 x=4x4:f32").contains("bad x: expected a rank of 3 to 5"));
    assert!(
        text("pool:forward mode=max window=2x2x2 x=1x1x4x4:f32")
            .contains("bad window: expected 1 or 2 values, given 3")
    );
    assert!(text("pool:forward mode=max window=0x2 x=1x1x4x4:f32").contains("given 0 for axis 0"));
    assert!(text("pool:forward mode=max window=2x2 stride=1x-1 x=1x1x4x4:f32").contains("bad stride"));
    assert!(
        text("pool:forward mode=max window=2x2 pad=2x0 x=1x1x4x4:f32").contains("less than the window, 2, given 2")
    );
    assert!(text("pool:forward mode=max window=2x2 pad=-1x0 x=1x1x4x4:f32").contains("given -1"));
    assert!(text("pool:forward mode=max window=5x2 x=1x1x4x4:f32").contains("padded image, 4"));
    assert!(text("pool:forward mode=max window=2x2 x=1x1x4x4:f32 y=1x1x3x2:f32").contains("extents 1x1x2x2"));
    assert!(text("pool:forward mode=max window=2x2 x=1x1x4x4:f32 y=1x1x2x2:f16").contains("element type f32"));
    assert!(text("pool:forward mode=max window=2x2 x=1x1x4x4:f32 y=1x1x2x2:f32:s4x4x0x1").contains("do not overlap"));
    assert!(text("pool:backward mode=max window=2x2").contains("expected x="));
    assert!(text("pool:forward mode=max window=2x2 dil=0 x=1x1x4x4:f32").contains("bad dil"));
    assert!(text("pool:forward mode=max window=2 dil=4 pad=2 stride=1 x=1x1x1:f32").contains("some of the image"));
    assert!(text("pool:forward mode=max window=2 ceil=2 x=1x1x4:f32").contains("0 or 1, given 2"));
    assert!(text("pool:forward mode=max bins=0 x=1x1x4:f32").contains("bad bins"));
    assert!(text("pool:forward mode=max bins=2 window=2 x=1x1x4:f32").contains("given both"));
    assert!(text("pool:forward mode=lp p=0.5 window=2 x=1x1x4:f32").contains("at least 1, given 0.5"));
    assert!(text("pool:forward mode=lp window=2 x=1x1x4:f32 index=1x1x2:i32").contains("mode=max only, given lp"));
    assert!(text("pool:forward mode=max window=2 x=1x1x4:f32 index=1x1x2:f32").contains("i32 or i64, given f32"));
    assert!(text("pool:forward mode=max window=2 x=1x1x4:f32 index=1x1x3:i32").contains("bad index"));
    assert!(text("pool:forward mode=max window=2 x=1x1x4:f32 index=1x1x2:i64:s2x2x0").contains("do not overlap"));
    assert!(
        text("pool:backward mode=max bins=1 dx=1x1x65536x65536:f32 index=1x1x1x1:i32")
            .contains("numbers up to 4294967295, given i32")
    );
    let x = TensorDesc::nchw(DType::F32, 1, 1, 4, 4).unwrap();
    let wrong = TensorDesc::nchw(DType::F32, 1, 1, 4, 5).unwrap();
    let desc = PoolDesc::new(PoolMode::Max, &[2]);
    let dy = TensorDesc::packed(DType::F32, &desc.output_dims(&x).unwrap()).unwrap();
    assert!(PoolProblem::backward(&desc, &x, &dy, &wrong).unwrap_err().to_string().contains("bad dx"));
}
