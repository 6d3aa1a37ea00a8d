//! One filter a channel: against the reference, exactly, and the laws in single precision.

use super::laws::{dot, exact_algorithms, run};
use super::reference::{any_pass, check_integers, named};
use kernel_abi::DType;
use kernel_abi::ops::conv::{ConvPass, ConvProblem};
use oxidnn_tests::{Fill, check, contexts, problems};
use proptest::prelude::*;

/// The types that have kernels.
fn dtype() -> impl Strategy<Value = DType> {
    prop::sample::select(&[DType::F32, DType::F16, DType::BF16][..])
}

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn random_problems_match_the_reference(problem in problems::conv::depthwise(dtype(), any_pass()), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn integers_come_out_exactly(problem in problems::conv::depthwise(dtype(), any_pass()), seed in any::<u64>()) {
        check_integers(&problem, seed)?;
    }

    /// ⟨dy, fprop(x, w)⟩ = ⟨dgrad(dy, w), x⟩ = ⟨wgrad(x, dy), w⟩, exactly: integers so small that no sum is rounded.
    #[test]
    fn gradients_are_adjoints(
        problem in problems::conv::depthwise(Just(DType::F32), Just(ConvPass::Fprop)),
        seed in any::<u64>(),
    ) {
        let [x, w, dy] = [problem.x(), problem.w(), problem.y()]
            .map(|desc| Fill::Integers { max: 3 }.values(desc.n_elems() as usize, DType::F32, seed ^ desc.n_elems() as u64));
        let [fprop, dgrad, wgrad] =
            [ConvPass::Fprop, ConvPass::Dgrad, ConvPass::Wgrad].map(|pass| problems::conv::with_pass(&problem, pass));
        for context in contexts() {
            let expected = dot(&dy, &run(context, exact_algorithms(context, &fprop)[0], &fprop, &x, &w));
            for algorithm in exact_algorithms(context, &fprop) {
                prop_assert_eq!(dot(&dy, &run(context, algorithm, &fprop, &x, &w)), expected, "{} {}", algorithm, fprop);
            }
            for algorithm in exact_algorithms(context, &dgrad) {
                prop_assert_eq!(dot(&x, &run(context, algorithm, &dgrad, &dy, &w)), expected, "{} {}", algorithm, dgrad);
            }
            for algorithm in exact_algorithms(context, &wgrad) {
                prop_assert_eq!(dot(&w, &run(context, algorithm, &wgrad, &x, &dy)), expected, "{} {}", algorithm, wgrad);
            }
        }
    }
}

/// Each with both layouts of the images, `L`.
const SHAPES: &[&str] = &[
    // Layers of networks: strips and bands that fit, several of them, and their tails.
    "pad=1x1 stride=1x1 groups=32 x=2x32x28x28:T:L w=32x1x3x3:T",
    "pad=1x1 stride=2x2 groups=24 x=2x24x29x30:T:L w=24x1x3x3:T",
    "pad=2x2 stride=1x1 groups=40 x=2x40x14x14:T:L w=40x1x5x5:T",
    "pad=2x2 stride=2x2 groups=72 x=1x72x28x28:T:L w=72x1x5x5:T",
    "pad=3x3 stride=1x1 groups=48 x=2x48x14x14:T:L w=48x1x7x7:T",
    "pad=3x3 stride=2x2 groups=16 x=2x16x15x13:T:L w=16x1x7x7:T",
    // Several small planes to a warp, the last ones fewer.
    "pad=1x1 stride=1x1 groups=83 x=3x83x7x7:T:L w=83x1x3x3:T",
    "pad=1x1 stride=2x2 groups=30 x=5x30x5x4:T:L w=30x1x3x3:T",
    // Planes that do not fit a warp's region, wide rows, rows that are wider than any region.
    "pad=1x1 stride=1x1 groups=2 x=1x2x60x113:T:L w=2x1x3x3:T",
    "pad=3x3 stride=2x2 groups=3 x=1x3x40x301:T:L w=3x1x7x7:T",
    "pad=1x1 stride=1x1 groups=1 x=1x1x3x3300:T:L w=1x1x3x3:T",
    // Rows of several images beside each other, bands of even width, paddings of either parity.
    "pad=1x1 stride=1x1 groups=3 x=21x3x14x14:T:L w=3x1x3x3:T",
    "pad=1x1 stride=1x1 groups=2 x=2x2x70x112:T:L w=2x1x3x3:T",
    "pad=0x2 stride=1x1 groups=5 x=3x5x17x22:T:L w=5x1x3x3:T",
    "pad=3x1 stride=1x1 groups=3 x=5x3x33x12:T:L w=3x1x5x5:T",
    "pad=2x4 stride=1x1 groups=2 x=2x2x20x38:T:L w=2x1x7x7:T mode=convolution",
    // Rows of whole accesses, whose padding is what the filter reaches, and not.
    "pad=0x2 stride=1x1 groups=6 x=2x6x9x16:T:L w=6x1x5x5:T mode=convolution",
    "pad=3x1 stride=2x2 groups=3 x=2x3x8x4:T:L w=3x1x3x3:T mode=convolution",
    "pad=1x0 stride=2x2 groups=3 x=2x3x8x12:T:L w=3x1x3x3:T",
    // Channels that accesses or runs do not divide.
    "pad=1x1 stride=1x1 groups=33 x=2x33x9x8:T:L w=33x1x3x3:T",
    "pad=1x1 stride=2x2 groups=74 x=2x74x9x8:T:L w=74x1x3x3:T",
    "pad=2x2 stride=1x1 groups=131 x=1x131x6x9:T:L w=131x1x5x5:T",
    // More pairs of channels than a block has threads.
    "pad=1x1 stride=1x1 groups=530 x=1x530x4x3:T:L w=530x1x3x3:T mode=convolution",
    // Images beside each other in a row whose last ones are missing, channels that fill no slice.
    "pad=3x3 stride=1x1 groups=40 x=9x40x7x7:T:L w=40x1x7x7:T",
    "pad=2x2 stride=2x2 groups=72 x=5x72x14x13:T:L w=72x1x5x5:T mode=convolution",
    // Tiles of columns, of which the last is narrower or begins beyond the image, and bands of few rows.
    "pad=1x1 stride=1x1 groups=24 x=1x24x6x150:T:L w=24x1x3x3:T",
    "pad=2x2 stride=2x2 groups=8 x=2x8x9x140:T:L w=8x1x5x5:T",
    "pad=0x3 stride=1x1 groups=8 x=1x8x40x70:T:L w=8x1x7x7:T",
    // More images than slabs.
    "pad=1x1 stride=1x1 groups=4 x=300x4x3x5:T:L w=4x1x3x3:T",
    // Large filters, and those that are not square or not of one stride.
    "pad=15x15 stride=1x1 groups=5 x=1x5x16x17:T:L w=5x1x31x31:T",
    "pad=4x4 stride=1x1 groups=34 x=1x34x12x11:T:L w=34x1x9x9:T",
    "pad=6x6 stride=2x2 groups=9 x=2x9x14x13:T:L w=9x1x13x13:T",
    "pad=1x3 stride=1x2 groups=12 x=2x12x11x18:T:L w=12x1x3x7:T",
    "pad=2x2 stride=3x3 groups=12 x=2x12x19x17:T:L w=12x1x5x5:T",
    "pad=2x3 stride=1x1 dil=2x3 groups=12 x=2x12x13x14:T:L w=12x1x3x3:T",
    // More padding than the filter reaches, on both sides or one; none at all.
    "pad=5x4 pad_end=6x3 stride=1x1 groups=8 x=2x8x6x5:T:L w=8x1x3x3:T",
    "pad=5x4 pad_end=6x3 stride=2x2 groups=8 x=2x8x6x5:T:L w=8x1x3x3:T",
    "pad=0x0 pad_end=2x0 stride=2x2 groups=8 x=2x8x11x12:T:L w=8x1x5x5:T mode=convolution",
    "pad=0x0 stride=1x1 groups=8 x=2x8x7x7:T:L w=8x1x7x7:T mode=convolution",
    // A single axis.
    "pad=2 stride=1 groups=20 x=2x20x50:T:L w=20x1x5:T",
];

#[test]
fn named_shapes_match_the_reference() {
    for (i, shape) in SHAPES.iter().enumerate() {
        for layout in ["nchw", "nhwc"] {
            let shape = shape.replace(":L", &format!(":{layout}"));
            for pass in ConvPass::ALL {
                for dtype in [DType::F32, DType::F16, DType::BF16] {
                    let problem: ConvProblem = named(&shape, *pass, dtype);
                    check(&problem, i as u64).unwrap_or_else(|e| panic!("{e}"));
                    check_integers(&problem, i as u64).unwrap_or_else(|e| panic!("{e}"));
                }
            }
        }
    }
}

/// Every run gives the same bits, whatever the order in which blocks ended.
#[test]
fn sums_over_slabs_are_repeatable() {
    for text in [
        "conv:wgrad pad=1 groups=64 x=9x64x20x21:f32:nhwc dw=64x1x3x3:f32",
        "conv:wgrad pad=1 groups=64 x=9x64x20x21:f32 dw=64x1x3x3:f32",
        "conv:wgrad pad=4 groups=24 x=9x24x20x21:f32:nhwc dw=24x1x9x9:f32",
    ] {
        let problem: ConvProblem = text.parse().unwrap();
        let values =
            |desc: &kernel_abi::TensorDesc, seed| Fill::Normal.values(desc.n_elems() as usize, DType::F32, seed);
        let (x, dy) = (values(problem.x(), 1), values(problem.y(), 2));
        for context in contexts() {
            for algorithm in exact_algorithms(context, &problem) {
                let first = run(context, algorithm, &problem, &x, &dy);
                for _ in 0..4 {
                    assert!(first == run(context, algorithm, &problem, &x, &dy), "{algorithm} {text}");
                }
            }
        }
    }
}
