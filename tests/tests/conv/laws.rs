//! What holds between the passes and between the modes.

use kernel_abi::ops::conv::{ConvDesc, ConvMode, ConvPass, ConvProblem};
use kernel_abi::{DType, Problem, TensorDesc};
use oxidnn::{Args, Context, Policy, Role, Verdict};
use oxidnn_reference::Judge;
use oxidnn_tests::{Fill, contexts, hopper, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    /// ⟨dy, fprop(x, w)⟩ = ⟨dgrad(dy, w), x⟩ = ⟨wgrad(x, dy), w⟩, exactly on integers.
    #[test]
    fn gradients_are_adjoints(problem in problems::conv::of(Just(DType::F64), Just(ConvPass::Fprop)), seed in any::<u64>()) {
        let [x, w, dy] = [problem.x(), problem.w(), problem.y()]
            .map(|desc| Fill::Integers { max: 8 }.values(desc.n_elems() as usize, DType::F64, seed ^ desc.n_elems() as u64));
        let [fprop, dgrad, wgrad] =
            [ConvPass::Fprop, ConvPass::Dgrad, ConvPass::Wgrad].map(|pass| problems::conv::with_pass(&problem, pass));
        let expected = {
            let judge = |problem: &ConvProblem, a: &Vec<f64>, b: &Vec<f64>| problem.judge(&[a.clone(), b.clone(), vec![]]).remove(0);
            let expected = dot(&dy, &judge(&fprop, &x, &w));
            prop_assert_eq!(dot(&x, &judge(&dgrad, &dy, &w)), expected);
            prop_assert_eq!(dot(&w, &judge(&wgrad, &x, &dy)), expected);
            expected
        };
        for context in contexts() {
            for algorithm in algorithms(context, &fprop) {
                prop_assert_eq!(dot(&dy, &run(context, algorithm, &fprop, &x, &w)), expected, "{} {}", algorithm, fprop);
            }
            for algorithm in algorithms(context, &dgrad) {
                prop_assert_eq!(dot(&x, &run(context, algorithm, &dgrad, &dy, &w)), expected, "{} {}", algorithm, dgrad);
            }
            for algorithm in algorithms(context, &wgrad) {
                prop_assert_eq!(dot(&w, &run(context, algorithm, &wgrad, &x, &dy)), expected, "{} {}", algorithm, wgrad);
            }
        }
    }

    /// The same for 16-bit types and the kernels that only take those, on problems whose sums they store exactly.
    #[test]
    fn gradients_of_grouped_convolutions_are_adjoints(fprop in problems::conv::grouped(Just(ConvPass::Fprop)), seed in any::<u64>()) {
        let [dgrad, wgrad] = [ConvPass::Dgrad, ConvPass::Wgrad].map(|pass| problems::conv::with_pass(&fprop, pass));
        let dtype = fprop.x().dtype();
        for problem in [&fprop, &dgrad, &wgrad] {
            prop_assume!(problem.accumulation_length() <= dtype.max_exact_integer() as f64);
        }
        let [x, w, dy] = [fprop.x(), fprop.w(), fprop.y()]
            .map(|desc| Fill::Integers { max: 1 }.values(desc.n_elems() as usize, dtype, seed ^ desc.n_elems() as u64));
        for context in contexts() {
            let mut sums = Vec::new();
            for (problem, a, b, c) in [(&fprop, &x, &w, &dy), (&dgrad, &dy, &w, &x), (&wgrad, &x, &dy, &w)] {
                for algorithm in algorithms(context, problem) {
                    sums.push((algorithm, dot(c, &run(context, algorithm, problem, a, b))));
                }
            }
            prop_assert!(sums.iter().all(|(_, sum)| *sum == sums[0].1), "{sums:?} {fprop}");
        }
    }

    /// Mode convolution is mode cross_correlation with the filter turned around, in every pass.
    #[test]
    fn convolution_is_correlation_with_the_flipped_filter(problem in problems::conv::of(Just(DType::F64), prop::sample::select(ConvPass::ALL)), seed in any::<u64>()) {
        let other = match problem.mode() {
            ConvMode::Convolution => ConvMode::CrossCorrelation,
            ConvMode::CrossCorrelation => ConvMode::Convolution,
        };
        let turned = problem.desc().mode(other);
        let (x, w, y) = (problem.x(), problem.w(), problem.y());
        let turned = ConvProblem::new(problem.conv_pass(), &turned, x, w, y).expect("the tensors fit each other");
        let operands = problem.operands();
        let values = |i: usize| Fill::Integers { max: 8 }.values(operands[i].desc.n_elems() as usize, DType::F64, seed ^ i as u64);
        let (a, b) = (values(0), values(1));
        for context in contexts() {
            for algorithm in algorithms(context, &problem) {
                let plain = run(context, algorithm, &problem, &a, &b);
                let other = match problem.conv_pass() {
                    ConvPass::Wgrad => flip(w, &run(context, algorithm, &turned, &a, &b)),
                    ConvPass::Fprop | ConvPass::Dgrad => run(context, algorithm, &turned, &a, &flip(w, &b)),
                };
                prop_assert_eq!(plain, other, "{} {}", algorithm, problem);
            }
        }
    }
}

/// The result does not depend on how the threads share the work.
#[test]
fn every_run_gives_the_same_bits() {
    for text in [
        "conv:fprop pad=1 x=3x20x13x11:f64 w=33x20x3x3:f64",
        "conv:dgrad pad=1 dx=3x20x13x11:f64 w=33x20x3x3:f64",
        "conv:wgrad pad=1 x=9x20x13x11:f64 dw=33x20x3x3:f64",
        "conv:fprop pad=1 x=3x64x13x11:bf16:nhwc w=72x64x3x3:bf16:nhwc",
        "conv:dgrad pad=1 stride=2 dx=3x64x13x11:bf16:nhwc w=72x64x3x3:bf16:nhwc",
        "conv:wgrad pad=1 x=9x64x13x11:bf16:nhwc dw=72x64x3x3:bf16:nhwc",
        "conv:fprop pad=1 x=1x128x14x14:f16:nhwc w=136x128x3x3:f16:nhwc",
        "conv:dgrad pad=1 stride=2 dx=1x136x14x14:f16:nhwc w=256x136x3x3:f16:nhwc",
        "conv:wgrad x=1x72x28x28:f16:nhwc dw=136x72x1x1:f16:nhwc",
        "conv:wgrad pad=1 groups=8 x=9x64x23x21:bf16:nhwc dw=64x8x3x3:bf16:nhwc",
        "conv:wgrad pad=1 groups=3 x=9x96x23x21:bf16:nhwc dw=96x32x3x3:bf16:nhwc",
        "conv:dgrad pad=1 stride=2 groups=8 dx=2x128x9x9:bf16:nhwc w=128x16x3x3:bf16:nhwc",
        "conv:wgrad pad=1 x=9x19x23x21:bf16:nhwc dw=17x19x3x3:bf16:nhwc",
        "conv:fprop pad=1 x=3x64x13x11:bf16 w=72x64x3x3:bf16",
        "conv:dgrad pad=1 stride=2 dx=3x64x13x11:bf16 w=72x64x3x3:bf16",
        "conv:wgrad pad=1 x=9x64x13x11:bf16 dw=72x64x3x3:bf16",
        "conv:fprop x=9x64x14x14:bf16 w=72x64x1x1:bf16",
        "conv:dgrad dx=9x64x8x8:bf16 w=72x64x1x1:bf16",
        "conv:wgrad x=9x64x28x28:bf16 dw=72x64x1x1:bf16",
    ] {
        let problem: ConvProblem = text.parse().unwrap();
        let operands = problem.operands();
        let values = |i: usize| Fill::Normal.values(operands[i].desc.n_elems() as usize, DType::F64, i as u64);
        for context in contexts() {
            for algorithm in algorithms(context, &problem) {
                let first = run(context, algorithm, &problem, &values(0), &values(1));
                for _ in 0..4 {
                    assert!(first == run(context, algorithm, &problem, &values(0), &values(1)), "{algorithm} {text}");
                }
            }
        }
    }
}

/// Strides of 0 and windows that share elements are as good as the tensors they stand for.
#[test]
fn inputs_may_repeat_elements() {
    let desc = |text: &str| text.parse::<TensorDesc>().unwrap();
    let (x, w, y) = (desc("2x4x5x6:f64:s0x30x6x1"), desc("3x4x3x3:f64:s0x9x0x1"), desc("2x3x3x4:f64:s0x0x3x1"));
    let plain = |desc: &TensorDesc| desc.to_packed();
    let values = |desc: &TensorDesc, seed: u64| {
        let stored = Fill::Integers { max: 8 }.values(desc.span_elems() as usize, DType::F64, seed);
        (0..desc.n_elems()).map(|i| stored[desc.offset_of(i) as usize]).collect::<Vec<_>>()
    };
    let (x_values, w_values, y_values) = (values(&x, 1), values(&w, 2), values(&y, 3));
    let conv = ConvDesc::new();
    let cases = [
        (ConvProblem::fprop(&conv, &x, &w, &plain(&y)), &x_values, &w_values),
        (ConvProblem::dgrad(&conv, &y, &w, &plain(&x)), &y_values, &w_values),
        (ConvProblem::wgrad(&conv, &x, &y, &plain(&w)), &x_values, &y_values),
    ];
    for (problem, a, b) in cases {
        let problem = problem.unwrap();
        let expected = problem.judge(&[a.clone(), b.clone(), vec![]]).remove(0);
        for context in contexts() {
            for algorithm in algorithms(context, &problem) {
                assert_eq!(run(context, algorithm, &problem, a, b), expected, "{algorithm} {problem}");
            }
        }
    }
}

/// ⟨dy, fprop(x, w)⟩ = ⟨dgrad(dy, w), x⟩, exactly: sums of so few small integers are not rounded.
pub(super) fn fprop_and_dgrad_are_adjoints(fprop: &ConvProblem, seed: u64) -> Result<(), TestCaseError> {
    let dgrad = problems::conv::with_pass(fprop, ConvPass::Dgrad);
    let dtype = fprop.x().dtype();
    let [x, w, dy] = [fprop.x(), fprop.w(), fprop.y()]
        .map(|desc| Fill::Integers { max: 2 }.values(desc.n_elems() as usize, dtype, seed ^ desc.n_elems() as u64));
    for context in contexts() {
        let mut sums = Vec::new();
        for (problem, a, b, c) in [(fprop, &x, &w, &dy), (&dgrad, &dy, &w, &x)] {
            for algorithm in algorithms(context, problem) {
                sums.push((algorithm, dot(c, &run(context, algorithm, problem, a, b))));
            }
        }
        prop_assert!(sums.iter().all(|(_, sum)| *sum == sums[0].1), "{sums:?} {fprop}");
    }
    Ok(())
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Every filter channel from its end, as a row-major list.
fn flip(w: &TensorDesc, values: &[f64]) -> Vec<f64> {
    let taps: i64 = w.dims()[2..].iter().product();
    values.chunks(taps as usize).flat_map(|filter| filter.iter().rev().copied()).collect()
}

pub(super) fn algorithms(context: &Context, problem: &ConvProblem) -> Vec<&'static str> {
    let able = oxidnn::operators::AnyProblem::candidates(problem, context);
    let able = able.iter().filter(|candidate| matches!(candidate.verdict, Verdict::Able { .. }));
    let names: Vec<_> = able.map(|candidate| candidate.algorithm).collect();
    assert!(!names.is_empty());
    names
}

/// Those that compute integers exactly: Fourier transforms rotate by roots, which are rounded.
pub(super) fn exact_algorithms(context: &Context, problem: &ConvProblem) -> Vec<&'static str> {
    let mut names = algorithms(context, problem);
    names.retain(|&name| !matches!(name, "fft_tiled" | "fft"));
    names
}

/// The result, row-major.
pub(super) fn run(context: &Context, algorithm: &str, problem: &ConvProblem, a: &[f64], b: &[f64]) -> Vec<f64> {
    let stream = context.stream().unwrap();
    let plan = context.plan(problem, Policy::fixed(algorithm)).unwrap();
    let operands = plan.operands().to_vec();
    let mut inputs =
        operands.iter().filter(|operand| operand.role == Role::Input).zip([a, b]).map(|(operand, values)| {
            let mut tensor = context.tensor(&operand.desc).unwrap();
            tensor.write(&stream, values).unwrap();
            (operand.name, tensor)
        });
    let ((a_name, a), (b_name, b)) = (inputs.next().unwrap(), inputs.next().unwrap());
    let mut output = context.tensor(&operands[2].desc).unwrap();
    let args = Args::new().input(a_name, &a).input(b_name, &b).output(operands[2].name, &mut output);
    plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
    output.to_vec::<f64>(&stream).unwrap()
}

/// Tensor maps need addresses that are multiples of 16 bytes, which only a run knows: refused, of a `fprop` of bf16 whose x and y
/// fit tensors of `elements`.
pub(super) fn refuses_misaligned_addresses(algorithm: &str, problem: &str, elements: u32) {
    let Some(context) = hopper("misaligned_addresses_are_refused") else { return };
    let problem: ConvProblem = problem.parse().unwrap();
    let whole: TensorDesc = format!("{elements}:bf16").parse().unwrap();
    let stream = context.stream().unwrap();
    let (x, w) = (context.tensor(&whole).unwrap(), context.tensor(problem.w()).unwrap());
    let mut y = context.tensor(&whole).unwrap();
    let plan = context.plan(&problem, Policy::fixed(algorithm)).unwrap();
    let mut refusal = |x_at: i64, y_at: i64| {
        let args = Args::new()
            .input("x", x.window(x_at, problem.x()).unwrap())
            .input("w", &w)
            .output("y", y.window_mut(y_at, problem.y()).unwrap());
        plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap_err().to_string()
    };
    for (refusal, expected) in [
        (refusal(4, 0), "conv: bad x: expected an address that is a multiple of 16"),
        (refusal(8, 2), "conv: bad y: expected an address that is a multiple of 16"),
    ] {
        assert!(refusal.contains(expected), "{refusal}");
    }
}

/// Where a tensor's elements lie.
fn offsets(desc: &TensorDesc) -> impl Iterator<Item = usize> {
    (0..desc.n_elems()).map(|i| desc.offset_of(i) as usize)
}

/// What the copy engine does not bring or write from there, threads do: x and y that begin at any element, in either layout.
#[test]
fn first_layers_lie_anywhere() {
    let Some(context) = hopper("first_layers_lie_anywhere") else { return };
    let kernel = "overlap_fprop_rows_bf16_n112_i14_sm90";
    for layouts in [["", ""], [":nhwc", ":nhwc"], [":nhwc", ""]] {
        let [of_x, of_y] = layouts;
        let shapes = format!("x=1x3x9x208:bf16{of_x} w=64x3x7x7:bf16 y=1x64x5x104:bf16{of_y}");
        let problem: ConvProblem = format!("conv:fprop pad=3x3 stride=2x2 {shapes}").parse().unwrap();
        let values = |desc: &TensorDesc| {
            Fill::Integers { max: 1 }.values(desc.n_elems() as usize, desc.dtype(), desc.n_elems() as u64)
        };
        let (a, b) = (values(problem.x()), values(problem.w()));
        let expected = problem.judge(&[a.clone(), b.clone(), vec![]]).remove(0);
        let stream = context.stream().unwrap();
        let plan = context.plan(&problem, Policy::fixed(kernel)).unwrap();
        let whole = |desc: &TensorDesc| format!("{}:bf16", desc.n_elems() + 1).parse::<TensorDesc>().unwrap();
        for (x_at, y_at) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let (mut x, mut w) = (context.tensor(&whole(problem.x())).unwrap(), context.tensor(problem.w()).unwrap());
            let mut y = context.tensor(&whole(problem.y())).unwrap();
            let mut laid = vec![0.0; problem.x().n_elems() as usize + 1];
            for (at, value) in offsets(problem.x()).zip(&a) {
                laid[at + x_at as usize] = *value;
            }
            x.write(&stream, &laid).unwrap();
            w.write(&stream, &b).unwrap();
            let args = Args::new()
                .input("x", x.window(x_at, problem.x()).unwrap())
                .input("w", &w)
                .output("y", y.window_mut(y_at, problem.y()).unwrap());
            plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
            let laid = y.to_vec::<f64>(&stream).unwrap();
            let found: Vec<f64> = offsets(problem.y()).map(|at| laid[at + y_at as usize]).collect();
            assert!(found == expected, "{problem}: x at {x_at}, y at {y_at}");
        }
    }
}
