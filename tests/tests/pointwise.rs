//! Pointwise operations and chains against the reference, exactly on integers, and their refusals.

use kernel_abi::ops::activation::{ActivationMode, ActivationProblem};
use kernel_abi::ops::pointwise::{PointwisePass, PointwiseProblem, Step};
use kernel_abi::{DType, TensorDesc};
use oxidnn_reference::Judge;
use oxidnn_tests::oracle::check_case;
use oxidnn_tests::{Case, Fill, check, check_exact, check_in_place, problems, refusal};
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

    #[test]
    fn tensors_without_gaps_match_the_reference(problem in problems::pointwise::dense(), seed in any::<u64>()) {
        check_case(&problem, &case(&problem, seed))?;
        check_case(&problem, &case(&problem, seed).scaled(1.5, -0.75))?;
        if is_whole(problem.pointwise_pass()) {
            check_exact(&problem.scaled(2.0, -1.0), seed, 2)?;
        }
    }

    #[test]
    fn biases_match_the_reference(problem in problems::pointwise::biased(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn biases_of_integers_come_out_exactly(problem in problems::pointwise::whole_biased(), seed in any::<u64>()) {
        check_exact(&problem.scaled(2.0, -1.0), seed, 2)?;
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

/// An output may be the memory of any input that lies as it does.
#[test]
fn in_place_of_an_input() {
    for (i, (text, input)) in [
        ("pointwise:add a=3x1701:bf16 b=3x1701:bf16 c=3x1701:bf16", "a"),
        ("pointwise:mul a=777:f32 b=777:f32 c=777:f32", "b"),
        ("pointwise:exp a=5:f16 c=5:f16", "a"),
        ("pointwise:chain steps=add:b,swish,add:t a=2x16x3x5:f16:nhwc b=1x16x1x1:f16 t=2x16x3x5:f16:nhwc c=2x16x3x5:f16:nhwc", "t"),
    ]
    .iter()
    .enumerate()
    {
        check_in_place(&text.parse::<PointwiseProblem>().unwrap(), input, i as u64).unwrap();
    }
}

#[test]
fn refusals_of_kernels_for_one_operation() {
    let Some(gpu) = oxidnn_tests::gpu("refusals_of_kernels_for_one_operation") else { return };
    let refused =
        |text: &str| refusal(&gpu, &format!("pointwise:{text}").parse::<PointwiseProblem>().unwrap(), "specialized");
    assert!(refused("chain steps=relu,exp a=8:f32").contains("given relu:_:lower=0:upper=inf:slope=0,exp:_"));
    assert!(refused("add a=8:f32 b=8:f16 c=8:f32").contains("reads inputs of one type, given f32 and f16"));
    assert!(refused("sin a=8:f32").contains("no kernel for Pass(Sin) that reads f32 and writes f32"));
    assert!(refused("exp a=8:f32 c=8:f16").contains("reads f32 and writes f16"));
    assert!(refused("exp a=8:f32 c=8:f32:s2").contains("a tensor without gaps, given 8:f32:s2"));
    assert!(refused("mul a=4x8:f32 b=4x1:f32 c=4x8:f32").contains("lie as c does"));
    assert!(refused("add a=4x8x2:f32 b=4x1x2:f32 c=4x8x2:f32").contains("given b=4x1x2:f32 and c=4x8x2:f32"));
    assert!(refused("add a=4x6:f32 b=1x6:f32 c=4x6:f32").contains("takes 4 elements at a time"));
    assert!(refused("exp a=65536x65536:f32").contains("counts to 4294966527, c has 4294967296 elements"));
    assert!(refused("add a=65536x32768:f32 b=1x32768:f32 c=65536x32768:f32").contains("2^31 - 1, c has 2147483648"));
    assert_eq!(refused("add a=4x8:f32 b=1x8:f32 c=4x8:f32"), "");
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
