//! Filters of one tap between tensors of which one has few channels: teams of every size, few channels of all numbers,
//! strides, scales, and what is refused.

use super::reference::check_integers;
use kernel_abi::TensorDesc;
use kernel_abi::ops::conv::ConvProblem;
use oxidnn::{Args, Policy};
use oxidnn_tests::{Case, check, check_case, gpu};

const SHAPES: &[&str] = &[
    "conv:fprop x=2x32x9x7:bf16:nhwc w=3x32x1x1:bf16:nhwc",
    "conv:fprop x=2x8x40x41:bf16:nhwc w=1x8x1x1:bf16",
    "conv:fprop x=3x256x5x5:f16:nhwc w=8x256x1x1:f16",
    "conv:fprop x=2x40x6x7x5:bf16:nhwc w=5x40x1x1x1:bf16",
    "conv:fprop x=1x24x31x33:f32:nhwc w=5x24x1x1:f32:nhwc",
    "conv:fprop x=2x64x9x7:f16:nhwc w=4x64x1x1:f16 y=2x4x9x7:f16",
    "conv:fprop x=1x128x300:f32:s48000x1x160 w=7x128x1:f32",
    "conv:fprop x=2x3x19x17:f16:nhwc w=200x3x1x1:f16",
    "conv:fprop x=5x1x7x3:f32:nhwc w=12x1x1x1:f32 y=5x12x7x3:f32:nhwc",
    "conv:dgrad dx=2x32x9x7:bf16:nhwc w=3x32x1x1:bf16:nhwc",
    "conv:dgrad dx=2x3x9x7:bf16:nhwc w=64x3x1x1:bf16:nhwc",
    "conv:dgrad dx=1x128x300:f32:s38400x1x128 w=7x128x1:f32",
];

#[test]
fn named_shapes_match_the_reference() {
    let Some(context) = gpu("pointwise_lanes::named_shapes_match_the_reference") else { return };
    for (i, text) in SHAPES.iter().enumerate() {
        let problem: ConvProblem = text.parse().unwrap();
        // A channels-first y has no even distance between positions of all images.
        let is_taken = context.plan(&problem, Policy::fixed("pointwise_lanes")).is_ok();
        assert_eq!(is_taken, !text.contains("y=2x4x9x7:f16"), "{text}");
        check(&problem, i as u64).unwrap_or_else(|e| panic!("{e}"));
        check_integers(&problem, i as u64).unwrap_or_else(|e| panic!("{e}"));
        check_case(&problem, &Case::normal(i as u64).scaled(1.5, -0.75)).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// So many positions that teams go on to others.
#[test]
fn teams_go_on_from_round_to_round() {
    let Some(context) = gpu("teams_go_on_from_round_to_round") else { return };
    let positions = 2 * 16 * context.info().n_units * 32 + 5;
    for text in [
        format!("conv:fprop x=1x128x{positions}:f32:nhwc w=1x128x1:f32"),
        format!("conv:dgrad dx=1x128x{positions}:f32:nhwc w=1x128x1:f32"),
    ] {
        check(&text.parse::<ConvProblem>().unwrap(), 3).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn misaligned_addresses_are_refused() {
    let Some(context) = gpu("pointwise_lanes::misaligned_addresses_are_refused") else { return };
    let problem: ConvProblem = "conv:fprop x=1x8x4x4:bf16:nhwc w=2x8x1x1:bf16".parse().unwrap();
    let whole: TensorDesc = "256:bf16".parse().unwrap();
    let stream = context.stream().unwrap();
    let (x, w) = (context.tensor(&whole).unwrap(), context.tensor(problem.w()).unwrap());
    let mut y = context.tensor(problem.y()).unwrap();
    let plan = context.plan(&problem, Policy::fixed("pointwise_lanes")).unwrap();
    let args = Args::new().input("x", x.window(4, problem.x()).unwrap()).input("w", &w).output("y", &mut y);
    let refusal = plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap_err().to_string();
    assert!(refusal.contains("conv: bad x: expected an address that is a multiple of 16"), "{refusal}");
}
