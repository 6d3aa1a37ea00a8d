//! Gatherings against the reference, exactly on integers, and their refusals.

use kernel_abi::ops::gather::GatherProblem;
use kernel_abi::{DType, Problem};
use oxidnn_reference::Judge;
use oxidnn_tests::{Case, check, check_case, check_exact, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::gather::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
        check_case(&problem, &Case::normal(seed).shifted(1))?;
    }

    #[test]
    fn integers_come_out_exactly(problem in problems::gather::any(), seed in any::<u64>()) {
        // Sums of many rows are beyond what 8 bits hold.
        if problem.pass() == "forward" || DType::GENERAL.contains(&problem.x().dtype()) {
            check_exact(&problem, seed, 2)?;
        }
    }
}

#[test]
fn indices_by_hand() {
    let judged = |text: &str, operands: &[&[f64]]| {
        let operands: Vec<Vec<f64>> = operands.iter().map(|values| values.to_vec()).collect();
        let problem: GatherProblem = text.parse().unwrap();
        check(&problem, 3).unwrap();
        problem.judge(&operands).remove(0)
    };
    let x: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let rows = judged("gather:forward x=3x2:f32 indices=4:i32 y=4x2:f32", &[x, &[2.0, 0.0, -1.0, 3.0]]);
    assert_eq!(rows, [5.0, 6.0, 1.0, 2.0, 5.0, 6.0, 0.0, 0.0]);
    let columns = judged("gather:forward axis=1 x=3x2:f64 indices=1:i64 y=3x1:f64", &[x, &[-1.0]]);
    assert_eq!(columns, [2.0, 4.0, 6.0]);
    let sums = judged("gather:backward indices=3:i32 dy=3x2:f16 dx=3x2:f16", &[&[1.0, 7.0, 1.0], x]);
    assert_eq!(sums, [0.0, 0.0, 6.0, 8.0, 0.0, 0.0]);
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<GatherProblem>().unwrap_err().to_string();
    assert!(text("gather:forward axis=2 x=3x2:f32 indices=4:i32 y=4x2:f32").contains("below the rank 2 of x, given 2"));
    assert!(text("gather:forward x=3x2:f32 indices=4:f32 y=4x2:f32").contains("i32 or i64, given 4:f32"));
    assert!(text("gather:forward x=3x2:f32 indices=2x2:i32 y=4x2:f32").contains("given 2x2:i32"));
    assert!(text("gather:forward x=3x2:f32 indices=4:i32 y=3x2:f32").contains("expected the extents 4x2"));
    assert!(text("gather:forward x=3x2:f32 indices=4:i32 y=4x2:f16").contains("element type f32 of x, given f16"));
    assert!(text("gather:forward x=3x2:f32 indices=4:i32 y=4x2:f32:s0x1").contains("do not overlap"));
    assert!(text("gather:backward indices=4:i32 dy=4x2:f32 dx=3x2:f32:s0x1").contains("do not overlap"));
    assert!(text("gather:sideways x=3x2:f32").contains("given \"sideways\""));
    assert!(text("gather:forward x=3x2:f32 y=3x2:f32").contains("expected indices="));
}
