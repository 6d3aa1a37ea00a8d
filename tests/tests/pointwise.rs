//! Pointwise operations and chains against the reference, exactly on integers, and their refusals.

use kernel_abi::ops::activation::{ActivationMode, ActivationProblem};
use kernel_abi::ops::pointwise::{PointwisePass, PointwiseProblem, Step};
use kernel_abi::{DType, TensorDesc};
use oxidnn_reference::Judge;
use oxidnn_tests::oracle::check_case;
use oxidnn_tests::{Case, Fill, check, check_exact, problems};
use proptest::prelude::*;

/// Values that the operation is defined for.
pub fn case(problem: &PointwiseProblem, seed: u64) -> Case {
    use PointwisePass::{Div, Log, Mod, Pow, Reciprocal, Rsqrt, Sqrt, Tan};
    let fill = match problem.pointwise_pass() {
        Sqrt | Rsqrt | Log | Reciprocal | Div | Mod | Pow => Fill::Uniform { low: 0.25, high: 4.0 },
        // Away from the poles.
        Tan => Fill::Uniform { low: -1.25, high: 1.25 },
        _ => Fill::Normal,
    };
    Case { fill, ..Case::normal(seed) }
}

/// Whether small integers give results that every type holds.
fn is_whole(pass: PointwisePass) -> bool {
    use PointwisePass::{Atan2, Cos, Div, Erf, Exp, GenIndex, Log, Mod, Pow, Reciprocal, Rsqrt, Set, Sin, Sqrt, Tan};
    !matches!(
        pass,
        Atan2 | Cos | Div | Erf | Exp | GenIndex | Log | Mod | Pow | Reciprocal | Rsqrt | Set | Sin | Sqrt | Tan
    )
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
        if is_whole(problem.pointwise_pass()) {
            check_exact(&problem.scaled(2.0, -1.0), seed, 2)?;
        }
    }

    #[test]
    fn chains_match_the_reference(problem in problems::pointwise::chain(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn chains_of_integers_come_out_exactly(problem in problems::pointwise::whole_chain(), seed in any::<u64>()) {
        check_exact(&problem, seed, 2)?;
    }

    /// The operator and the step say the same.
    #[test]
    fn activations_are_steps(mode in prop::sample::select(ActivationMode::ALL), values in prop::collection::vec(-5.0f64..5.0, 8)) {
        let x = TensorDesc::packed(DType::F64, &[8]).unwrap();
        let dy: Vec<f64> = values.iter().rev().copied().collect();
        let step = |text: String| text.parse::<Step>().unwrap();
        let forward = PointwiseProblem::chain(&[step(mode.to_string())], &[x], &x).unwrap();
        let backward = PointwiseProblem::chain(&[step(format!("{mode}_backward:b"))], &[x, x], &x).unwrap();
        if mode.parameters().is_empty() && mode != ActivationMode::Exp {
            let expected = ActivationProblem::forward(mode, &x, &x).unwrap();
            prop_assert_eq!(forward.judge(std::slice::from_ref(&values)), expected.judge(std::slice::from_ref(&values)));
            let expected = ActivationProblem::backward(mode, &x, &x, &x).unwrap();
            prop_assert_eq!(backward.judge(&[dy.clone(), values.clone()]), expected.judge(&[values, dy]));
        }
    }
}

/// Truth values, quotients of integers and casts, by hand.
#[test]
fn types_have_their_own_rules() {
    let judged = |text: &str, operands: &[&[f64]]| {
        let operands: Vec<Vec<f64>> = operands.iter().map(|values| values.to_vec()).collect();
        let problem: PointwiseProblem = text.parse().unwrap();
        check(&problem, 3).unwrap();
        problem.judge(&operands).remove(0)
    };
    assert_eq!(
        judged("pointwise:div a=4:i32 b=4:i32 c=4:i32", &[&[7.0, -7.0, 8.0, 1.0], &[2.0, 2.0, -4.0, 3.0]]),
        [3.0, -3.0, -2.0, 0.0]
    );
    assert_eq!(judged("pointwise:cmp_lt a=2:f16 b=2:i8 c=2:bool", &[&[1.5, 2.0], &[2.0, 2.0]]), [1.0, 0.0]);
    assert_eq!(
        judged("pointwise:select a=2:f32 b=1:f32 t=2:bool c=2:f32", &[&[1.0, 2.0], &[5.0], &[0.0, 1.0]]),
        [5.0, 2.0]
    );
    assert_eq!(judged("pointwise:gen_index axis=1 c=2x3:i64", &[]), [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    assert_eq!(judged("pointwise:scale a=3:f64 c=3:u8", &[&[1.0, 2.0, 3.0]]), [1.0, 2.0, 3.0]);
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<PointwiseProblem>().unwrap_err().to_string();
    assert!(text("pointwise:add a=2x3:f32 b=2x4:f32 c=2x3:f32").contains("bad b: expected the extents 2x3 of c, or 1"));
    assert!(text("pointwise:add a=2x3:f32 b=3:f32 c=2x3:f32").contains("given 3"));
    assert!(text("pointwise:add a=2x3:f32").contains("expected 2 inputs for add, given 1"));
    assert!(text("pointwise:add a=2x3:f32 t=2x3:f32").contains("bad t: expected t=… behind b=…"));
    assert!(text("pointwise:set a=2x3:f32").contains("expected 0 inputs for set, given 1"));
    assert!(text("pointwise:gen_index c=2x3:f32").contains("expected axis=…"));
    assert!(text("pointwise:gen_index axis=2 c=2x3:f32").contains("below the rank 2 of c, given 2"));
    assert!(text("pointwise:scale a=2x3:f32 c=2x3:f32:s0x1").contains("do not overlap"));
    assert!(text("pointwise:cube a=2x3:f32").contains("given \"cube\""));
    assert!(text("pointwise:set").contains("expected c="));
    assert!(text("pointwise:chain a=2:f32").contains("expected steps=… of a chain, given nothing"));
    assert!(text("pointwise:add steps=neg a=2:f32 b=2:f32").contains("steps of a chain only"));
    assert!(text("pointwise:chain steps=cube a=2:f32").contains("given \"cube\""));
    assert!(text("pointwise:chain steps=add:b a=2:f32").contains("expected one of 1 inputs in add:_:b"));
    assert!(text("pointwise:chain steps=neg a=2:f32 b=2:f32").contains("bad b: expected an input that a step uses"));
    assert!(text("pointwise:chain steps=elu:coef=nan a=2:f32").contains("bad coef: expected a finite number"));
    assert!(text("pointwise:chain steps=neg c=2:f32").contains("expected 1 to 6 inputs"));
    let long = ["neg"; 9].join(",");
    assert!(text(&format!("pointwise:chain steps={long} a=2:f32")).contains("expected 1 to 8 steps, given 9"));
}
