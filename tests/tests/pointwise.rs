//! Pointwise operations against the reference, exactly on integers, and their refusals.

use kernel_abi::ops::pointwise::{PointwisePass, PointwiseProblem};
use oxidnn_tests::oracle::check_case;
use oxidnn_tests::{Case, Fill, check_exact, problems};
use proptest::prelude::*;

/// Values that the operation is defined for.
fn case(problem: &PointwiseProblem, seed: u64) -> Case {
    let positive = problem.pointwise_pass() == PointwisePass::Sqrt;
    let sign = if problem.alphas().0 < 0.0 { -1.0 } else { 1.0 };
    let (low, high) = if sign > 0.0 { (0.1, 4.0) } else { (-4.0, -0.1) };
    let fill = if positive { Fill::Uniform { low, high } } else { Fill::Normal };
    Case { fill, ..Case::normal(seed) }
}

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::pointwise::any(), seed in any::<u64>()) {
        check_case(&problem, &case(&problem, seed))?;
        check_case(&problem, &case(&problem, seed).scaled(1.5, -0.75))?;
    }

    #[test]
    fn integers_come_out_exactly(problem in problems::pointwise::any(), seed in any::<u64>()) {
        if problem.pointwise_pass() != PointwisePass::Sqrt && problem.pointwise_pass() != PointwisePass::Set {
            check_exact(&problem.scaled(2.0, -1.0), seed, 4)?;
        }
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<PointwiseProblem>().unwrap_err().to_string();
    assert!(text("pointwise:add a=2x3:f32 b=2x4:f32 c=2x3:f32").contains("bad b: expected the extents 2x3 of c, or 1"));
    assert!(text("pointwise:add a=2x3:f32 b=3:f32 c=2x3:f32").contains("given 3"));
    assert!(text("pointwise:add a=2x3:f32").contains("expected 2 inputs for add, given 1"));
    assert!(text("pointwise:set a=2x3:f32").contains("expected 0 inputs for set, given 1"));
    assert!(text("pointwise:scale a=2x3:f16 c=2x3:f32").contains("element type f32 of c, given f16"));
    assert!(text("pointwise:scale a=2x3:f32 c=2x3:f32:s0x1").contains("do not overlap"));
    assert!(text("pointwise:cube a=2x3:f32").contains("given \"cube\""));
    assert!(text("pointwise:set").contains("expected c="));
}
