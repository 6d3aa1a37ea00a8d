//! Bias against the reference, exactly on integers, its adjoint law and its refusals.

use kernel_abi::ops::bias::BiasProblem;
use oxidnn_tests::{check, check_exact, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::bias::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn integers_come_out_exactly(problem in problems::bias::any(), seed in any::<u64>()) {
        // Sums of at most so many terms stay exact in f32; storage rounds once, as the reference does.
        check_exact(&problem, seed, 4)?;
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<BiasProblem>().unwrap_err().to_string();
    assert!(text("bias:forward x=4:f32").contains("bad x: expected a rank of at least 2"));
    assert!(
        text("bias:forward x=2x4:f32 bias=3:f32")
            .contains("bad bias: expected one extent, the channels 4 of x, given 3")
    );
    assert!(text("bias:forward x=2x4:f32 bias=1x4:f32").contains("bad bias"));
    assert!(text("bias:forward x=2x4:f32 bias=4:f16").contains("element type f32 of x"));
    assert!(text("bias:forward x=2x4:f32 y=2x5:f32").contains("bad y"));
    assert!(text("bias:backward dy=2x4:f32 dbias=4:f32:s0").contains("do not overlap"));
}
