//! One filter a channel, rows copied through shared memory: against the reference, exactly, and the adjoint law.

use super::laws::{fprop_and_dgrad_are_adjoints, refuses_misaligned_addresses};
use super::reference::{check_integers, named};
use kernel_abi::DType;
use kernel_abi::ops::conv::{ConvPass, ConvProblem};
use oxidnn_tests::{check, problems};
use proptest::prelude::*;

/// The passes that have kernels.
fn pass() -> impl Strategy<Value = ConvPass> {
    prop::sample::select(&[ConvPass::Fprop, ConvPass::Dgrad][..])
}

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn random_problems_match_the_reference(problem in problems::conv::depthwise_rows(pass()), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn integers_come_out_exactly(problem in problems::conv::depthwise_rows(pass()), seed in any::<u64>()) {
        check_integers(&problem, seed)?;
    }

    #[test]
    fn passes_are_adjoints(fprop in problems::conv::depthwise_rows(Just(ConvPass::Fprop)), seed in any::<u64>()) {
        fprop_and_dgrad_are_adjoints(&fprop, seed)?;
    }
}

const SHAPES: &[&str] = &[
    // Layers of networks: whole images beside each other, bands, tiles of columns, slices of different channels.
    "pad=1x1 stride=1x1 groups=72 x=1x72x28x28:T:nhwc w=72x1x3x3:T",
    "pad=1x1 stride=1x1 groups=72 x=9x72x7x7:T:nhwc w=72x1x3x3:T",
    "pad=1x1 stride=2x2 groups=144 x=3x144x14x14:T:nhwc w=144x1x3x3:T",
    "pad=2x2 stride=1x1 groups=120 x=1x120x14x14:T:nhwc w=120x1x5x5:T",
    "pad=2x2 stride=1x1 groups=40 x=5x40x7x7:T:nhwc w=40x1x5x5:T",
    "pad=2x2 stride=2x2 groups=72 x=1x72x28x28:T:nhwc w=72x1x5x5:T",
    // Channels of one slice with some left over, and of several.
    "pad=1x1 stride=1x1 groups=8 x=40x8x9x8:T:nhwc w=8x1x3x3:T",
    "pad=1x1 stride=1x1 groups=648 x=1x648x5x6:T:nhwc w=648x1x3x3:T",
    "pad=1x1 stride=2x2 groups=328 x=2x328x6x5:T:nhwc w=328x1x3x3:T mode=convolution",
    // Wide rows and long columns, whose ends fill no strip, tile or band.
    "pad=1x1 stride=1x1 groups=8 x=1x8x5x300:T:nhwc w=8x1x3x3:T",
    "pad=2x2 stride=1x1 groups=8 x=1x8x4x531:T:nhwc w=8x1x5x5:T",
    "pad=2x2 stride=2x2 groups=8 x=1x8x7x611:T:nhwc w=8x1x5x5:T",
    "pad=1x1 stride=1x1 groups=8 x=1x8x300x5:T:nhwc w=8x1x3x3:T",
    "pad=1x1 stride=2x2 groups=8 x=1x8x301x9:T:nhwc w=8x1x3x3:T",
    // More padding than the filter reaches, on both sides or one; none at all; windows that meet nothing.
    "pad=5x4 pad_end=6x3 stride=1x1 groups=8 x=2x8x6x5:T:nhwc w=8x1x3x3:T",
    "pad=5x4 pad_end=6x3 stride=2x2 groups=8 x=2x8x6x5:T:nhwc w=8x1x3x3:T",
    "pad=9x9 pad_end=9x9 stride=1x1 groups=8 x=2x8x2x1:T:nhwc w=8x1x5x5:T",
    "pad=9x9 pad_end=9x9 stride=2x2 groups=8 x=2x8x1x2:T:nhwc w=8x1x5x5:T",
    "pad=0x0 stride=1x1 groups=8 x=2x8x7x7:T:nhwc w=8x1x5x5:T mode=convolution",
    "pad=0x0 pad_end=2x0 stride=2x2 groups=8 x=2x8x11x12:T:nhwc w=8x1x5x5:T",
    "pad=0x0 stride=1x1 groups=8 x=3x8x3x3:T:nhwc w=8x1x3x3:T",
    // More images than a tile has, and more tiles than blocks.
    "pad=1x1 stride=1x1 groups=8 x=1001x8x3x2:T:nhwc w=8x1x3x3:T",
    "pad=1x1 stride=2x2 groups=24 x=601x24x3x3:T:nhwc w=24x1x3x3:T",
];

#[test]
fn named_shapes_match_the_reference() {
    for (i, shape) in SHAPES.iter().enumerate() {
        let dtype = [DType::F16, DType::BF16][i % 2];
        for pass in [ConvPass::Fprop, ConvPass::Dgrad] {
            let problem: ConvProblem = named(shape, pass, dtype);
            check(&problem, i as u64).unwrap_or_else(|e| panic!("{e}"));
            check_integers(&problem, i as u64).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

#[test]
fn misaligned_addresses_are_refused() {
    let problem = "conv:fprop pad=1x1 groups=8 x=1x8x4x4:bf16:nhwc w=8x1x3x3:bf16 y=1x8x4x4:bf16:nhwc";
    refuses_misaligned_addresses("depthwise_tma", problem, 256);
}
