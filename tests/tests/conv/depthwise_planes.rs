//! One filter a channel, packed planes copied through shared memory: against the reference, exactly, and the adjoint law.

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
    fn random_problems_match_the_reference(problem in problems::conv::depthwise_planes(pass()), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn integers_come_out_exactly(problem in problems::conv::depthwise_planes(pass()), seed in any::<u64>()) {
        check_integers(&problem, seed)?;
    }

    #[test]
    fn passes_are_adjoints(fprop in problems::conv::depthwise_planes(Just(ConvPass::Fprop)), seed in any::<u64>()) {
        fprop_and_dgrad_are_adjoints(&fprop, seed)?;
    }
}

const SHAPES: &[&str] = &[
    // Layers of networks: one image or several a job, columns in parts, planes of an odd number of bytes in 16.
    "pad=1x1 stride=1x1 groups=40 x=9x40x28x28:T w=40x1x3x3:T",
    "pad=1x1 stride=1x1 groups=32 x=7x32x14x14:T w=32x1x3x3:T",
    "pad=1x1 stride=1x1 groups=24 x=19x24x7x7:T w=24x1x3x3:T",
    "pad=1x1 stride=1x1 groups=3 x=2x3x112x112:T w=3x1x3x3:T",
    "pad=1x1 stride=2x2 groups=3 x=2x3x112x112:T w=3x1x3x3:T",
    "pad=1x1 stride=2x2 groups=48 x=9x48x14x14:T w=48x1x3x3:T",
    "pad=2x2 stride=1x1 groups=40 x=5x40x14x14:T w=40x1x5x5:T",
    "pad=2x2 stride=1x1 groups=40 x=9x40x7x7:T w=40x1x5x5:T",
    "pad=2x2 stride=2x2 groups=12 x=3x12x56x56:T w=12x1x5x5:T",
    "pad=2x2 stride=2x2 groups=24 x=9x24x14x14:T w=24x1x5x5:T mode=convolution",
    "pad=3x3 stride=1x1 groups=12 x=2x12x56x56:T w=12x1x7x7:T",
    "pad=3x3 stride=1x1 groups=24 x=9x24x7x7:T w=24x1x7x7:T",
    // Channels that fill no group, images that fill no job.
    "pad=1x1 stride=1x1 groups=22 x=13x22x8x8:T w=22x1x3x3:T",
    "pad=1x1 stride=1x1 groups=3 x=101x3x4x8:T w=3x1x3x3:T",
    "pad=1x1 stride=1x1 groups=648 x=1x648x5x6:T w=648x1x3x3:T",
    // Rows of even and odd numbers of columns that become the others.
    "pad=0x0 pad_end=1x1 stride=1x1 groups=16 x=3x16x9x10:T w=16x1x3x3:T",
    "pad=1x2 pad_end=2x1 stride=1x1 groups=16 x=3x16x9x10:T w=16x1x3x3:T",
    "pad=1x0 pad_end=1x1 stride=2x2 groups=16 x=3x16x9x12:T w=16x1x3x3:T",
    // Wide rows and long columns.
    "pad=1x1 stride=1x1 groups=8 x=1x8x5x300:T w=8x1x3x3:T",
    "pad=2x2 stride=1x1 groups=8 x=1x8x4x531:T w=8x1x5x5:T",
    "pad=1x1 stride=1x1 groups=8 x=1x8x300x5:T w=8x1x3x3:T",
    // More padding than the filter reaches, on both sides or one; none at all; windows that meet nothing.
    "pad=5x4 pad_end=6x3 stride=1x1 groups=8 x=2x8x6x5:T w=8x1x3x3:T",
    "pad=5x4 pad_end=6x3 stride=2x2 groups=8 x=2x8x6x6:T w=8x1x3x3:T",
    "pad=9x9 pad_end=9x9 stride=1x1 groups=8 x=2x8x2x1:T w=8x1x5x5:T",
    "pad=9x9 pad_end=9x9 stride=2x2 groups=8 x=2x8x1x2:T w=8x1x5x5:T",
    "pad=0x0 stride=1x1 groups=8 x=2x8x7x7:T w=8x1x5x5:T mode=convolution",
    // More images than a job has, and more jobs than blocks, so that a block comes to several groups of channels.
    "pad=1x1 stride=1x1 groups=8 x=1001x8x3x2:T w=8x1x3x3:T",
    "pad=1x1 stride=1x1 groups=2200 x=2x2200x2x4:T w=2200x1x3x3:T",
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
    let problem = "conv:fprop pad=1x1 groups=8 x=1x8x4x4:bf16 w=8x1x3x3:bf16 y=1x8x4x4:bf16";
    refuses_misaligned_addresses("depthwise_planes", problem, 256);
}
