//! Products of 8-bit numbers, and of f32 in tf32: against the reference, exactly on integers, and their refusals.

use kernel_abi::ops::conv::{ConvPass, ConvProblem};
use kernel_abi::ops::matmul::MatmulProblem;
use kernel_abi::{DType, Math, Problem};
use oxidnn_tests::{check, check_exact, gpu, problems};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// Integers so small that `2 · sum - c` is exact: in `f32` for products of `i8` and tf32, and in the few bits that tensor
/// cores keep of sums of 8-bit floating-point numbers. Those of `i8` are large enough to saturate.
fn check_integers<P: oxidnn::operators::Operation + oxidnn_reference::Judge>(
    problem: &P,
    dtype: DType,
    seed: u64,
) -> Result<(), TestCaseError> {
    let (room, most) = match dtype {
        DType::I8 => (1 << 24, 127.0),
        DType::F32 => (1 << 24, 1000.0),
        _ => (1 << 12, 8.0),
    };
    let max = (f64::from(room) / (3.0 * Problem::accumulation_length(problem))).sqrt().min(most) as i64;
    if max < 1 { Ok(()) } else { check_exact(problem, seed, max) }
}

fn passes() -> impl Strategy<Value = ConvPass> {
    prop::sample::select(ConvPass::ALL)
}

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn narrow_convolutions_match_the_reference(problem in problems::narrow::conv(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn narrow_convolutions_are_exact_on_integers(problem in problems::narrow::conv(), seed in any::<u64>()) {
        check_integers(&problem, problem.x().dtype(), seed)?;
    }

    #[test]
    fn narrow_products_match_the_reference(problem in problems::narrow::matmul(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn narrow_products_are_exact_on_integers(problem in problems::narrow::matmul(), seed in any::<u64>()) {
        check_integers(&problem, problem.a().dtype(), seed)?;
    }

    #[test]
    fn tf32_convolutions_match_the_reference(problem in problems::narrow::tf32_conv(passes()), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn tf32_convolutions_are_exact_on_integers(problem in problems::narrow::tf32_conv(passes()), seed in any::<u64>()) {
        check_integers(&problem, DType::F32, seed)?;
    }

    #[test]
    fn tf32_products_match_the_reference(problem in problems::narrow::tf32_matmul(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn tf32_products_are_exact_on_integers(problem in problems::narrow::tf32_matmul(), seed in any::<u64>()) {
        check_integers(&problem, DType::F32, seed)?;
    }
}

/// Channels-last shapes as tensor cores want them: whole tiles, tails of positions and channels, windows of every kind,
/// one and several panels of channels.
const CONV_SHAPES: &[&str] = &[
    "pad=1x1 x=2x128x16x16:X:nhwc w=128x128x3x3:X:nhwc",
    "pad=0x0 x=3x64x9x7:X:nhwc w=80x64x1x1:X:nhwc",
    "pad=1x1 stride=2x2 x=2x32x13x11:X:nhwc w=144x32x3x3:X:nhwc",
    "pad=2x1 dil=2x1 x=1x160x12x9:X:nhwc w=272x160x3x2:X:nhwc",
    "pad=3x3 stride=2x1 x=2x16x11x15:X:nhwc w=16x16x7x7:X:nhwc mode=convolution",
    "pad=1x1 groups=2 x=2x256x7x7:X:nhwc w=256x128x3x3:X:nhwc",
    "pad=1x1 groups=4 x=2x64x7x7:X:nhwc w=96x16x3x3:X:nhwc",
    "pad=1 x=3x48x37:X:nhwc w=96x48x3:X:nhwc",
    // What no map describes is copied first.
    "pad=1x1 x=2x67x9x9:X:nhwc w=33x67x3x3:X:nhwc",
    "pad=1x1 x=2x48x9x9:X w=80x48x3x3:X",
    "pad=3x3 stride=2x2 x=2x3x21x21:X w=64x3x7x7:X",
    "pad=1x1x1 x=2x32x5x6x4:X:nhwc w=64x32x3x3x3:X:nhwc",
    // More tiles than multiprocessors.
    "x=8x32x28x28:X:nhwc w=320x32x1x1:X:nhwc",
    // Output channels that end within 16 bytes.
    "pad=1x1 x=2x64x9x9:X:nhwc w=67x64x3x3:X:nhwc",
];

/// A shape with the types of x and w, and of y.
fn conv(shape: &str, x: DType, y: DType) -> ConvProblem {
    let text = format!("conv:fprop {}", shape.replace(":X", &format!(":{x}")));
    let same: ConvProblem = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    let y = same.y().with_dtype(y).unwrap();
    format!("{text} y={y}").parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn named_convolutions_come_out_exactly() {
    if gpu("named_convolutions_come_out_exactly").is_none() {
        return;
    }
    use DType::{BF16, F8E4M3, F8E5M2, F16, F32, I8, I32};
    let types = [
        (I8, I8),
        (I8, I32),
        (I8, F32),
        (F8E4M3, F32),
        (F8E4M3, BF16),
        (F8E5M2, F16),
        (F8E4M3, F8E4M3),
        (F8E5M2, F8E5M2),
    ];
    for (i, shape) in CONV_SHAPES.iter().enumerate() {
        for j in 0..3 {
            let (x, y) = types[(3 * i + j) % types.len()];
            check_integers(&conv(shape, x, y), x, i as u64).unwrap_or_else(|e| panic!("{e}"));
        }
        let tf32 = conv(&format!("{shape} math=tf32"), F32, F32);
        for pass in ConvPass::ALL {
            let problem = problems::narrow::tf32_of(&tf32, *pass);
            check_integers(&problem, F32, i as u64).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

#[test]
fn named_products_come_out_exactly() {
    for (i, shape) in [
        "trans=nt a=128x128:A b=256x128:B c=128x256:C",
        "trans=nt a=130x272:A b=72x272:B c=130x72:C",
        "trans=nt a=257x640:A b=520x640:B c=257x520:C",
        "trans=nt a=3x64x96:A b=3x64x96:B c=3x64x64:C",
        "trans=nt a=2x3x33x128:A:s0x4224x128x1 b=2x3x64x128:B:s24576x0x128x1 c=2x3x33x64:C",
        "trans=nt a=64x67:A:s80x1 b=48x67:B:s96x1 c=64x48:C",
        "trans=nt a=136x1616:A b=264x1616:B c=136x264:C",
        "trans=nt a=1x64:A b=33x64:B c=1x33:C:s40x1",
        "trans=nt a=64x64:A b=128x64:B c=64x128:C:s1x64",
        "trans=nt a=6000x32:A b=200x32:B c=6000x200:C",
        "a=128x128:A b=128x64:B c=128x64:C",
        "trans=tt a=96x130:A b=60x96:B c=130x60:C",
    ]
    .iter()
    .enumerate()
    {
        for types in [
            "i8 i8 i8",
            "i8 i8 i32",
            "i8 i8 f32",
            "f8e4m3 f8e4m3 f32",
            "f8e4m3 f8e5m2 bf16",
            "f8e5m2 f8e4m3 f16",
            "f8e4m3 f8e4m3 f8e4m3",
            "f8e5m2 f8e5m2 f8e5m2",
            "f32 f32 f32",
        ] {
            let types: Vec<&str> = types.split(' ').collect();
            let text = shape
                .replace(":A", &format!(":{}", types[0]))
                .replace(":B", &format!(":{}", types[1]))
                .replace(":C", &format!(":{}", types[2]));
            let math = if types[0] == "f32" { "math=tf32 " } else { "" };
            let problem: MatmulProblem = format!("matmul:forward {math}{text}").parse().unwrap();
            check_integers(&problem, problem.a().dtype(), i as u64).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

/// The largest numbers, with either sign, and sums that leave the range of what is stored.
#[test]
fn results_saturate() {
    use oxidnn::{Args, Context, Policy, TensorDesc, f8e4m3, f8e5m2};
    fn stored<T: oxidnn::Element>(context: &Context, a: f32, b: f32, alpha: f64, types: &str) -> f64 {
        let types: Vec<&str> = types.split(' ').collect();
        let text = format!("matmul:forward trans=nt a=1x16:{0} b=1x16:{0} c=1x1:{1}", types[0], types[1]);
        let problem: MatmulProblem = text.parse().unwrap();
        let stream = context.stream().unwrap();
        let tensor = |desc: &TensorDesc, value: f32| context.tensor_from(desc, &[value; 16]).unwrap();
        let (a, b) = (tensor(problem.a(), a), tensor(problem.b(), b));
        let mut c = context.tensor(problem.c()).unwrap();
        let plan = context.plan(&problem, Policy::Heuristic).unwrap();
        let args = Args::new().input("a", &a).input("b", &b).output("c", &mut c).alpha(alpha);
        plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
        c.to_vec::<T>(&stream).unwrap()[0].to_f64()
    }
    for context in oxidnn_tests::contexts() {
        assert_eq!(stored::<i8>(context, 127.0, -128.0, 1.0, "i8 i8"), -128.0);
        assert_eq!(stored::<i8>(context, -128.0, -128.0, 1.0, "i8 i8"), 127.0);
        assert_eq!(stored::<i32>(context, -128.0, -128.0, 1.0, "i8 i32"), 262_144.0);
        assert_eq!(stored::<i32>(context, -128.0, -128.0, 1e9, "i8 i32"), f64::from(i32::MAX));
        // 16 / 32 and 48 / 32: ties go to the even neighbour.
        assert_eq!(stored::<i8>(context, 1.0, 1.0, 1.0 / 32.0, "i8 i8"), 0.0);
        assert_eq!(stored::<i8>(context, 1.0, 3.0, 1.0 / 32.0, "i8 i8"), 2.0);
        assert_eq!(stored::<f8e4m3>(context, 448.0, -448.0, 1.0, "f8e4m3 f8e4m3"), -448.0);
        assert_eq!(stored::<f8e5m2>(context, 448.0, 448.0, 1.0, "f8e4m3 f8e5m2"), 57344.0);
        assert_eq!(stored::<f32>(context, 448.0, 448.0, 1.0, "f8e4m3 f32"), 16.0 * 448.0 * 448.0);
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let conv = |text: &str| text.parse::<ConvProblem>().unwrap_err().to_string();
    let (x, w) = ("x=1x16x4x4:i8:nhwc", "w=16x16x1x1:i8:nhwc");
    assert_eq!(
        conv(&format!("conv:fprop {x} {w} y=1x16x4x4:bf16:nhwc")),
        "conv: bad y: expected one of the element types i8, i32, f32 for products of i8, given bf16"
    );
    assert!(conv("conv:fprop x=1x16x4x4:i8 w=16x16x1x1:f8e4m3").contains("bad w: expected the element type i8 of x"));
    assert!(
        conv("conv:fprop x=1x16x4x4:f8e4m3 w=16x16x1x1:f8e5m2").contains("bad w: expected the element type f8e4m3")
    );
    assert!(
        conv("conv:fprop x=1x16x4x4:i32 w=16x16x1x1:i32").contains("bad x: expected another element type than i32")
    );
    assert!(conv("conv:fprop x=1x16x4x4:f8e4m3 w=16x16x1x1:f8e4m3 y=1x16x4x4:i8").contains("f32, f16, bf16, f8e4m3"));
    for dtype in ["i8", "i32", "f8e4m3", "f8e5m2"] {
        let dgrad = conv(&format!("conv:dgrad dx=1x16x4x4:{dtype} w=16x16x1x1:{dtype} dy=1x16x4x4:{dtype}"));
        assert!(dgrad.contains("bad dx: expected f64, f32, f16 or bf16 in dgrad, into which transform"), "{dgrad}");
        let wgrad = conv(&format!("conv:wgrad x=1x16x4x4:{dtype} dw=16x16x1x1:{dtype} dy=1x16x4x4:{dtype}"));
        assert!(wgrad.contains(&format!("{dtype} is for fprop alone")), "{wgrad}");
    }
    assert_eq!(
        conv("conv:fprop math=tf32 x=1x16x4x4:bf16 w=16x16x1x1:bf16"),
        "conv: bad math: expected math=tf32 with f32 operands only, given bf16"
    );
    assert!(conv("conv:fprop math=half x=1x16x4x4:f32 w=16x16x1x1:f32").contains("one of full, winograd4x4, tf32"));
    assert!(
        conv("conv:fprop x=1x16384x3x3:i8 w=1x16384x3x3:i8").contains("up to 131071 products of i8, which fit i32")
    );
    let matmul = |text: &str| text.parse::<MatmulProblem>().unwrap_err().to_string();
    assert!(matmul("matmul:forward math=tf32 a=2x3:f64 b=3x4:f64").contains("bad math: expected math=tf32 with f32"));
    assert!(
        matmul("matmul:forward math=winograd4x4 a=2x3:f32 b=3x4:f32")
            .contains("bad math: expected full or tf32, given")
    );
    assert!(matmul("matmul:forward a=2x3:i8 b=3x4:f8e4m3").contains("bad b: expected the element type i8 of a"));
    assert!(
        matmul("matmul:forward a=2x3:i8 b=3x4:i8 c=2x4:f8e4m3").contains("bad c: expected one of the element types")
    );
    assert!(matmul("matmul:forward a=1x131072:i8 b=131072x1:i8").contains("given 131072"));
    for text in [
        "activation:forward mode=relu x=2x3:i8",
        "bias:forward x=2x3:f8e4m3 bias=3:f8e4m3",
        "pool:forward mode=max window=2x2 x=1x1x4x4:i8",
        "sgd:update momentum=0 dw=3:f8e5m2 v=3:f8e5m2 w=3:f8e5m2",
        "softmax:forward x=2x3:i8",
    ] {
        let refusal = oxidnn::operators::parse_problem(text).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(refusal.contains("expected one of the element types f32, f64, f16, bf16"), "{text}: {refusal}");
    }
}

/// Math is a permission: it is part of the text, and what is exact may still be chosen.
#[test]
fn math_is_part_of_the_problem() {
    let text =
        "conv:fprop pad=1x1 stride=1x1 dil=1x1 groups=1 math=winograd4x4 x=2x16x7x7:f32 w=32x16x3x3:f32 y=2x32x7x7:f32";
    let problem: ConvProblem = text.parse().unwrap();
    assert_eq!((problem.to_string().as_str(), problem.math()), (text, Math::Winograd4x4));
    let text = "conv:fprop pad=1x1 stride=1x1 dil=1x1 groups=1 math=tf32 x=2x16x7x7:f32 w=32x16x3x3:f32 y=2x32x7x7:f32";
    let problem: ConvProblem = text.parse().unwrap();
    assert_eq!((problem.to_string().as_str(), problem.math()), (text, Math::Tf32));
    let text = "matmul:forward trans=nt math=tf32 a=4x8:f32 b=6x8:f32 c=4x6:f32";
    let problem: MatmulProblem = text.parse().unwrap();
    assert_eq!((problem.to_string().as_str(), problem.desc().math), (text, Math::Tf32));
}
