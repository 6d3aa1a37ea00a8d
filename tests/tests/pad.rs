//! Paddings and slices against the reference, exactly on integers, and their refusals; what views do without an operator.

use kernel_abi::ops::pad::{PadPass, PadProblem};
use kernel_abi::ops::transform::TransformProblem;
use kernel_abi::{DType, TensorDesc};
use oxidnn::{Args, Policy};
use oxidnn_reference::Judge;
use oxidnn_tests::{Case, check, check_case, check_exact, contexts, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::pad::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
        check_case(&problem, &Case::normal(seed).shifted(1))?;
    }

    #[test]
    fn integers_come_out_exactly(problem in problems::pad::any(), seed in any::<u64>()) {
        // Sums of many copies are beyond what 8 and 16 bits hold.
        if problem.pad_pass() == PadPass::Forward || matches!(problem.x().dtype(), DType::F32 | DType::F64) {
            check_exact(&problem.with_value(2.0), seed, 3)?;
        }
    }

    /// Backward is the adjoint: Σ y(x) · dy = Σ x · dx(dy), for a value of 0.
    #[test]
    fn backward_is_the_adjoint(problem in problems::pad::any(), seed in any::<u64>()) {
        let text = problem.with_value(0.0).to_string();
        let (head, _) = text.split_once(if text.contains(" x=") { " x=" } else { " dy=" }).unwrap();
        let words = head.split_once(' ').unwrap().1;
        let problem: PadProblem = text.parse().unwrap();
        let (x, y) = (problem.x().to_packed(), problem.y().to_packed());
        let forward: PadProblem = format!("pad:forward {words} x={x} y={y}").parse().unwrap();
        let backward: PadProblem = format!("pad:backward {words} dy={y} dx={x}").parse().unwrap();
        let values = |desc: &TensorDesc, seed| {
            oxidnn_tests::Fill::Normal.values(desc.n_elems() as usize, DType::F64, seed)
        };
        let (x, dy) = (values(&x, seed), values(&y, seed ^ 1));
        let (y, dx) = (forward.judge(std::slice::from_ref(&x)), backward.judge(std::slice::from_ref(&dy)));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let (left, right) = (dot(&y[0], &dy), dot(&x, &dx[0]));
        prop_assert!((left - right).abs() < 1e-9 * (1.0 + left.abs()), "{text}: {left}, {right}");
    }
}

/// Large enough that threads have several pieces, and blocks tiles of many rows: packed and channels-last, whatever rows begin
/// at.
#[test]
fn images_of_many_tiles() {
    for mode in ["constant", "edge", "reflect", "wrap"] {
        for (x, y, before) in [
            ("2x9x112x112:bf16", "2x9x114x114:bf16", "0x0x1x1"),
            ("2x12x63x61:f32", "2x12x70x69:f32", "0x0x3x4"),
            ("6x30x30x28:f16", "6x30x30x31:f16", "0x0x0x2"),
            ("1x24x56x56:bf16:nhwc", "1x24x60x60:bf16:nhwc", "0x0x2x2"),
            ("1x21x60x58:bf16:nhwc", "1x21x62x60:bf16:nhwc", "0x0x1x1"),
            ("1x60x2051:f16", "1x60x2100:f16", "0x0x20"),
        ] {
            for (pass, x_name, y_name) in [("forward", "x", "y"), ("backward", "dx", "dy")] {
                // Operands stand in the order in which they are read and written.
                let operands = if pass == "forward" { [(x_name, x), (y_name, y)] } else { [(y_name, y), (x_name, x)] };
                let operands = operands.map(|(name, desc)| format!("{name}={desc}")).join(" ");
                let problem: PadProblem = format!("pad:{pass} mode={mode} before={before} {operands}").parse().unwrap();
                check(&problem, 11).unwrap();
                check_case(&problem, &Case::normal(12).shifted(1)).unwrap();
            }
        }
    }
}

/// By hand, as ONNX's documentation has them.
#[test]
fn slices_and_paddings_of_a_row() {
    let judged = |text: &str| {
        let problem: PadProblem = text.parse().unwrap();
        check(&problem, 5).unwrap();
        problem.judge(&[vec![1.0, 2.0, 3.0, 4.0]]).remove(0)
    };
    assert_eq!(judged("pad:forward mode=constant value=9 before=1 x=4:f32 y=6:f32"), [9.0, 1.0, 2.0, 3.0, 4.0, 9.0]);
    assert_eq!(judged("pad:forward mode=reflect before=2 x=4:f32 y=7:f32"), [3.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0]);
    assert_eq!(judged("pad:forward mode=constant before=-3 step=-1 x=4:f32 y=4:f32"), [4.0, 3.0, 2.0, 1.0]);
    let desc = |text: &str| text.parse::<TensorDesc>().unwrap();
    let slice = PadProblem::slice(&[3], &[-2], &desc("4:i8"), &desc("2:i8")).unwrap();
    assert_eq!(slice.judge(&[vec![1.0, 2.0, 3.0, 4.0]])[0], [4.0, 2.0]);
}

/// Concatenation, slices in positive steps and expansion are transforms between windows and strides of 0.
#[test]
fn views_suffice() {
    let desc = |text: &str| text.parse::<TensorDesc>().unwrap();
    for context in contexts() {
        let stream = context.stream().unwrap();
        let copy =
            |from: &oxidnn::Tensor, at: i64, x: &TensorDesc, to: &mut oxidnn::Tensor, start: i64, y: &TensorDesc| {
                let problem = TransformProblem::new(x, y).unwrap();
                let plan = context.plan(&problem, Policy::Heuristic).unwrap();
                let args =
                    Args::new().input("x", from.window(at, x).unwrap()).output("y", to.window_mut(start, y).unwrap());
                plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
            };
        let a = context.tensor_from(&desc("2x2:f32"), &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let b = context.tensor_from(&desc("2x1:f32"), &[5.0f32, 6.0]).unwrap();
        let mut whole = context.tensor(&desc("2x3:f32")).unwrap();
        for (part, (at, window)) in [&a, &b].into_iter().zip(desc("2x3:f32").split(1, &[2, 1]).unwrap()) {
            copy(part, 0, part.desc(), &mut whole, at, &window);
        }
        assert_eq!(whole.to_vec::<f32>(&stream).unwrap(), [1.0, 2.0, 5.0, 3.0, 4.0, 6.0]);
        let mut slice = context.tensor(&desc("2x2:f32")).unwrap();
        let (at, window) = whole.desc().slice(&[0, 0], &[1, 2], &[2, 2]).unwrap();
        copy(&whole, at, &window, &mut slice, 0, &desc("2x2:f32"));
        assert_eq!(slice.to_vec::<f32>(&stream).unwrap(), [1.0, 5.0, 3.0, 6.0]);
        let mut expanded = context.tensor(&desc("2x3:f32")).unwrap();
        copy(&b, 0, &b.desc().expanded(&[2, 3]).unwrap(), &mut expanded, 0, &desc("2x3:f32"));
        assert_eq!(expanded.to_vec::<f32>(&stream).unwrap(), [5.0, 5.0, 5.0, 6.0, 6.0, 6.0]);
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<PadProblem>().unwrap_err().to_string();
    assert!(
        text("pad:forward mode=edge before=1 x=4:f32 y=4x1:f32").contains("bad y: expected the rank 1 of x, given 2")
    );
    assert!(
        text("pad:forward mode=edge before=1x1 x=4:f32 y=6:f32")
            .contains("expected 1 numbers, one a dimension, given 2")
    );
    assert!(text("pad:forward mode=edge before=1 step=0 x=4:f32 y=6:f32").contains("other steps than 0, given 0"));
    assert!(text("pad:forward mode=edge before=1 x=4:f32 y=6:f16").contains("element type f32 of x, given f16"));
    assert!(text("pad:forward mode=edge before=1 x=4:f32 y=6:f32:s0").contains("do not overlap"));
    assert!(text("pad:backward mode=edge before=1 dx=4:f32:s0 dy=6:f32").contains("do not overlap"));
    assert!(text("pad:forward mode=edge before=9223372036854775807 x=4:f32 y=6:f32").contains("below 2^62"));
    assert!(text("pad:forward mode=mirror before=1 x=4:f32 y=6:f32").contains("given \"mirror\""));
}
