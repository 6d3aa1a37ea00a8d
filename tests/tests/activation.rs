//! Activation against the reference, exactly where it is exact, and its refusals.

use kernel_abi::TensorDesc;
use kernel_abi::ops::activation::{ActivationMode, ActivationProblem};
use oxidnn_tests::{check, check_exact, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::activation::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn integers_come_out_exactly(problem in problems::activation::any(), seed in any::<u64>()) {
        let exact = matches!(problem.mode(), ActivationMode::Identity | ActivationMode::Relu);
        if exact {
            check_exact(&problem, seed, 8)?;
        }
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let desc = |text: &str| text.parse::<TensorDesc>().unwrap();
    let forward = |coef, x: &str, y: &str| {
        ActivationProblem::forward(ActivationMode::ClippedRelu, coef, &desc(x), &desc(y)).unwrap_err().to_string()
    };
    assert_eq!(forward(1.0, "2x3:f32", "3x2:f32"), "activation: bad y: expected the extents 2x3 of x, given 3x2");
    assert_eq!(forward(1.0, "2x3:f32", "2x3:f16"), "activation: bad y: expected the element type f32 of x, given f16");
    assert!(forward(1.0, "2x3:f32", "2x3:f32:s0x1").contains("do not overlap"));
    assert!(forward(-1.0, "2x3:f32", "2x3:f32").contains("given -1"));
    assert!(forward(f64::NAN, "2x3:f32", "2x3:f32").contains("given NaN"));
    let text = |text: &str| text.parse::<ActivationProblem>().unwrap_err().to_string();
    assert!(text("activation:sideways mode=relu x=2:f32").contains("given \"sideways\""));
    assert!(text("activation:forward mode=gelu x=2:f32").contains("given \"gelu\""));
    assert!(text("activation:forward mode=relu").contains("expected x="));
    assert!(text("activation:forward mode=relu x=2:f32 z=3").contains("unknown or repeated key \"z\""));
}
