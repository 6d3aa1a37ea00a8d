//! Integers are exact and wrap, casts truncate, copies keep every bit, f64 is rounded once: expected values by hand, from
//! `i128`, or from exact ratios.

use oxidnn::half::{bf16, f16};
use oxidnn::operators::Operation;
use oxidnn::ops::{
    gather::GatherProblem, pad::PadProblem, pointwise::PointwiseProblem, reduce::ReduceProblem,
    transform::TransformProblem,
};
use oxidnn::{Args, Context, Element, Policy, Role, TensorDesc};
use oxidnn_reference::{Judge, integers};
use oxidnn_tests::contexts;
use proptest::prelude::*;

/// The integers at the edges of all types.
const EDGES: &[i64] = &[
    0,
    1,
    -1,
    2,
    3,
    -3,
    127,
    128,
    -128,
    -129,
    255,
    256,
    300,
    i32::MAX as i64,
    i32::MIN as i64,
    1 << 31,
    (1 << 53) + 1,
    -(1 << 53) - 1,
    1 << 60,
    (1 << 60) + 3,
    i64::MAX,
    i64::MAX - 1,
    i64::MIN,
    i64::MIN + 1,
];

/// The results of every algorithm that takes a problem, on every device, of operands that are given as `i64`.
fn run<P: Operation>(problem: &P, values: &[Vec<i64>], scalars: (f64, f64)) -> Vec<(String, Vec<Vec<i64>>)> {
    let mut all = Vec::new();
    for context in contexts() {
        for (algorithm, config) in taking(problem, context) {
            let policy = Policy::Fixed(if config == "cpu" { algorithm.clone() } else { config });
            let plan = context.plan(problem, policy).unwrap_or_else(|e| panic!("{problem}: {e}"));
            let stream = context.stream().unwrap();
            let mut tensors: Vec<_> = problem
                .operands()
                .iter()
                .zip(values)
                .map(|(operand, values)| context.tensor_from(&operand.desc, values).unwrap())
                .collect();
            let mut args = Args::new().alpha(scalars.0).beta(scalars.1);
            for (operand, tensor) in problem.operands().iter().zip(&mut tensors) {
                args = match operand.role {
                    Role::Input => args.input(operand.name, &*tensor),
                    _ => args.output(operand.name, tensor),
                };
            }
            let mut workspace = plan.workspace().unwrap();
            plan.run(&stream, args, &mut workspace).unwrap_or_else(|e| panic!("{problem}: {e}"));
            let written =
                problem.operands().into_iter().zip(&tensors).filter(|(operand, _)| operand.role != Role::Input);
            let results = written.map(|(_, tensor)| tensor.to_vec::<i64>(&stream).unwrap()).collect();
            all.push((format!("{algorithm} on {}", context.info().name), results));
        }
    }
    all
}

fn taking<P: Operation>(problem: &P, context: &Context) -> Vec<(String, String)> {
    let candidates = oxidnn::operators::AnyProblem::candidates(problem, context);
    let able = candidates.into_iter().filter(|candidate| !matches!(candidate.verdict, oxidnn::Verdict::Refused(_)));
    able.map(|candidate| (candidate.algorithm.to_string(), candidate.config.to_string())).collect()
}

/// Everything that takes the problem against the judge of integers, by text.
fn check<P: Operation + Judge>(text: &str, values: &[Vec<i64>], scalars: (f64, f64)) {
    let problem: P = text.parse().unwrap_or_else(|_| panic!("{text}"));
    let operands = problem.operands();
    let values: Vec<Vec<i64>> = operands
        .iter()
        .zip(values)
        .map(|(operand, values)| {
            let stored = |&value: &i64| integers::low_bits(operand.desc.dtype(), i128::from(value)) as i64;
            values.iter().cycle().take(operand.desc.n_elems() as usize).map(stored).collect()
        })
        .collect();
    let wide: Vec<Vec<i128>> = values.iter().map(|values| values.iter().map(|&v| i128::from(v)).collect()).collect();
    let bare = Judge::judge_integers(&problem, &wide).unwrap_or_else(|| panic!("{text} is none of integers"));
    let written = operands.iter().zip(&wide).filter(|(operand, _)| operand.role != Role::Input);
    let expected: Vec<Vec<i64>> = written
        .zip(bare)
        .map(|((operand, prior), bare)| {
            let scalars = if operand.role == Role::Output { scalars } else { (1.0, 0.0) };
            let pairs = bare.into_iter().zip(prior.iter().copied());
            pairs
                .map(|pair| integers::stored(operand.desc.dtype(), pair, scalars, Judge::cast(&problem)) as i64)
                .collect()
        })
        .collect();
    for (by, got) in run(&problem, &values, scalars) {
        assert_eq!(got, expected, "{text} by {by} of {values:?}");
    }
}

/// One result of a pointwise problem, on every device.
fn one(text: &str, values: &[i64], expected: i64) {
    let problem: PointwiseProblem = text.parse().unwrap();
    let values: Vec<Vec<i64>> = values.iter().chain([&0]).map(|&value| vec![value]).collect();
    for (by, got) in run(&problem, &values, (1.0, 0.0)) {
        assert_eq!(got, [vec![expected]], "{text} by {by}");
    }
}

#[test]
fn examples_of_pointwise_operations() {
    let wide = |pass: &str, a: i64, b: i64, expected: i64| {
        one(&format!("pointwise:{pass} a=1:i64 b=1:i64 c=1:i64"), &[a, b], expected);
    };
    wide("cmp_eq", 1 << 60, (1 << 60) + 3, 0);
    wide("cmp_lt", 1 << 60, (1 << 60) + 3, 1);
    wide("sub", (1 << 60) + 3, 1 << 60, 3);
    wide("mod", (1 << 60) + 3, 2, 1);
    wide("mod", 7, 0, 0);
    wide("mod", i64::MIN, -1, 0);
    wide("mod", -7, 3, -1);
    wide("div", 7, 0, 0);
    wide("div", i64::MIN, -1, i64::MIN);
    wide("div", -7, 2, -3);
    wide("pow", 3, 39, 4_052_555_153_018_976_267);
    wide("pow", 2, -1, 0);
    wide("pow", -1, -3, -1);
    wide("mul", i64::MAX, 2, -2);
    one("pointwise:mul a=1:u8 b=1:u8 c=1:u8", &[200, 3], 88);
    one("pointwise:abs a=1:i8 c=1:i8", &[-128], -128);
    one("pointwise:neg a=1:i32 c=1:i32", &[i32::MIN as i64], i32::MIN as i64);
    one("pointwise:scale a=1:i8 c=1:u8", &[-1], 255);
    one("pointwise:scale overflow=saturate a=1:i8 c=1:u8", &[-1], 0);
    one("pointwise:chain steps=add:1,mul:3 a=1:i64 c=1:i64", &[(1 << 60) + 3], 3 * ((1 << 60) + 4));
}

#[test]
fn options_by_name_are_left_out_where_they_are_usual() {
    for text in [
        "transform:forward x=2:f32 y=2:i8",
        "transform:forward round=even x=2:f32 y=2:i8",
        "transform:forward round=even overflow=saturate x=2:i32 y=2:i8",
    ] {
        assert_eq!(text.parse::<TransformProblem>().unwrap().to_string(), text);
    }
    let usual: TransformProblem = "transform:forward round=truncate overflow=wrap x=2:f32 y=2:i8".parse().unwrap();
    assert_eq!(usual.to_string(), "transform:forward x=2:f32 y=2:i8");
    assert!("transform:forward round=up x=2:f32 y=2:i8".parse::<TransformProblem>().is_err());
}

#[test]
fn casts_truncate_and_saturate_from_floats() {
    let from = [1.5, -1.5, 2.5, 300.7, -300.0, f64::NAN, f64::INFINITY, 0.99, -0.99, f64::NEG_INFINITY];
    let cases: [(&str, &str, [i64; 10]); 4] = [
        ("", "i8", [1, -1, 2, 127, -128, 0, 127, 0, 0, -128]),
        ("", "u8", [1, 0, 2, 255, 0, 0, 255, 0, 0, 0]),
        (" round=even", "i8", [2, -2, 2, 127, -128, 0, 127, 1, -1, -128]),
        ("", "i64", [1, -1, 2, 300, -300, 0, i64::MAX, 0, 0, i64::MIN]),
    ];
    for (options, to, expected) in cases {
        for dtype in ["f32", "f64"] {
            let text = format!("transform:forward{options} x=10:{dtype} y=10:{to}");
            let problem: TransformProblem = text.parse().unwrap();
            for context in contexts() {
                for (algorithm, config) in taking(&problem, context) {
                    let stream = context.stream().unwrap();
                    let plan = context
                        .plan(&problem, Policy::Fixed(if config == "cpu" { algorithm.clone() } else { config }))
                        .unwrap();
                    let x = context.tensor_from(problem.x(), &from).unwrap();
                    let mut y = context.tensor(problem.y()).unwrap();
                    let mut workspace = plan.workspace().unwrap();
                    plan.run(&stream, Args::new().input("x", &x).output("y", &mut y), &mut workspace).unwrap();
                    assert_eq!(y.to_vec::<i64>(&stream).unwrap(), expected, "{text} by {algorithm}");
                }
            }
        }
    }
}

const TYPES: [&str; 4] = ["i8", "u8", "i32", "i64"];

const PASSES: [&str; 17] = [
    "add",
    "sub",
    "mul",
    "div",
    "mod",
    "pow",
    "min",
    "max",
    "add_square",
    "prelu",
    "cmp_eq",
    "cmp_neq",
    "cmp_gt",
    "cmp_le",
    "logical_and",
    "logical_xor",
    "cmp_ge",
];

const REDUCTIONS: [&str; 9] = ["add", "mul", "min", "max", "amax", "avg", "norm1", "mul_no_zeros", "sum_square"];

fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![proptest::sample::select(EDGES), any::<i64>(), -5i64..6]
}

fn scalars() -> impl Strategy<Value = (f64, f64)> {
    prop_oneof![Just((1.0, 0.0)), Just((3.0, -2.0)), Just((0.5, 0.0)), Just((-1.0, 0.25))]
}

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn pointwise_operations_are_exact(
        pass in proptest::sample::select(&PASSES[..]),
        types in [0usize..4, 0usize..4, 0usize..4],
        values in proptest::collection::vec(integer(), 21..30),
        saturates in any::<bool>(),
        scalars in scalars(),
    ) {
        let [a, b, c] = types.map(|at| TYPES[at]);
        let overflow = if saturates { " overflow=saturate" } else { "" };
        let text = format!("pointwise:{pass}{overflow} a=3x7:{a} b=1x7:{b} c=3x7:{c}");
        // Products with fractions are those of f64 on both sides, where they are not fused: small ones are exact.
        let small = scalars.0.fract() != 0.0 || scalars.1.fract() != 0.0;
        let values: Vec<i64> = values.iter().map(|&v| if small { v % 1000 } else { v }).collect();
        if !(small && pass == "pow") {
            let shifted: Vec<i64> = values.iter().rev().copied().collect();
            check::<PointwiseProblem>(&text, &[values.clone(), shifted, values], scalars);
        }
    }

    #[test]
    fn reductions_are_exact(
        pass in proptest::sample::select(&REDUCTIONS[..]),
        types in [0usize..4, 0usize..4],
        values in proptest::collection::vec(integer(), 70),
        whole in any::<bool>(),
    ) {
        let [x, y] = types.map(|at| TYPES[at]);
        let indices = if matches!(pass, "min" | "max" | "amax") { " indices=2x1:i64" } else { "" };
        let text = format!("reduce:{pass} x=2x35:{x} y=2x1:{y}{indices}");
        let scalars = if whole { (3.0, -2.0) } else { (1.0, 0.0) };
        check::<ReduceProblem>(&text, &[values.clone(), values.clone(), vec![0]], scalars);
    }

    #[test]
    fn what_moves_data_keeps_every_bit(
        types in [0usize..4, 0usize..4],
        values in proptest::collection::vec(integer(), 24),
        scalars in prop_oneof![Just((1.0, 0.0)), Just((3.0, -2.0))],
    ) {
        let [x, y] = types.map(|at| TYPES[at]);
        check::<TransformProblem>(&format!("transform:forward x=4x6:{x} y=4x6:{y}:s1x4"), &[values.clone(), values.clone()], scalars);
        let (v, rows) = (|| values.clone(), || vec![3i64, -1, 0, 9, 3]);
        check::<GatherProblem>(&format!("gather:forward axis=0 x=4x6:{x} indices=5:i64 y=5x6:{x}"), &[v(), rows(), v()], scalars);
        check::<GatherProblem>(&format!("gather:backward axis=0 indices=5:i32 dy=5x6:{x} dx=4x6:{x}"), &[rows(), v(), v()], scalars);
        check::<PadProblem>(&format!("pad:forward mode=constant value=7 before=1x2 step=1x1 x=4x6:{x} y=6x9:{x}"), &[v(), v()], scalars);
        check::<PadProblem>(&format!("pad:backward mode=edge before=1x2 step=1x1 dx=4x6:{x} dy=6x9:{x}"), &[v(), v()], scalars);
    }

    #[test]
    fn the_hosts_integers_keep_every_bit(values in proptest::collection::vec(integer(), 12)) {
        for text in ["3x4:i64", "3x4:i64:s1x5"] {
            let desc: TensorDesc = text.parse().unwrap();
            for context in contexts() {
                let tensor = context.tensor_from(&desc, &values).unwrap();
                prop_assert_eq!(&tensor.to_vec::<i64>(&context.stream().unwrap()).unwrap(), &values);
            }
        }
    }

    /// Compared with both neighbours, by differences that f64 has exactly.
    #[test]
    fn doubles_are_rounded_once(mantissa in any::<u64>(), exponent in -30i32..18, tie in any::<bool>(), last in -2i64..3) {
        let mut bits = (mantissa >> 12) | (((exponent + 1023) as u64) << 52) | (mantissa & (1 << 63));
        if tie {
            bits = ((bits >> 42 << 42) | 1 << 41).wrapping_add_signed(last);
        }
        let value = f64::from_bits(bits);
        let half = <f16 as Element>::from_f64(value);
        nearest(value, half.to_f64(), &|step| f16::from_bits(half.to_bits().wrapping_add_signed(step)).to_f64(), half.to_bits(), 65520.0);
        let value = f64::from_bits(if tie { ((bits >> 45 << 45) | 1 << 44).wrapping_add_signed(last) } else { bits });
        let brain = <bf16 as Element>::from_f64(value);
        nearest(value, brain.to_f64(), &|step| bf16::from_bits(brain.to_bits().wrapping_add_signed(step)).to_f64(), brain.to_bits(), 3.39e38);
    }
}

/// Holds a rounded number against its neighbours; of two as near the even one.
fn nearest(value: f64, got: f64, neighbour: &dyn Fn(i16) -> f64, bits: u16, largest: f64) {
    if value.abs() >= largest {
        return assert!(got.is_infinite(), "{value} became {got}");
    }
    for step in [-1, 1] {
        let other = neighbour(step);
        if other.is_finite() && (got != 0.0 || other.is_sign_negative() == got.is_sign_negative()) {
            let (mine, others) = ((got - value).abs(), (other - value).abs());
            assert!(mine < others || (mine == others && bits & 1 == 0), "{value:e} became {got:e}, not {other:e}");
        }
    }
}

#[test]
fn a_double_behind_a_tie_is_rounded_up() {
    let value = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
    assert_eq!(<f16 as Element>::from_f64(value).to_f64(), 1.0009765625);
    let problem: TransformProblem = "transform:forward x=2:f64 y=2:f16".parse().unwrap();
    oxidnn_tests::check(&problem, 1).unwrap();
    assert_eq!(<bf16 as Element>::from_f64(1.0 + 2f64.powi(-8) + 2f64.powi(-40)).to_f64(), 1.0078125);
}
