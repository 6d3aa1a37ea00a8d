//! Single precision: against the reference, exactly, its laws, and its error against that of scalar arithmetic.

use super::laws::{algorithms, dot, run};
use super::reference::{any_pass, check_integers};
use kernel_abi::DType;
use kernel_abi::ops::conv::{ConvPass, ConvProblem};
use oxidnn_tests::{Fill, check, contexts, gpu, hopper, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn random_problems_match_the_reference(problem in problems::conv::single(any_pass()), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn integers_come_out_exactly(problem in problems::conv::single(any_pass()), seed in any::<u64>()) {
        check_integers(&problem, seed)?;
    }

    #[test]
    fn dense_problems_match_the_reference(problem in problems::conv::grouped_single(any_pass()), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn dense_problems_give_integers_exactly(problem in problems::conv::grouped_single(any_pass()), seed in any::<u64>()) {
        check_integers(&problem, seed)?;
    }

    #[test]
    fn three_by_three_taps_match_the_reference(problem in problems::conv::three_by_three(any_pass()), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn three_by_three_taps_give_integers_exactly(problem in problems::conv::three_by_three(any_pass()), seed in any::<u64>()) {
        check_integers(&problem, seed)?;
    }

    #[test]
    fn large_windows_match_the_reference(problem in problems::conv::large_windows(any_pass()), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn large_windows_give_integers_exactly(problem in problems::conv::large_windows(any_pass()), seed in any::<u64>()) {
        check_integers(&problem, seed)?;
    }

    /// ⟨dy, fprop(x, w)⟩ = ⟨dgrad(dy, w), x⟩ = ⟨wgrad(x, dy), w⟩, exactly: integers so small that no sum is rounded.
    /// But for methods that transform with fractions.
    #[test]
    fn gradients_are_adjoints(
        problem in prop_oneof![
            problems::conv::single(Just(ConvPass::Fprop)),
            problems::conv::three_by_three(Just(ConvPass::Fprop)),
            problems::conv::large_windows(Just(ConvPass::Fprop)),
        ],
        seed in any::<u64>(),
    ) {
        let [x, w, dy] = [problem.x(), problem.w(), problem.y()]
            .map(|desc| Fill::Integers { max: 3 }.values(desc.n_elems() as usize, DType::F32, seed ^ desc.n_elems() as u64));
        let [fprop, dgrad, wgrad] =
            [ConvPass::Fprop, ConvPass::Dgrad, ConvPass::Wgrad].map(|pass| problems::conv::with_pass(&problem, pass));
        for context in contexts() {
            let mut sums = Vec::new();
            for (problem, a, b, c) in [(&fprop, &x, &w, &dy), (&dgrad, &dy, &w, &x), (&wgrad, &x, &dy, &w)] {
                for algorithm in algorithms(context, problem) {
                    let got = run(context, algorithm, problem, a, b);
                    let fractions = matches!(algorithm, "winograd_4x4" | "nchw_transposed" | "fft_tiled" | "fft");
                    let size: f64 = c.iter().zip(&got).map(|(c, got)| (c * got).abs() + c.abs()).sum();
                    sums.push((algorithm, dot(c, &got), if fractions { 1e-4 * size } else { 0.0 }));
                }
            }
            let (_, expected, _) = sums.iter().find(|(.., inexact)| *inexact == 0.0).expect("naive takes every problem");
            let agrees = |(_, sum, inexact): &(&str, f64, f64)| (sum - expected).abs() <= *inexact;
            prop_assert!(sums.iter().all(agrees), "{sums:?} {fprop}");
        }
    }
}

/// Several tiles with tails, every way of gathering and copying, in the networks' shapes.
const SHAPES: &[&str] = &[
    "pad=1x1 stride=1x1 x=3x64x9x10:f32:nhwc w=137x64x3x3:f32:nhwc",
    "pad=1x1 stride=2x2 x=2x68x11x9:f32:nhwc w=261x68x3x3:f32:nhwc",
    "pad=0x0 stride=1x1 x=2x128x8x8:f32:nhwc w=256x128x1x1:f32:nhwc",
    "pad=0x0 stride=1x1 x=7x64x19x21:f32:nhwc w=64x64x1x1:f32:nhwc",
    "pad=0x0 stride=2x2 x=2x64x9x9:f32:nhwc w=128x64x1x1:f32:nhwc",
    "pad=1x1 stride=4x4 x=1x64x13x14:f32:nhwc w=64x64x3x3:f32:nhwc",
    "pad=1x2 stride=3x2 dil=2x3 x=2x64x17x16:f32:nhwc w=64x64x3x4:f32:nhwc mode=convolution",
    "pad=1x1 stride=2x2 groups=3 x=1x192x7x8:f32:nhwc w=387x64x3x3:f32:nhwc",
    "pad=1x1 stride=1x1 groups=3 x=2x51x9x7:f32:nhwc w=57x17x3x3:f32:nhwc",
    // Rows and channels as one: few channels, odd ones, strides.
    "pad=3x3 stride=2x2 x=2x3x31x29:f32:nhwc w=64x3x7x7:f32:nhwc",
    "pad=3x3 stride=2x2 x=2x3x31x29:f32 w=64x3x7x7:f32",
    "pad=2x2 stride=4x4 x=2x3x27x30:f32:nhwc w=72x3x11x11:f32:nhwc",
    "pad=1x0 stride=1x3 dil=2x1 x=2x11x14x17:f32:nhwc w=24x11x3x5:f32:nhwc",
    "pad=2 stride=1 x=2x5x50:f32:nhwc w=70x5x5:f32:nhwc",
    "pad=1x1x1 stride=1x2x1 x=1x3x5x6x7:f32:nhwc w=64x3x3x3x3:f32:nhwc",
    // Channels that are no multiple of 16 bytes, or not contiguous.
    "pad=1x1 stride=1x1 x=2x67x7x9:f32:nhwc w=71x67x3x3:f32:nhwc",
    "pad=1x1 stride=1x1 x=2x40x7x9:f32 w=33x40x3x3:f32",
    // One and three axes, slices, a sum that is split.
    "pad=2 stride=1 x=2x64x50:f32:nhwc w=72x64x5:f32:nhwc",
    "pad=1x1x1 stride=2x2x2 x=1x64x5x6x7:f32:nhwc w=64x64x3x3x3:f32:nhwc",
    "pad=1x1 stride=1x1 x=2x64x7x5:f32:s3360x1x480x96 w=64x64x3x3:f32:nhwc",
    // Few channels with strides: classes as columns, on one to three axes.
    "pad=1x2 stride=3x2 groups=2 x=2x10x17x16:f32:nhwc w=72x5x3x5:f32:nhwc mode=convolution",
    "pad=0x1x1 stride=2x1x2 x=1x3x5x6x7:f32:nhwc w=36x3x3x2x3:f32:nhwc",
    "pad=1x1 stride=1x1 math=winograd4x4 x=9x36x31x30:f32:nhwc w=34x36x3x3:f32:nhwc",
    // Minimal filtering: tiles in turns; in planes; fewer positions than a tile.
    "pad=1x2 pad_end=0x1 stride=1x1 math=winograd4x4 x=3x33x61x63:f32:nhwc w=37x33x3x3:f32:nhwc",
    "pad=1x1 stride=1x1 math=winograd4x4 x=3x40x30x31:f32 w=36x40x3x3:f32",
    "pad=2x4 stride=1x1 math=winograd4x4 x=9x65x1x1:f32:nhwc w=67x65x3x3:f32:nhwc",
    // Fourier transforms of whole images: as many positions as they hold, windows as large as the image, more channels
    // than a block has.
    "pad=9x0 stride=1x1 x=2x5x14x20:f32:nhwc w=3x5x19x13:f32:nhwc",
    "pad=15x15 stride=1x1 x=1x3x32x32:f32 w=5x3x31x31:f32",
    "pad=0x0 stride=1x1 groups=2 x=3x10x40x57:f32 w=6x5x38x3:f32 mode=convolution",
    "pad=2x2 stride=1x1 x=1x3x124x100:f32:nhwc w=3x3x5x5:f32:nhwc",
    "pad=0x0 stride=1x1 dil=3x2 x=1x2x100x119:f32 w=3x2x33x55:f32",
];

fn passes(shape: &str) -> impl Iterator<Item = ConvProblem> + use<> {
    let fprop: ConvProblem = format!("conv:fprop {shape}").parse().unwrap();
    ConvPass::ALL.iter().map(move |&pass| problems::conv::with_pass(&fprop, pass))
}

#[test]
fn named_shapes_match_the_reference() {
    if gpu("single::named_shapes_match_the_reference").is_none() {
        return;
    }
    for (i, shape) in SHAPES.iter().enumerate() {
        for problem in passes(shape) {
            check(&problem, i as u64).unwrap_or_else(|e| panic!("{e}"));
            check_integers(&problem, i as u64).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

/// Every run gives the same bits.
#[test]
fn bits_repeat() {
    for shape in [SHAPES[0], SHAPES[9], SHAPES[22]] {
        for problem in passes(shape) {
            let operands = kernel_abi::Problem::operands(&problem);
            let values = |i: usize| Fill::Normal.values(operands[i].desc.n_elems() as usize, DType::F32, i as u64);
            let (a, b) = (values(0), values(1));
            for context in contexts() {
                for algorithm in algorithms(context, &problem) {
                    let first = run(context, algorithm, &problem, &a, &b);
                    for _ in 0..3 {
                        assert!(first == run(context, algorithm, &problem, &a, &b), "{algorithm} {problem}");
                    }
                }
            }
        }
    }
}

/// f32 in bf16 parts, or in tf32 ones, is as exact as scalar f32, which the naive kernels are, against sums in f64.
#[test]
fn parts_are_as_exact_as_scalar_arithmetic() {
    let Some(context) = hopper("parts_are_as_exact_as_scalar_arithmetic") else { return };
    for shape in [
        "pad=0x0 stride=1x1 x=2x64x13x11:f32:nhwc w=72x64x1x1:f32:nhwc",
        "pad=1x1 stride=1x1 x=2x64x13x11:f32:nhwc w=72x64x3x3:f32:nhwc",
        "pad=1x1 stride=2x2 x=1x260x15x13:f32:nhwc w=136x260x3x3:f32:nhwc",
        "pad=3x3 stride=2x2 x=2x3x41x39:f32:nhwc w=64x3x7x7:f32:nhwc",
    ] {
        for problem in passes(shape) {
            let operands = kernel_abi::Problem::operands(&problem);
            let values = |i: usize| Fill::Normal.values(operands[i].desc.n_elems() as usize, DType::F32, i as u64);
            let (a, b) = (values(0), values(1));
            let expected = oxidnn_reference::Judge::judge(&problem, &[a.clone(), b.clone(), vec![]]).remove(0);
            let error = |name: &str| {
                let got = run(&context, name, &problem, &a, &b);
                let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
                let wrong = squares(&mut got.iter().zip(&expected).map(|(got, expected)| got - expected));
                (wrong / squares(&mut expected.iter().copied())).sqrt()
            };
            let scalar = error("naive");
            let mut names = algorithms(&context, &problem);
            names.retain(|name| takes_apart(name));
            names.dedup();
            assert!(names.len() > 1, "{problem}: {names:?}");
            for name in names {
                let parts = error(name);
                println!("{problem}: relative L2 error of {name} {parts:.2e}, of naive {scalar:.2e}");
                assert!(parts <= 1.1 * scalar, "{problem}: {parts:e} of {name} against {scalar:e}");
            }
        }
    }
}

/// Whether an algorithm multiplies parts of f32.
fn takes_apart(algorithm: &str) -> bool {
    ["bf16x3_wgmma", "f16x2_wgmma", "tf32x3_mma"].iter().any(|name| algorithm.starts_with(name))
}

/// Positions and channels of magnitudes far apart have each the error of scalar arithmetic: what shares a scale is of one
/// row or column, or does not differ as much.
#[test]
fn unlike_magnitudes_keep_their_digits() {
    let Some(context) = gpu("unlike_magnitudes_keep_their_digits") else { return };
    const OF_FIRST: [i32; 7] = [0, -60, 9, -25, 0, 50, -8];
    const OF_SECOND: [i32; 5] = [0, 20, -40, 0, -13];
    let power = |powers: &[i32], i: usize| 2f64.powi(powers[i % powers.len()]);
    for problem in passes("pad=1x1 stride=1x1 x=2x36x5x7:f32:nhwc w=68x36x3x3:f32:nhwc") {
        let operands = kernel_abi::Problem::operands(&problem);
        // What scales an operand: its position, or one of its channels.
        let scaled = |i: usize, powers: &[i32], by: Option<usize>| -> Vec<f64> {
            let dims = operands[i].desc.dims();
            let values = Fill::Normal.values(operands[i].desc.n_elems() as usize, DType::F32, i as u64);
            let inner = |axis: usize| dims[axis + 1..].iter().product::<i64>() as usize;
            let place = |j: usize| match by {
                Some(axis) => j / inner(axis) % dims[axis] as usize,
                None => j / inner(0) * inner(1) + j % inner(1),
            };
            values.iter().enumerate().map(|(j, value)| value * power(powers, place(j))).collect()
        };
        let (first, second) = match problem.conv_pass() {
            ConvPass::Fprop => (None, Some(0)),
            ConvPass::Dgrad => (None, Some(1)),
            ConvPass::Wgrad => (Some(1), Some(1)),
        };
        let (a, b) = (scaled(0, &OF_FIRST, first), scaled(1, &OF_SECOND, second));
        let judge = |a: &[f64], b: &[f64]| {
            oxidnn_reference::Judge::judge(&problem, &[a.to_vec(), b.to_vec(), vec![]]).remove(0)
        };
        let magnitudes = |values: &[f64]| values.iter().map(|value| value.abs()).collect::<Vec<_>>();
        let (expected, most) = (judge(&a, &b), judge(&magnitudes(&a), &magnitudes(&b)));
        for name in algorithms(&context, &problem).into_iter().filter(|name| takes_apart(name)) {
            let got = run(&context, name, &problem, &a, &b);
            for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
                let error = (got - expected).abs() / most[i];
                assert!(error <= 2f64.powi(-20), "{name} {problem}: {error:e} at {i}");
            }
        }
    }
}

/// What `docs/numerics.md` says of transforms: F(2 × 2) and Fourier transforms have the error of scalar arithmetic,
/// F(4 × 4) a few times that.
#[test]
fn transforms_lose_few_digits() {
    let Some(context) = gpu("transforms_lose_few_digits") else { return };
    for shape in [
        "pad=1x1 stride=1x1 math=winograd4x4 x=2x64x21x23:f32:nhwc w=72x64x3x3:f32:nhwc",
        "pad=1x1 stride=1x1 math=winograd4x4 x=1x260x15x13:f32:nhwc w=136x260x3x3:f32:nhwc",
        "pad=1x1 stride=1x1 math=winograd4x4 x=2x64x21x23:f32 w=72x64x3x3:f32",
        "pad=6x9 stride=1x1 x=2x24x20x14:f32 w=20x24x13x19:f32",
        "pad=2x2 stride=1x1 x=2x24x40x37:f32 w=20x24x5x5:f32",
        "pad=7x7 stride=1x1 x=1x8x49x50:f32 w=8x8x15x15:f32",
    ] {
        for problem in passes(shape) {
            let operands = kernel_abi::Problem::operands(&problem);
            let values = |i: usize| Fill::Normal.values(operands[i].desc.n_elems() as usize, DType::F32, i as u64);
            let (a, b) = (values(0), values(1));
            let expected = oxidnn_reference::Judge::judge(&problem, &[a.clone(), b.clone(), vec![]]).remove(0);
            let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
            let error = |name: &str| {
                let got = run(&context, name, &problem, &a, &b);
                let wrong = squares(&mut got.iter().zip(&expected).map(|(got, expected)| got - expected));
                (wrong / squares(&mut expected.iter().copied())).sqrt()
            };
            let scalar = error("naive");
            let candidates = oxidnn::operators::AnyProblem::candidates(&problem, &context);
            let able = |candidate: &&oxidnn::Candidate| matches!(candidate.verdict, oxidnn::Verdict::Able { .. });
            for candidate in candidates.iter().filter(able) {
                // The gradient's sums are longer, of fewer and larger terms.
                let wgrad = problem.conv_pass() == ConvPass::Wgrad;
                let most = match candidate.config {
                    config if config.starts_with("convfft_") => 1.5,
                    config if config.contains("+f2x2") => {
                        if wgrad {
                            3.0
                        } else {
                            1.5
                        }
                    }
                    config if config.contains("+f4x4") => {
                        if wgrad {
                            8.0
                        } else {
                            4.0
                        }
                    }
                    _ => continue,
                };
                let filtered = error(candidate.config);
                println!("{problem}: relative L2 error of {} {filtered:.2e}, of naive {scalar:.2e}", candidate.config);
                assert!(filtered <= most * scalar, "{} {problem}: {filtered:e} against {scalar:e}", candidate.config);
            }
        }
    }
}

/// Infinities, and numbers next to the largest, come out as scalar arithmetic has them.
#[test]
fn infinities_are_infinite() {
    let Some(context) = gpu("infinities_are_infinite") else { return };
    let fprop: ConvProblem = "conv:fprop x=1x40x4x4:f32:nhwc w=68x40x1x1:f32:nhwc".parse().unwrap();
    for pass in ConvPass::ALL {
        let problem = problems::conv::with_pass(&fprop, *pass);
        let operands = kernel_abi::Problem::operands(&problem);
        let values = |i: usize| {
            Fill::Uniform { low: 0.25, high: 0.9 }.values(operands[i].desc.n_elems() as usize, DType::F32, i as u64)
        };
        let (mut a, mut b) = (values(0), values(1));
        // Exact as bf16 and not, with either sign; one of each operand meet.
        (a[3], a[20], a[77]) = (f64::INFINITY, f64::NEG_INFINITY, f64::from(f32::MAX));
        (b[5], b[6], b[40]) = (f64::NEG_INFINITY, 1.0, -1.0 - f64::from(f32::EPSILON));
        (b[19], b[80]) = (f64::INFINITY, f64::INFINITY);
        let class = |values: &[f64]| -> Vec<_> {
            let of = |v: &f64| {
                if v.is_nan() {
                    2
                } else if v.is_infinite() {
                    v.signum() as i32
                } else {
                    0
                }
            };
            values.iter().map(of).collect()
        };
        let expected = class(&run(&context, "naive", &problem, &a, &b));
        for algorithm in algorithms(&context, &problem) {
            if takes_apart(algorithm) {
                assert_eq!(class(&run(&context, algorithm, &problem, &a, &b)), expected, "{algorithm} {problem}");
            }
        }
    }
}
