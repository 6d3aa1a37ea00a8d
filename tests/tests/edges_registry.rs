//! Every operator of the registry at the edge of the number range, against the judge on every device.

use kernel_abi::{DType, Domain, Operand, Role};
use oxidnn::operators::{operators, parse_problem};
use oxidnn_reference::tolerance;
use oxidnn_tests::fill::round;
use oxidnn_tests::{contexts, edges, problems};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use std::fmt::Display;

/// What real operands hold.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Edge {
    /// One number everywhere.
    Constant,
    /// 1e4 and something small.
    Offset,
    /// Normal numbers, one of them 1e4 times as large.
    Outlier,
    /// Normal numbers and one infinity.
    Infinity,
    /// Normal numbers and one NaN.
    Nan,
    /// Numbers below the least normal one of the type.
    Subnormal,
    /// The largest numbers of the type, of either sign.
    Largest,
}

use Edge::{Constant, Infinity, Largest, Nan, Offset, Outlier, Subnormal};

const ALL: &[Edge] = &[Constant, Offset, Outlier, Infinity, Nan, Subnormal, Largest];

/// Each operator with the edges that it is held to. An edge joins a row once `OXIDNN_ALL_EDGES=1` lists no failure of it.
const HELD: &[(&str, &[Edge])] = &[
    ("activation", ALL),
    ("adam", ALL),
    ("affinegrid", &[Constant, Offset, Outlier, Infinity, Nan, Subnormal]),
    ("bias", &[Constant, Offset, Outlier, Infinity, Nan, Subnormal]),
    ("conv", &[Constant, Offset, Outlier, Infinity, Nan, Subnormal]),
    ("crossentropy", ALL),
    ("ctc", ALL),
    ("dropout", ALL),
    ("gather", ALL),
    ("gridsample", &[Constant, Outlier, Infinity, Nan, Subnormal]),
    ("lrn", &[Constant, Offset, Outlier, Infinity, Nan, Subnormal]),
    ("matmul", &[Constant, Offset, Outlier, Infinity, Nan, Subnormal]),
    ("norm", &[Constant, Offset, Outlier, Infinity, Nan, Subnormal]),
    ("pad", ALL),
    ("pointwise", ALL),
    ("pool", &[Constant, Offset, Outlier, Infinity, Nan, Subnormal]),
    ("reduce", &[Constant, Offset, Outlier, Infinity, Subnormal]),
    ("resample", &[Constant, Offset, Outlier, Subnormal]),
    ("sgd", ALL),
    ("softmax", &[Constant, Nan, Subnormal]),
    ("transform", ALL),
    ("unpool", ALL),
];

/// What GPU kernels are not held to yet: the gradient of a loss beside an infinity, no power of one (beta 0), and differences
/// of channel sums.
const NOT_HELD_ON_GPUS: &[(&str, Edge)] =
    &[("crossentropy", Infinity), ("lrn", Infinity), ("lrn", Nan), ("norm", Outlier)];

/// A random problem of an operator, as text.
fn any(operator: &str) -> BoxedStrategy<String> {
    fn text(problems: impl Strategy<Value = impl Display + 'static> + 'static) -> BoxedStrategy<String> {
        problems.prop_map(|problem| problem.to_string()).boxed()
    }
    match operator {
        "activation" => text(problems::activation::any()),
        "adam" => text(problems::adam::any()),
        "affinegrid" => text(problems::affinegrid::any()),
        "bias" => text(problems::bias::any()),
        "conv" => text(problems::conv::any()),
        "crossentropy" => text(problems::crossentropy::any()),
        "ctc" => text(problems::ctc::any()),
        "dropout" => text(problems::dropout::any()),
        "gather" => text(problems::gather::any()),
        "gridsample" => text(problems::gridsample::any()),
        "lrn" => text(problems::lrn::any()),
        "matmul" => text(problems::matmul::any()),
        "norm" => text(problems::norm::any()),
        "pad" => text(problems::pad::any()),
        "pointwise" => text(problems::pointwise::any()),
        "pool" => text(problems::pool::any()),
        "reduce" => text(problems::reduce::any()),
        "resample" => text(problems::resample::any()),
        "sgd" => text(problems::sgd::any()),
        "softmax" => text(problems::softmax::any()),
        "transform" => text(problems::transform::any()),
        "unpool" => text(problems::unpool::any()),
        other => panic!("{other} has no random problems here"),
    }
}

/// The numbers of a type, from its largest down to its least normal one.
fn range(dtype: DType) -> Option<(f64, f64)> {
    match dtype {
        DType::F64 => Some((f64::MAX, f64::MIN_POSITIVE)),
        DType::F32 => Some((f64::from(f32::MAX), f64::from(f32::MIN_POSITIVE))),
        DType::F16 => Some((65504.0, 2f64.powi(-14))),
        DType::BF16 => Some((2f64.powi(128) - 2f64.powi(120), f64::from(f32::MIN_POSITIVE))),
        _ => None,
    }
}

impl Edge {
    /// Puts it into normal numbers.
    fn fill(self, values: &mut [f64], dtype: DType, place: usize) {
        let Some((largest, least)) = range(dtype) else { return };
        let first = values.first().copied().unwrap_or(0.0);
        for value in values.iter_mut() {
            *value = match self {
                Constant => first,
                Offset => 1e4 + *value,
                Subnormal => *value * least / 8.0,
                Largest => largest.copysign(*value),
                Outlier | Infinity | Nan => *value,
            };
            *value = round(*value, dtype);
        }
        let n = values.len().max(1);
        if let Some(value) = values.get_mut(place % n) {
            match self {
                Outlier => *value = round(*value * 1e4, dtype),
                Infinity => *value = f64::INFINITY.copysign(*value),
                Nan => *value = f64::NAN,
                Constant | Offset | Subnormal | Largest => {}
            }
        }
    }
}

/// One random problem with one edge; what is wrong, on any device by any algorithm.
fn check(text: &str, edge: Edge, seed: u64) -> Result<(), String> {
    let problem = parse_problem(text).map_err(|error| error.to_string())?;
    let judge = oxidnn_reference::judge(text).map_err(|error| error.to_string())?;
    let operands = problem.operands();
    if operands.iter().any(|operand| operand.desc.self_overlaps()) {
        return Ok(());
    }
    let mut values = edges::normal(&operands, seed);
    let real =
        operands.iter().zip(&mut values).filter(|(one, _)| one.role == Role::Input && one.domain == Domain::Real);
    for (i, (operand, values)) in real.enumerate() {
        // One operand alone holds what is not finite.
        if i == 0 || !matches!(edge, Infinity | Nan) {
            edge.fill(values, operand.desc.dtype(), seed as usize);
        }
    }
    judge.make_admissible(&mut values);
    let expected = judge.judge_scaled(&values, 1.0, 0.0);
    let magnitudes = |values: &[Vec<f64>]| judge.judge_magnitudes(values, 1.0, 0.0);
    let scales = tolerance::scales(&operands, &values, (1.0, 0.0), magnitudes);
    let written: Vec<_> = operands.iter().filter(|operand| operand.role != Role::Input).collect();
    let operator = text.split(':').next().unwrap_or(text);
    let is_held_on_gpus = !NOT_HELD_ON_GPUS.contains(&(operator, edge));
    for context in contexts().iter().filter(|context| is_held_on_gpus || !context.is_gpu()) {
        for candidate in edges::able(problem.as_ref(), context) {
            let outputs = edges::run(problem.as_ref(), context, &candidate, &values)?;
            for (((operand, expected), (got, scales)), rounded_to) in
                written.iter().zip(&expected).zip(outputs.iter().zip(&scales)).zip(judge.rounded_to())
            {
                let dtype = operand.desc.dtype();
                let length = problem.accumulation_length();
                let relative = tolerance::relative(rounded_to, problem.precision(), length, 1.0);
                for (i, ((&expected, &got), scale)) in expected.iter().zip(got).zip(scales).enumerate() {
                    let rounded = round(expected, dtype);
                    let limit = relative * (expected.abs() + scale) + tolerance::absolute(dtype);
                    let is_same = got == rounded || got.is_nan() && rounded.is_nan();
                    // No NaN is close.
                    let is_close = (got - rounded).abs() <= limit;
                    if !is_same && !is_close && candidate.spread == oxidnn::Spread::None {
                        return Err(format!(
                            "{text}: {edge:?}, seed {seed}, {} ({}) on {}: {} at {i}: expected {rounded:e}, given {got:e}, limit {limit:e}",
                            candidate.algorithm,
                            candidate.config,
                            context.info().name,
                            operand.name
                        ));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Random problems of an operator with each edge that it is held to, or with the others.
fn failures(operator: &str, edges: &[Edge]) -> Vec<String> {
    let mut runner = TestRunner::new_with_rng(
        oxidnn_tests::config(),
        proptest::test_runner::TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &[20; 32]),
    );
    let cases = oxidnn_tests::config().cases / 4;
    let strategy = any(operator);
    let mut failures = Vec::new();
    for &edge in edges {
        for seed in 0..u64::from(cases.max(1)) {
            let text = strategy.new_tree(&mut runner).expect("random problems are legal").current();
            if let Err(what) = check(&text, edge, seed) {
                failures.push(what);
                break;
            }
        }
    }
    failures
}

/// More than 2²⁴ terms, where one more term of 1 is lost in f32: of vectors, and of images of 4096 × 4097.
const TERMS: f64 = 16_777_218.0;
const POSITIONS: f64 = 16_781_312.0;

/// Of each operator with sums whose length has no bound, a long one, and the last number of its last output where all operands
/// are 1, but indices, targets and grids 0.
const LONG: &[(&str, f64)] = &[
    ("affinegrid:backward dgrid=1x4096x4097x2:f32 dtheta=1x2x3:f32", POSITIONS),
    ("bias:backward dy=16777218x1:f32", TERMS),
    ("conv:wgrad x=1x1x4096x4097:f32 dw=1x1x1x1:f32", POSITIONS),
    (
        "crossentropy:forward reduction=sum x=16777218x2:f32 target=16777218:i32 loss=1:f32",
        TERMS * std::f64::consts::LN_2,
    ),
    ("gather:backward indices=16777218:i32 dy=16777218:f32 dx=1:f32", TERMS),
    ("gridsample:backward_data mode=nearest dx=1x1x1x1:f32 grid=1x4096x4097x2:f32", POSITIONS),
    ("matmul:forward a=1x16777218:f32 b=16777218x1:f32", TERMS),
    ("norm:backward mode=batch x=16777218x1:f32 scale=1:f32 mean=1:f32 inv_std=1:f32 dscale=1:f32 dbias=1:f32", TERMS),
    ("pool:forward mode=average_include_padding x=1x1x4096x4097:f32 window=4096x4097", 1.0),
    ("reduce:add x=16777218:f32 y=1:f32", TERMS),
    ("resample:backward mode=nearest dy=1x1x4096x4097:f32 dx=1x1x1x1:f32", POSITIONS),
    ("softmax:forward x=1x16777218:f32", 1.0 / TERMS),
];

#[test]
fn sums_of_more_than_2_to_the_24_terms() {
    for &(text, expected) in LONG {
        let problem = parse_problem(text).unwrap();
        let operands = problem.operands();
        let of = |operand: &Operand| if ["indices", "target", "grid"].contains(&operand.name) { 0.0 } else { 1.0 };
        let values: Vec<Vec<f64>> = operands.iter().map(|one| vec![of(one); one.desc.n_elems() as usize]).collect();
        // The simulated device would take hours.
        for context in contexts().iter().filter(|context| !oxidnn_tests::skip::is_simulated(context)) {
            let mut able = edges::able(problem.as_ref(), context);
            if context.is_gpu() && (text.starts_with("conv") || text.starts_with("matmul")) {
                // Tiles add their share of the terms one after the other.
                able.retain(|candidate| candidate.algorithm == "naive");
            }
            for candidate in able {
                let outputs = edges::run(problem.as_ref(), context, &candidate, &values).unwrap();
                let got = *outputs.last().unwrap().last().unwrap();
                let (name, device) = (candidate.config, &context.info().name);
                assert!(
                    (got / expected - 1.0).abs() < 1e-6,
                    "{text} by {name} on {device}: {got}, expected {expected}"
                );
            }
        }
    }
}

#[test]
fn every_operator_holds_at_the_edges_of_the_number_range() {
    let names: Vec<&str> = operators().iter().map(|operator| operator.name).collect();
    let held: Vec<&str> = HELD.iter().map(|row| row.0).collect();
    assert_eq!(names, held, "each operator has a row");
    let all: Vec<String> = HELD.iter().flat_map(|(operator, edges)| failures(operator, edges)).collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// `OXIDNN_ALL_EDGES=1` tells of the edges that operators are not held to yet which of them fail.
#[test]
fn edges_that_are_not_held_yet_are_listed() {
    for (operator, held) in HELD {
        let rest: Vec<Edge> = ALL.iter().copied().filter(|edge| !held.contains(edge)).collect();
        println!("{operator}: not held to {rest:?}");
        if std::env::var_os("OXIDNN_ALL_EDGES").is_some() {
            failures(operator, &rest).iter().for_each(|failure| println!("  {failure}"));
        }
    }
}
