//! Narrow groups, rows copied through shared memory: named shapes against the reference and exactly, the adjoint laws of all
//! three passes, and refusals. Random ones are in [`super::reference`] and, of one filter a channel, in
//! [`super::depthwise_tma`], whose passes lack the `wgrad` that is here.

use super::laws::{algorithms, dot, refuses_misaligned_addresses, run};
use super::reference::{check_integers, named};
use kernel_abi::ops::conv::{ConvPass, ConvProblem};
use kernel_abi::{DType, Problem};
use oxidnn_tests::{Fill, check, contexts, hopper, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn random_wgrads_of_wide_rows_match_the_reference(
        problem in problems::conv::depthwise_rows(Just(ConvPass::Wgrad)),
        seed in any::<u64>(),
    ) {
        check(&problem, seed)?;
    }

    #[test]
    fn random_wgrads_of_wide_rows_come_out_exactly(
        problem in problems::conv::depthwise_rows(Just(ConvPass::Wgrad)),
        seed in any::<u64>(),
    ) {
        check_integers(&problem, seed)?;
    }
}

const SHAPES: &[&str] = &[
    // Layers of networks: whole images beside each other, one image, tiles of columns.
    "pad=1x1 stride=1x1 groups=32 x=2x128x28x28:T:nhwc w=128x4x3x3:T:nhwc",
    "pad=1x1 stride=1x1 groups=16 x=9x256x14x14:T:nhwc w=256x16x3x3:T:nhwc",
    "pad=1x1 stride=1x1 groups=6 x=19x192x7x7:T:nhwc w=192x32x3x3:T:nhwc",
    "pad=1x1 stride=2x2 groups=32 x=2x256x28x28:T:nhwc w=256x8x3x3:T:nhwc",
    "pad=1x1 stride=2x2 groups=6 x=10x192x14x14:T:nhwc w=192x32x3x3:T:nhwc",
    "pad=1x1 stride=1x1 groups=4 x=1x64x9x112:T:nhwc w=64x16x3x3:T:nhwc",
    "pad=1x1 stride=1x1 groups=144 x=3x144x14x14:T:nhwc w=144x1x3x3:T:nhwc",
    // Slices with channels left over, and of few.
    "pad=1x1 stride=1x1 groups=9 x=5x72x7x7:T:nhwc w=72x8x3x3:T:nhwc",
    "pad=1x1 stride=2x2 groups=5 x=2x80x9x9:T:nhwc w=80x16x3x3:T:nhwc",
    "pad=1x1 stride=1x1 groups=3 x=2x96x9x5:T:nhwc w=96x32x3x3:T:nhwc mode=convolution",
    "pad=1x1 stride=1x1 groups=4 x=40x8x9x8:T:nhwc w=8x2x3x3:T:nhwc",
    // Wide rows and long columns, whose ends fill no strip, tile or band.
    "pad=1x1 stride=1x1 groups=8 x=1x8x5x300:T:nhwc w=8x1x3x3:T:nhwc",
    "pad=1x1 stride=2x2 groups=8 x=1x8x7x611:T:nhwc w=8x1x3x3:T:nhwc",
    "pad=1x1 stride=1x1 groups=2 x=1x16x300x5:T:nhwc w=16x8x3x3:T:nhwc",
    "pad=1x1 stride=2x2 groups=1 x=1x16x301x9:T:nhwc w=16x16x3x3:T:nhwc",
    // More padding than the filter reaches, on both sides or one; none at all; windows that meet nothing.
    "pad=5x4 pad_end=6x3 stride=1x1 groups=2 x=2x16x6x5:T:nhwc w=16x8x3x3:T:nhwc",
    "pad=5x4 pad_end=6x3 stride=2x2 groups=1 x=2x32x6x5:T:nhwc w=32x32x3x3:T:nhwc",
    "pad=9x9 pad_end=9x9 stride=1x1 groups=1 x=2x16x2x1:T:nhwc w=16x16x3x3:T:nhwc",
    "pad=0x0 stride=1x1 groups=8 x=2x8x7x7:T:nhwc w=8x1x3x3:T:nhwc mode=convolution",
    "pad=0x0 pad_end=2x0 stride=2x2 groups=8 x=2x8x11x12:T:nhwc w=8x1x3x3:T:nhwc",
    "pad=0x0 stride=1x1 groups=2 x=3x16x3x3:T:nhwc w=16x8x3x3:T:nhwc",
    // More images than a tile has, and more tiles than blocks.
    "pad=1x1 stride=1x1 groups=8 x=1001x8x3x2:T:nhwc w=8x1x3x3:T:nhwc",
    "pad=1x1 stride=2x2 groups=3 x=601x24x3x3:T:nhwc w=24x8x3x3:T:nhwc",
    // 5 × 5 taps: layers of networks, and groups of every width.
    "pad=2x2 stride=1x1 groups=72 x=9x72x7x7:T:nhwc w=72x1x5x5:T:nhwc",
    "pad=2x2 stride=2x2 groups=200 x=3x200x14x14:T:nhwc w=200x1x5x5:T:nhwc",
    "pad=2x2 stride=1x1 groups=32 x=2x64x28x28:T:nhwc w=64x2x5x5:T:nhwc",
    "pad=1x3 pad_end=0x2 stride=1x1 groups=18 x=2x72x9x30:T:nhwc w=72x4x5x5:T:nhwc mode=convolution",
    "pad=0x0 stride=2x2 groups=4 x=2x32x11x12:T:nhwc w=32x8x5x5:T:nhwc mode=convolution",
    "pad=4x4 stride=1x1 groups=25 x=3x200x5x6:T:nhwc w=200x8x5x5:T:nhwc",
    "pad=3x4 stride=2x2 groups=1 x=2x8x6x5:T:nhwc w=8x8x5x5:T:nhwc",
    "pad=0x0 stride=1x1 groups=8 x=3x8x5x5:T:nhwc w=8x1x5x5:T:nhwc",
    // Their wide rows, long columns, many images, and windows that meet nothing.
    "pad=2x2 stride=1x1 groups=8 x=1x8x5x300:T:nhwc w=8x1x5x5:T:nhwc",
    "pad=2x2 stride=2x2 groups=8 x=1x8x7x611:T:nhwc w=8x1x5x5:T:nhwc",
    "pad=2x2 stride=1x1 groups=2 x=1x16x300x5:T:nhwc w=16x8x5x5:T:nhwc",
    "pad=2x2 stride=2x2 groups=4 x=1x16x301x9:T:nhwc w=16x4x5x5:T:nhwc",
    "pad=2x2 stride=1x1 groups=16 x=701x16x3x2:T:nhwc w=16x1x5x5:T:nhwc",
    "pad=2x2 stride=2x2 groups=24 x=401x24x3x3:T:nhwc w=24x1x5x5:T:nhwc",
    "pad=7x9 pad_end=8x6 stride=1x1 groups=1 x=2x8x2x1:T:nhwc w=8x8x5x5:T:nhwc",
    "pad=9x5 pad_end=6x8 stride=2x2 groups=8 x=2x8x3x2:T:nhwc w=8x1x5x5:T:nhwc",
    // 7 × 7 taps: layers of networks, groups of every width, and all of that again.
    "pad=3x3 stride=1x1 groups=96 x=2x96x56x28:T:nhwc w=96x1x7x7:T:nhwc",
    "pad=3x3 stride=1x1 groups=72 x=5x72x14x14:T:nhwc w=72x1x7x7:T:nhwc",
    "pad=3x3 stride=1x1 groups=200 x=9x200x7x7:T:nhwc w=200x1x7x7:T:nhwc mode=convolution",
    "pad=3x3 stride=1x1 groups=32 x=2x64x9x11:T:nhwc w=64x2x7x7:T:nhwc",
    "pad=1x3 pad_end=0x2 stride=1x1 groups=18 x=2x72x9x30:T:nhwc w=72x4x7x7:T:nhwc mode=convolution",
    "pad=6x6 stride=1x1 groups=25 x=3x200x5x6:T:nhwc w=200x8x7x7:T:nhwc",
    "pad=0x0 stride=1x1 groups=8 x=3x8x7x7:T:nhwc w=8x1x7x7:T:nhwc",
    "pad=3x3 stride=1x1 groups=8 x=1x8x5x300:T:nhwc w=8x1x7x7:T:nhwc",
    "pad=3x3 stride=1x1 groups=2 x=1x16x300x5:T:nhwc w=16x8x7x7:T:nhwc",
    "pad=3x3 stride=1x1 groups=16 x=701x16x3x2:T:nhwc w=16x1x7x7:T:nhwc",
    "pad=7x9 pad_end=8x6 stride=1x1 groups=1 x=2x8x2x1:T:nhwc w=8x8x7x7:T:nhwc",
];

fn named_shapes_match(pass: ConvPass) {
    for (i, shape) in SHAPES.iter().enumerate() {
        let problem: ConvProblem = named(shape, pass, [DType::F16, DType::BF16][i % 2]);
        check(&problem, i as u64).unwrap_or_else(|e| panic!("{e}"));
        check_integers(&problem, i as u64).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn named_shapes_match_the_reference_in_fprop() {
    named_shapes_match(ConvPass::Fprop);
}

#[test]
fn named_shapes_match_the_reference_in_dgrad() {
    named_shapes_match(ConvPass::Dgrad);
}

#[test]
fn named_shapes_match_the_reference_in_wgrad() {
    named_shapes_match(ConvPass::Wgrad);
}

/// ⟨dy, fprop(x, w)⟩ = ⟨dgrad(dy, w), x⟩ = ⟨wgrad(x, dy), w⟩, exactly: sums of so few small integers are not rounded.
#[test]
fn passes_are_adjoints() {
    for shape in [
        "pad=1x1 stride=1x1 groups=3 x=3x96x5x6:bf16:nhwc w=96x32x3x3:bf16:nhwc",
        "pad=1x0 stride=2x2 groups=4 x=4x64x6x5:bf16:nhwc w=64x16x3x3:bf16:nhwc",
        "pad=2x1 stride=1x1 groups=8 x=5x40x4x7:f16:nhwc w=40x5x3x3:f16:nhwc",
        "pad=2x1 stride=1x1 groups=10 x=5x40x4x7:f16:nhwc w=40x4x3x3:f16:nhwc",
        "pad=3x1 stride=1x1 groups=40 x=5x40x4x7:bf16:nhwc w=40x1x5x5:bf16:nhwc",
        "pad=3x5 stride=1x1 groups=20 x=5x40x4x7:bf16:nhwc w=40x2x7x7:bf16:nhwc",
    ] {
        let fprop: ConvProblem = format!("conv:fprop {shape}").parse().unwrap();
        let [dgrad, wgrad] = [ConvPass::Dgrad, ConvPass::Wgrad].map(|pass| problems::conv::with_pass(&fprop, pass));
        let dtype = fprop.x().dtype();
        let [x, w, dy] = [fprop.x(), fprop.w(), fprop.y()]
            .map(|desc| Fill::Integers { max: 1 }.values(desc.n_elems() as usize, dtype, desc.n_elems() as u64));
        for context in contexts() {
            let mut sums = Vec::new();
            for (problem, a, b, c) in [(&fprop, &x, &w, &dy), (&dgrad, &dy, &w, &x), (&wgrad, &x, &dy, &w)] {
                for algorithm in algorithms(context, problem) {
                    sums.push((algorithm, problem.pass(), dot(c, &run(context, algorithm, problem, a, b))));
                }
            }
            assert!(sums.iter().all(|(_, _, sum)| *sum == sums[0].2), "{sums:?} {fprop}");
        }
    }
}

/// Of many positions, whose rows follow each other as fast as memory has them: the sums of another algorithm, run after run,
/// exactly, as they are of small integers.
#[test]
fn long_sums_repeat() {
    let Some(context) = hopper("long_sums_repeat") else { return };
    for text in [
        "conv:wgrad pad=1x1 stride=2x2 groups=32 x=32x256x56x56:bf16:nhwc dw=256x8x3x3:bf16:nhwc",
        "conv:wgrad pad=1x1 stride=2x2 groups=240 x=64x240x28x28:bf16:nhwc dw=240x1x3x3:bf16:nhwc",
        "conv:wgrad pad=1x1 stride=1x1 groups=32 x=64x256x28x28:bf16:nhwc dw=256x8x3x3:bf16:nhwc",
        "conv:wgrad pad=1x1 stride=1x1 groups=8 x=64x256x14x14:f16:nhwc dw=256x32x3x3:f16:nhwc",
        "conv:fprop pad=1x1 stride=1x1 groups=32 x=64x128x28x28:bf16:nhwc w=128x4x3x3:bf16:nhwc",
        "conv:fprop pad=1x1 stride=2x2 groups=32 x=64x256x28x28:f16:nhwc w=256x8x3x3:f16:nhwc",
        "conv:fprop pad=2x2 stride=1x1 groups=240 x=64x240x28x28:bf16:nhwc w=240x1x5x5:bf16:nhwc",
        "conv:fprop pad=2x2 stride=2x2 groups=240 x=64x240x28x28:f16:nhwc w=240x1x5x5:f16:nhwc",
        "conv:dgrad pad=2x2 stride=1x1 groups=960 dx=64x960x7x7:bf16:nhwc w=960x1x5x5:bf16:nhwc",
        "conv:wgrad pad=2x2 stride=1x1 groups=240 x=64x240x28x28:bf16:nhwc dw=240x1x5x5:bf16:nhwc",
        "conv:wgrad pad=2x2 stride=2x2 groups=240 x=64x240x28x28:f16:nhwc dw=240x1x5x5:f16:nhwc",
        "conv:wgrad pad=3x3 stride=1x1 groups=192 x=64x192x28x28:bf16:nhwc dw=192x1x7x7:bf16:nhwc",
        "conv:fprop pad=3x3 stride=1x1 groups=384 x=64x384x14x14:f16:nhwc w=384x1x7x7:f16:nhwc",
    ] {
        let problem: ConvProblem = text.parse().unwrap();
        let [a, b] = match problem.conv_pass() {
            ConvPass::Wgrad => [problem.x(), problem.y()],
            ConvPass::Fprop => [problem.x(), problem.w()],
            ConvPass::Dgrad => [problem.y(), problem.w()],
        }
        .map(|desc| Fill::Integers { max: 2 }.values(desc.n_elems() as usize, desc.dtype(), desc.n_elems() as u64));
        let other = if problem.shape().filter == [1, 3, 3] { "grouped_mma" } else { "depthwise" };
        let expected = run(&context, other, &problem, &a, &b);
        for i in 0..8 {
            assert!(run(&context, "grouped_tma", &problem, &a, &b) == expected, "{text}: run {i}");
        }
    }
}

#[test]
fn misaligned_addresses_are_refused() {
    let problem = "conv:fprop pad=1x1 groups=2 x=1x16x4x4:bf16:nhwc w=16x8x3x3:bf16:nhwc y=1x16x4x4:bf16:nhwc";
    refuses_misaligned_addresses("grouped_tma", problem, 512);
}
