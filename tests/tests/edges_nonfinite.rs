//! Every algorithm against the spread of infinities and NaNs that it declares, and requests that ask for less.

use kernel_abi::ops::conv::{ConvPass, ConvProblem};
use kernel_abi::ops::matmul::MatmulProblem;
use kernel_abi::{DType, Problem, Role, TensorDesc};
use oxidnn::operators::{AnyProblem, Operation};
use oxidnn::{BatchSizes, Context, DeviceInfo, NonFinite, PlanRequest, Policy, Spread, Verdict};
use oxidnn_reference::{Judge, tolerance};
use oxidnn_tests::{contexts, edges, problems};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// Coordinates of an element.
fn coordinates(desc: &TensorDesc, mut linear: usize) -> Vec<i64> {
    let mut at: Vec<i64> = desc
        .dims()
        .iter()
        .rev()
        .map(|&extent| {
            let coordinate = linear as i64 % extent;
            linear /= extent as usize;
            coordinate
        })
        .collect();
    at.reverse();
    at
}

/// Whether an element of an operand may reach a result, of a convolution with this spread.
///
/// Positions beside a window are any of its last axis, and the next ones of the others, whose rows lie behind each other.
fn conv_reaches(problem: &ConvProblem, spread: Spread, operand: &str, from: &[i64], to: &[i64]) -> bool {
    if spread == Spread::None {
        return false;
    }
    let (shape, pass) = (problem.shape(), problem.conv_pass());
    let (group_c, group_k) = (shape.c / shape.groups, shape.k / shape.groups);
    let is_group = spread == Spread::Group;
    if pass == ConvPass::Wgrad {
        let (k, c) = (to[0], to[1]);
        return is_group
            || match operand {
                "x" => from[1] == k / group_k * group_c + c,
                _ => from[1] == k,
            };
    }
    if operand == "w" {
        let (k, c) = (from[0], from[1]);
        return is_group
            || match pass {
                ConvPass::Fprop => to[1] == k,
                _ => to[1] == k / group_k * group_c + c,
            };
    }
    let (x, y) = if pass == ConvPass::Fprop { (from, to) } else { (to, from) };
    if x[0] != y[0] || !(is_group || x[1] / group_c == y[1] / group_k) {
        return false;
    }
    let taps = &problem.w().dims()[2..];
    let is_near = |i: usize| {
        let axis = problem.axes()[i];
        let first = y[2 + i] * axis.stride - axis.padding;
        let last = first + (taps[i] - 1) * axis.dilation;
        (first - 1..=last + 1).contains(&x[2 + i])
    };
    matches!(spread, Spread::Tile | Spread::Channel) || (0..taps.len().saturating_sub(1)).all(is_near)
}

/// A number that is not finite at `place` of an input, through every algorithm: results that it may not reach are finite
/// and right where the reference has them so, and those that the reference has infinite or NaN are.
fn check<P: Operation + Judge>(
    problem: &P,
    (place, special, seed): (u64, f64, u64),
    reaches: impl Fn(Spread, &str, &[i64], &[i64]) -> bool,
) -> Result<(), TestCaseError> {
    let operands = Problem::operands(problem);
    let floats = [DType::F64, DType::F32, DType::F16, DType::BF16];
    if !operands.iter().all(|operand| floats.contains(&operand.desc.dtype()) && !operand.desc.self_overlaps()) {
        return Ok(());
    }
    let mut values = edges::normal(&operands, seed);
    let magnitudes = |values: &[Vec<f64>]| Judge::judge_magnitudes(problem, values, 1.0, 0.0);
    let scales = tolerance::scales(&operands, &values, (1.0, 0.0), magnitudes);
    let inputs: Vec<usize> = (0..operands.len()).filter(|&i| operands[i].role == Role::Input).collect();
    let input = inputs[place as usize % inputs.len()];
    let linear = (place / inputs.len() as u64) as usize % values[input].len();
    values[input][linear] = special;
    let from = coordinates(&operands[input].desc, linear);
    let expected = Judge::judge_scaled(problem, &values, 1.0, 0.0).remove(0);
    let output = operands.iter().find(|operand| operand.role != Role::Input).expect("there is an output");
    for context in contexts() {
        for candidate in edges::able(problem, context) {
            let transforms = candidate.spread >= Spread::Tile;
            let slack = if transforms { 16.0 } else { 1.0 };
            let (length, precision) = (Problem::accumulation_length(problem), Problem::precision(problem));
            let relative = tolerance::relative(output.desc.dtype(), precision, length, slack);
            let fail = |what: String| {
                TestCaseError::fail(format!(
                    "{problem}: {} ({}), spread {}, {special} in {} at {from:?}: {what}",
                    candidate.algorithm, candidate.config, candidate.spread, operands[input].name
                ))
            };
            let got = edges::run(problem, context, &candidate, &values).map_err(&fail)?.remove(0);
            for (i, (&expected, &got)) in expected.iter().zip(&got).enumerate() {
                let to = coordinates(&output.desc, i);
                let is_right = if expected.is_finite() {
                    (got - expected).abs() <= relative * (expected.abs() + scales[0][i])
                        || reaches(candidate.spread, operands[input].name, &from, &to)
                } else if candidate.spread == Spread::None {
                    got == expected || got.is_nan() && expected.is_nan()
                } else {
                    !got.is_finite()
                };
                if !is_right {
                    return Err(fail(format!("expected {expected} at {to:?}, given {got}")));
                }
            }
        }
    }
    Ok(())
}

fn special() -> impl Strategy<Value = (u64, f64, u64)> {
    let number = prop::sample::select(vec![f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
    (any::<u64>(), number, any::<u64>())
}

fn conv() -> impl Strategy<Value = ConvProblem> {
    let pass = || prop::sample::select(ConvPass::ALL.to_vec());
    let floats = prop::sample::select(vec![DType::F64, DType::F32, DType::F16, DType::BF16]);
    prop_oneof![
        3 => problems::conv::of(floats, pass()),
        1 => problems::conv::for_tensor_cores(pass()),
        1 => problems::conv::single(pass()),
        1 => problems::conv::three_by_three(pass()),
        1 => problems::conv::large_windows(pass()),
        1 => problems::conv::grouped(pass()),
        1 => problems::conv::nchw(pass()),
        1 => problems::conv::depthwise_rows(pass()),
        1 => problems::conv::depthwise_planes(pass()),
    ]
}

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn convolutions_spread_no_further_than_they_declare(problem in conv(), special in special()) {
        check(&problem, special, |spread, operand, from, to| conv_reaches(&problem, spread, operand, from, to))?;
    }

    #[test]
    fn products_of_matrices_spread_nothing(problem in problems::matmul::any(), special in special()) {
        let problem: MatmulProblem = problem;
        check(&problem, special, |_, _, _, _| false)?;
        for context in contexts() {
            prop_assert!(AnyProblem::candidates(&problem, context).iter().all(|one| one.spread == Spread::None));
        }
    }
}

/// Layers whose fastest algorithms transform tiles and images.
const TRANSFORMED: [&str; 3] = [
    "conv:fprop pad=1x1 x=32x256x14x14:f32:nhwc w=256x256x3x3:f32:nhwc",
    "conv:fprop pad=1x1 x=32x256x14x14:f32 w=256x256x3x3:f32",
    "conv:wgrad pad=2x2 x=32x64x27x27:f32:nhwc dw=192x64x5x5:f32:nhwc",
];

fn problem(text: &str) -> ConvProblem {
    text.parse().unwrap()
}

#[test]
fn policies_take_tiles_and_channels_only_where_they_are_asked_for() {
    let context = Context::described(DeviceInfo::h200());
    let judged = |text: &str, request: PlanRequest| {
        let divisions = AnyProblem::divisions(&problem(text), &context, &request).unwrap();
        divisions.candidates
    };
    let able = |request: PlanRequest, least: Spread| {
        TRANSFORMED
            .iter()
            .flat_map(|text| judged(text, request.clone()))
            .any(|candidate| candidate.spread >= least && matches!(candidate.verdict, Verdict::Able { .. }))
    };
    let request = PlanRequest::from(Policy::Heuristic);
    assert!(!able(request.clone(), Spread::Tile));
    assert!(able(request.clone().nonfinite(NonFinite::Permit), Spread::Tile));
    assert!(able(request.clone().only(["winograd"]), Spread::Tile));
    assert!(able(PlanRequest::from(Policy::fixed("fft_tiled")), Spread::Tile));
    assert!(able(request.clone(), Spread::Window));
    for request in [request.clone(), request.clone().micro_batches(BatchSizes::PowerOfTwo)] {
        assert!(!able(request.nonfinite(NonFinite::Strict), Spread::Window));
    }
    let by_words = judged(&TRANSFORMED[0].replace("pad=1x1", "pad=1x1 math=winograd4x4"), request);
    let of = |name: &str| by_words.iter().find(|candidate| candidate.algorithm == name).unwrap();
    assert!(matches!(of("winograd_4x4").verdict, Verdict::Able { .. }));
    let Verdict::Refused(reason) = &of("winograd").verdict else { panic!("winograd was not asked for") };
    assert!(reason.contains("spread: tile") && reason.contains("up to group"), "{reason}");
}

#[test]
fn strict_plans_name_the_spread_that_they_refuse() {
    let context = Context::cpu();
    let padded = problem("conv:fprop pad=1x1 x=1x3x6x6:f32 w=4x3x3x3:f32");
    let plan = context.plan(&padded, Policy::Heuristic.nonfinite(NonFinite::Strict)).unwrap();
    assert_eq!(plan.algorithm(), "cpu_direct");
    assert!(plan.explain().contains("nonfinite strict"), "{}", plan.explain());
    let named = context.plan(&padded, Policy::fixed("cpu_gemm").nonfinite(NonFinite::Strict)).unwrap_err().to_string();
    assert!(named.contains("spread: window") && named.contains("spread: none"), "{named}");
    let whole = problem("conv:fprop x=1x3x6x6:f32 w=4x3x3x3:f32");
    context.plan(&whole, Policy::fixed("cpu_gemm").nonfinite(NonFinite::Strict)).unwrap();
    for (text, expected) in [("default", NonFinite::Default), ("strict", NonFinite::Strict), ("any", NonFinite::Permit)]
    {
        assert_eq!(text.parse(), Ok(expected));
        assert_eq!(expected.to_string(), text);
    }
    assert!("some".parse::<NonFinite>().unwrap_err().contains("strict"));
}
