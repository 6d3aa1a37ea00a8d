//! Reductions against the reference, exactly on integers, their indices, and their refusals.

use kernel_abi::ops::reduce::{ReducePass, ReduceProblem};
use oxidnn::{Args, Policy};
use oxidnn_reference::Judge;
use oxidnn_tests::oracle::check_case;
use oxidnn_tests::{Case, Fill, check_exact, contexts, problems};
use proptest::prelude::*;

/// Values that the operation is defined for, and whose products neither vanish nor grow.
pub fn case(problem: &ReduceProblem, seed: u64) -> Case {
    let fill = match problem.reduce_pass() {
        ReducePass::LogSum => Fill::Uniform { low: 0.25, high: 2.0 },
        ReducePass::Mul | ReducePass::MulNoZeros => Fill::Uniform { low: 0.97, high: 1.03 },
        _ => Fill::Normal,
    };
    Case { fill, ..Case::normal(seed) }
}

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::reduce::any(), seed in any::<u64>()) {
        check_case(&problem, &case(&problem, seed))?;
        check_case(&problem, &case(&problem, seed).scaled(1.5, -0.75))?;
        check_case(&problem, &case(&problem, seed).shifted(1))?;
    }

    /// Many elements are equal then: the first of them has the index.
    #[test]
    fn integers_come_out_exactly(problem in problems::reduce::any(), seed in any::<u64>()) {
        use ReducePass::{Add, Amax, Max, Min, Norm1, SumSquare};
        if matches!(problem.reduce_pass(), Add | Amax | Max | Min | Norm1 | SumSquare) {
            check_exact(&problem, seed, 2)?;
        }
    }
}

#[test]
fn long_rows_and_columns() {
    for (i, problem) in problems::reduce::named().iter().enumerate() {
        check_case(problem, &case(problem, i as u64)).unwrap_or_else(|e| panic!("{e}"));
        use ReducePass::{Add, Max, Min};
        if matches!(problem.reduce_pass(), Add | Max | Min) {
            check_exact(problem, i as u64, 1).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

/// A NaN is the result, and the first one has the index; infinities do not make one.
#[test]
fn what_is_no_number() {
    const INF: f64 = f64::INFINITY;
    let x = [[1.0, f64::NAN, f64::NAN, 3.0], [-INF, -INF, -INF, -INF], [1.0, INF, 0.0, 2.0], [4.0, -5.0, -5.0, 4.0]];
    for (pass, expected, indices) in [
        (ReducePass::Max, [f64::NAN, -INF, INF, 4.0], Some([1.0, 0.0, 1.0, 0.0])),
        (ReducePass::Min, [f64::NAN, -INF, 0.0, -5.0], Some([1.0, 0.0, 2.0, 1.0])),
        (ReducePass::Amax, [f64::NAN, INF, INF, 5.0], Some([1.0, 0.0, 1.0, 1.0])),
        (ReducePass::LogSumExp, [f64::NAN, -INF, INF, (2.0 * 4f64.exp() + 2.0 * (-5f64).exp()).ln()], None),
        (ReducePass::Add, [f64::NAN, -INF, INF, -2.0], None),
        (ReducePass::MulNoZeros, [f64::NAN, INF, INF, 400.0], None),
    ] {
        let text =
            format!("reduce:{pass} x=4x4:f64 y=4x1:f64{}", if indices.is_some() { " indices=4x1:i64" } else { "" });
        let problem: ReduceProblem = text.parse().unwrap();
        let close = |got: &[f64], expected: &[f64]| {
            let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() < 1e-12;
            assert!(got.iter().zip(expected).all(same), "{text}: {got:?}, expected {expected:?}");
        };
        let judged = problem.judge(&[x.concat()]);
        close(&judged[0], &expected);
        for context in contexts() {
            let stream = context.stream().unwrap();
            let plan = context.plan(&problem, Policy::Heuristic).unwrap();
            let input = context.tensor_from(problem.x(), &x.concat()).unwrap();
            let mut y = context.tensor(problem.y()).unwrap();
            let mut at = problem.indices().map(|desc| context.tensor(desc).unwrap());
            let mut args = Args::new().input("x", &input).output("y", &mut y);
            if let Some(at) = &mut at {
                args = args.output("indices", at);
            }
            plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
            close(&y.to_vec::<f64>(&stream).unwrap(), &expected);
            if let (Some(at), Some(indices)) = (&at, &indices) {
                close(&at.to_vec::<f64>(&stream).unwrap(), indices);
                close(&judged[1], indices);
            }
        }
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<ReduceProblem>().unwrap_err().to_string();
    assert!(text("reduce:add x=2x3:f32 y=2x2:f32").contains("bad y: expected the extents 2x3 of x, or 1"));
    assert!(text("reduce:add x=2x3:f32 y=2:f32").contains("given 2"));
    assert!(text("reduce:add x=2x3:f32 y=2x1:f32:s0x0").contains("do not overlap"));
    assert!(text("reduce:add x=2x3:f32 y=2x1:f32 indices=2x1:i32").contains("min, max or amax"));
    assert!(text("reduce:max x=2x3:f32 y=2x1:f32 indices=2x3:i32").contains("expected the extents 2x1 of y"));
    assert!(text("reduce:max x=2x3:f32 y=2x1:f32 indices=2x1:f32").contains("i32 or i64, given f32"));
    assert!(text("reduce:max x=4294967296x2:i8:s0x1 y=1x2:i8 indices=1x2:i32").contains("i64 for 4294967296 elements"));
    assert!(text("reduce:median x=2x3:f32 y=2x1:f32").contains("given \"median\""));
    assert!(text("reduce:add x=2x3:f32").contains("expected y="));
}
