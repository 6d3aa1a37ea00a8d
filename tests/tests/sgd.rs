//! Gradient descent against the reference, and its refusals.

use kernel_abi::ops::sgd::SgdProblem;
use oxidnn_tests::{check, check_exact, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::sgd::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn integers_come_out_exactly(seed in any::<u64>(), n in 1i64..500) {
        let problem: SgdProblem = format!("sgd:update momentum=2 weight_decay=1 w={n}:f32").parse().unwrap();
        check_exact(&problem, seed, 8)?;
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<SgdProblem>().unwrap_err().to_string();
    assert!(
        text("sgd:update momentum=-1 w=3:f32")
            .contains("bad momentum: expected a finite number of at least 0, given -1")
    );
    assert!(text("sgd:update weight_decay=inf w=3:f32").contains("given inf"));
    assert!(text("sgd:update w=3:f32 dw=4:f32").contains("extents 4 of dw, given 3"));
    assert!(text("sgd:update w=3:f32 v=3:f16").contains("bad v"));
    assert!(text("sgd:update w=3:f32:s0").contains("do not overlap"));
    assert!(text("sgd:forward w=3:f32").contains("expected update"));
    assert!(text("sgd:update nesterov=2 w=3:f32").contains("expected 0 or 1, given 2"));
}
