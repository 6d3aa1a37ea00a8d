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
    fn lists_match_the_reference(problem in problems::sgd::lists(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn integers_come_out_exactly(seed in any::<u64>(), n in 1i64..500, m in 1i64..9000) {
        let problem: SgdProblem = format!("sgd:update momentum=2 weight_decay=1 w={n}:f32").parse().unwrap();
        check_exact(&problem, seed, 8)?;
        let text = format!("sgd:update momentum=2 w0={n}:bf16 v0={n}:f32 master0={n}:f32 w1={m}:bf16 v1={m}:f32 master1={m}:f32");
        check_exact(&text.parse::<SgdProblem>().unwrap(), seed, 4)?;
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
    assert!(text("sgd:update w=3:f32 dw=4:f32").contains("bad dw: expected the extents 3 of w, given 4"));
    assert!(text("sgd:update w=3:f32 v=3:f16").contains("bad v"));
    assert!(text("sgd:update w=3:f32:s0").contains("do not overlap"));
    assert!(text("sgd:forward w=3:f32").contains("expected update"));
    assert!(text("sgd:update nesterov=2 w=3:f32").contains("expected 0 or 1, given 2"));
    assert!(text("sgd:update momentum=0.9").contains("bad w: expected at least one tensor, given none"));
    assert!(
        text("sgd:update w=3:f32 master=3:f32")
            .contains("bad master: expected f32 beside a w of 16 bits, given f32 beside f32")
    );
    assert!(text("sgd:update w=3:bf16 v=3:bf16 master=3:f32").contains("bad v: expected f32 beside a master"));
    assert!(
        text("sgd:update w0=3:f32 w1=3:f64")
            .contains("bad w1: expected the types of the first tensor, f32 with f32, given f64")
    );
    let tensors = [kernel_abi::ops::sgd::SgdTensors {
        dw: "3:f32".parse().unwrap(),
        v: None,
        master: None,
        w: "3:f32".parse().unwrap(),
    }];
    let missing = SgdProblem::new(kernel_abi::ops::sgd::SgdDesc::new().momentum(0.5), &tensors).unwrap_err();
    assert!(missing.to_string().contains("bad v: expected a velocity for the momentum 0.5, given none"));
}
