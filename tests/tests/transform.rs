//! Transforms against the reference, exactly on integers, and their refusals.

use kernel_abi::ops::transform::TransformProblem;
use oxidnn_tests::{check, check_exact, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::transform::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn integers_come_out_exactly(problem in problems::transform::any(), seed in any::<u64>()) {
        check_exact(&problem, seed, 60)?;
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<TransformProblem>().unwrap_err().to_string();
    assert!(text("transform:forward x=2x3:f32 y=3x2:f32").contains("bad y: expected the extents 2x3 of x, given 3x2"));
    assert!(text("transform:forward x=2x3:f32 y=2x3:f16:s0x1").contains("do not overlap"));
    assert!(text("transform:backward x=2x3:f32").contains("expected forward, given \"backward\""));
    assert!(text("transform:forward y=2x3:f32").contains("expected x="));
}
