//! Epilogues of convolutions and products against the reference, exactly where they are exact, their NaNs and refusals.

use kernel_abi::epilogue::Epilogue;
use kernel_abi::ops::activation::ActivationMode;
use kernel_abi::ops::conv::ConvProblem;
use kernel_abi::ops::matmul::MatmulProblem;
use kernel_abi::{Problem, TensorDesc};
use oxidnn::{Args, Policy, Verdict};
use oxidnn_tests::problems::epilogue::largest_integer;
use oxidnn_tests::{check, check_exact, contexts, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn convolutions_match_the_reference(problem in problems::epilogue::conv(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn convolutions_give_integers_exactly(problem in problems::epilogue::conv_of_integers(), seed in any::<u64>()) {
        let positions = (problem.y().n_elems() / problem.y().dims()[1]) as f64;
        if let Some(max) = largest_integer(problem.y().dtype(), problem.plain().accumulation_length(), positions) {
            check_exact(&problem, seed, max)?;
        }
    }

    #[test]
    fn products_match_the_reference(problem in problems::epilogue::matmul(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn products_give_integers_exactly(problem in problems::epilogue::matmul_of_integers(), seed in any::<u64>()) {
        if let Some(max) = largest_integer(problem.c().dtype(), problem.accumulation_length(), 0.0) {
            check_exact(&problem, seed, max)?;
        }
    }
}

/// Shapes of networks, cut down, with every activation: tiles with tails, all kinds of panels.
#[test]
fn shapes_that_random_ones_seldom_reach() {
    let mut seed = 0;
    for dtype in ["f32", "f16", "bf16"] {
        for (tensors, k) in [
            ("conv:fprop pad=1 x=1x32x15x13:T:nhwc w=64x32x3x3:T:nhwc", 64),
            ("conv:fprop x=2x64x9x9:T:nhwc w=256x64x1x1:T:nhwc", 256),
            ("conv:fprop pad=1 stride=2 x=1x32x17x18:T:nhwc w=136x32x3x3:T:nhwc", 136),
            ("conv:fprop pad=1 x=2x16x11x12:T w=72x16x3x3:T", 72),
            ("conv:fprop pad=1 groups=2 x=1x128x6x5:T:nhwc w=128x64x3x3:T:nhwc", 128),
            ("conv:fprop pad=1 groups=4 x=1x128x6x5:T:nhwc w=128x32x3x3:T:nhwc", 128),
        ] {
            let plain: ConvProblem = tensors.replace(":T", &format!(":{dtype}")).parse().unwrap();
            for &mode in ActivationMode::EPILOGUE {
                let bias: TensorDesc =
                    format!("{k}:{}", if (mode as u32).is_multiple_of(2) { "f32" } else { dtype }).parse().unwrap();
                let mut epilogue = Epilogue::new().bias(&bias).residual(plain.y()).activation(mode, 0.75);
                if seed % 3 == 0 {
                    epilogue = epilogue.channel_sums();
                }
                seed += 1;
                check(&plain.clone().with_epilogue(epilogue).unwrap(), seed).unwrap();
            }
        }
        for (tensors, n) in [
            ("matmul:forward a=130x72:T b=72x200:T", 200),
            ("matmul:forward trans=nt a=256x64:T b=264x64:T", 264),
            ("matmul:forward a=2x65x40:T b=2x40x24:T", 24),
            ("matmul:forward a=70x64:T b=64x130:T c=70x130:T:s1x72", 130),
            ("matmul:forward a=264x1100:T b=1100x24:T", 24),
            ("matmul:forward a=16x1200:T b=1200x130:T", 130),
        ] {
            let plain: MatmulProblem = tensors.replace(":T", &format!(":{dtype}")).parse().unwrap();
            for &mode in ActivationMode::EPILOGUE {
                let bias: TensorDesc =
                    format!("{n}:{}", if (mode as u32).is_multiple_of(2) { "f32" } else { dtype }).parse().unwrap();
                let epilogue = Epilogue::new().bias(&bias).residual(plain.c()).activation(mode, 0.75);
                seed += 1;
                check(&plain.clone().with_epilogue(epilogue).unwrap(), seed).unwrap();
            }
        }
    }
}

/// In every activation, from the product, the bias and the residual, and into the sums of its channel.
#[test]
fn a_nan_stays_a_nan() {
    for context in contexts() {
        for &mode in ActivationMode::EPILOGUE {
            let plain: ConvProblem = "conv:fprop x=1x8x4x4:f16:nhwc w=64x8x1x1:f16:nhwc".parse().unwrap();
            let bias = "64:f16".parse().unwrap();
            let epilogue = Epilogue::new().bias(&bias).residual(plain.y()).activation(mode, 1.0).channel_sums();
            let problem = plain.with_epilogue(epilogue).unwrap();
            let stream = context.stream().unwrap();
            let ones = |name: &str| {
                let operands = problem.operands();
                let desc = operands.iter().find(|operand| operand.name == name).unwrap().desc;
                (desc, vec![1.0f32; desc.n_elems() as usize])
            };
            let (x_desc, mut x) = ones("x");
            // Channel 0 of position 3.
            x[3] = f32::NAN;
            let (w_desc, w) = ones("w");
            let (bias_desc, mut bias) = ones("bias");
            bias[5] = f32::NAN;
            let (z_desc, mut z) = ones("z");
            // Channel 2, position 7.
            z[2 * 16 + 7] = f32::NAN;
            let sent = |desc: &TensorDesc, values: &[f32]| context.tensor_from(desc, values).unwrap();
            let inputs = [sent(&x_desc, &x), sent(&w_desc, &w), sent(&bias_desc, &bias), sent(&z_desc, &z)];
            let plan = context.plan(&problem, Policy::Heuristic).unwrap();
            for candidate in plan.candidates() {
                let Verdict::Able { .. } = candidate.verdict else { continue };
                let name = if context.is_gpu() { candidate.config } else { candidate.algorithm };
                let plan = context.plan(&problem, Policy::fixed(name)).unwrap();
                let desc = |i: usize| plan.operands()[i].desc;
                let mut written = [2, 5, 6].map(|i| context.tensor(&desc(i)).unwrap());
                let [y, sum, squares] = &mut written;
                let args = Args::new().input("x", &inputs[0]).input("w", &inputs[1]).input("bias", &inputs[2]);
                let args = args.input("z", &inputs[3]).output("y", y).output("sum", sum).output("sum_squares", squares);
                plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
                let [y, sum, squares] = written.map(|tensor| tensor.to_vec::<f32>(&stream).unwrap());
                for (i, value) in y.iter().enumerate() {
                    let expected = i % 16 == 3 || i / 16 == 5 || i == 2 * 16 + 7;
                    assert_eq!(value.is_nan(), expected, "{mode} {name} at {i}: {value}");
                }
                // Each channel has the position whose x is none.
                assert!(sum.iter().chain(&squares).all(|sum| sum.is_nan()), "{mode} {name}");
            }
        }
    }
}

/// The bits of channel sums do not depend on the run.
#[test]
fn sums_repeat_their_bits() {
    for context in contexts() {
        let text = "conv:fprop pad=1 act=swish coef=1 x=3x16x23x21:f16:nhwc w=40x16x3x3:f16:nhwc sum=40:f32 sum_squares=40:f32";
        let problem: ConvProblem = text.parse().unwrap();
        let stream = context.stream().unwrap();
        let values = |desc: &TensorDesc, seed: u64| {
            oxidnn_tests::fill::Fill::Normal.values(desc.n_elems() as usize, desc.dtype(), seed)
        };
        let x = context.tensor_from(problem.x(), &values(problem.x(), 1)).unwrap();
        let w = context.tensor_from(problem.w(), &values(problem.w(), 2)).unwrap();
        let plan = context.plan(&problem, Policy::Heuristic).unwrap();
        for candidate in plan.candidates() {
            let Verdict::Able { .. } = candidate.verdict else { continue };
            let name = if context.is_gpu() { candidate.config } else { candidate.algorithm };
            let plan = context.plan(&problem, Policy::fixed(name)).unwrap();
            let runs = [(); 3].map(|()| {
                let mut written = [2, 3, 4].map(|i| context.tensor(&plan.operands()[i].desc).unwrap());
                let [y, sum, squares] = &mut written;
                let args = Args::new().input("x", &x).input("w", &w);
                let args = args.output("y", y).output("sum", sum).output("sum_squares", squares);
                plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
                written.map(|tensor| tensor.to_bytes(&stream).unwrap())
            });
            assert!(runs[0] == runs[1] && runs[0] == runs[2], "{name}");
        }
    }
}

#[test]
fn texts_round_trip_and_fill_in() {
    let text = "conv:fprop act=clipped_relu coef=6 x=2x8x5x5:f16 w=4x8x1x1:f16 bias=4:f32 z=2x4x5x5:f16:s0x25x5x1";
    let problem: ConvProblem = text.parse().unwrap();
    let whole = "conv:fprop pad=0x0 stride=1x1 dil=1x1 groups=1 act=clipped_relu coef=6 x=2x8x5x5:f16 w=4x8x1x1:f16 \
                 y=2x4x5x5:f16 bias=4:f32 z=2x4x5x5:f16:s0x25x5x1";
    assert_eq!(problem.to_string().replace("pad=0 stride=1 dil=1", "pad=0x0 stride=1x1 dil=1x1"), whole);
    assert_eq!(problem.to_string().parse::<ConvProblem>().unwrap(), problem);
    assert_ne!(problem, problem.plain());
    let empty = Epilogue::new().activation(ActivationMode::Identity, 3.0);
    assert_eq!(problem.plain().with_epilogue(empty).unwrap(), problem.plain());
    let matmul: MatmulProblem = "matmul:forward act=relu a=2x3:f32 b=3x4:f32 bias=4:f32".parse().unwrap();
    assert_eq!(matmul.to_string(), "matmul:forward act=relu a=2x3:f32 b=3x4:f32 c=2x4:f32 bias=4:f32");
    assert_eq!(matmul.flops(), matmul.plain().flops() + 2.0 * 8.0);
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let conv = |text: &str| format!("conv:{text}").parse::<ConvProblem>().unwrap_err().to_string();
    let matmul = |text: &str| format!("matmul:forward {text}").parse::<MatmulProblem>().unwrap_err().to_string();
    let tensors = "x=2x8x5x5:f16 w=4x8x1x1:f16";
    assert_eq!(
        conv("dgrad act=relu dx=2x8x5x5:f16 w=4x8x1x1:f16"),
        "conv: bad epilogue: expected the pass fprop, whose y an epilogue is for, given dgrad"
    );
    assert!(conv("wgrad bias=4:f16 x=2x8x5x5:f16 dw=4x8x1x1:f16").contains("given wgrad"));
    assert_eq!(
        conv(&format!("fprop {tensors} bias=8:f16")),
        "conv: bad bias: expected one extent, the 4 channels of y, given 8"
    );
    assert!(conv(&format!("fprop {tensors} bias=1x4:f16")).contains("given 1x4"));
    assert_eq!(
        conv(&format!("fprop {tensors} bias=4:bf16")),
        "conv: bad bias: expected the element type f16 of y or f32, given bf16"
    );
    assert_eq!(
        conv(&format!("fprop {tensors} z=2x4x5x6:f16")),
        "conv: bad z: expected the extents 2x4x5x5 of y, given 2x4x5x6"
    );
    assert!(conv(&format!("fprop {tensors} z=2x4x5x5:f32")).contains("bad z: expected the element type f16 of y"));
    assert!(conv(&format!("fprop act=clipped_relu coef=-1 {tensors}")).contains("bad coef: expected a finite number"));
    assert!(conv(&format!("fprop act=gelu {tensors}")).contains("given gelu"));
    assert!(conv(&format!("fprop coef=1 {tensors}")).contains("unknown or repeated key \"coef\""));
    assert!(conv(&format!("fprop {tensors} sum=4:f32")).contains("expected sum and sum_squares"));
    assert!(conv(&format!("fprop {tensors} sum=4:f16 sum_squares=4:f16")).contains("expected 4:f32, given 4:f16"));
    assert!(
        matmul("a=2x3:f32 b=3x4:f32 sum=4:f32 sum_squares=4:f32").contains("expected none, which convolutions have")
    );
    assert!(matmul("a=2x3:f32 b=3x4:f32 bias=2:f32").contains("the 4 channels of c, given 2"));
    assert!(matmul("a=2x3:f32 b=3x4:f32 z=2x3:f32").contains("bad z: expected the extents 2x4 of c, given 2x3"));
}

/// Algorithms that know nothing of epilogues say so, and `separate_epilogue` wants one.
#[test]
fn algorithms_without_epilogues_refuse_them() {
    for context in contexts() {
        let plain: ConvProblem = "conv:fprop x=2x8x5x5:f16 w=4x8x1x1:f16".parse().unwrap();
        let problem: ConvProblem = "conv:fprop act=relu x=2x8x5x5:f16 w=4x8x1x1:f16".parse().unwrap();
        let refusal = |problem: &ConvProblem, name: &str| {
            let error = context.plan(problem, Policy::fixed(name)).unwrap_err();
            match error {
                oxidnn::Error::Unsupported { reasons, .. } => {
                    reasons.into_iter().find(|(algorithm, _)| algorithm == name).unwrap().1
                }
                other => panic!("{other}"),
            }
        };
        assert!(refusal(&problem, "packed_rows").contains("stores products as they are"));
        let reason = refusal(&plain, "separate_epilogue");
        assert!(reason.contains("the problem has none") || reason.contains("runs on a GPU"), "{reason}");
    }
}
