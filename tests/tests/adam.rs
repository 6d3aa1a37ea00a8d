//! Adam and AdamW against the reference, and their refusals.

use kernel_abi::ops::adam::AdamProblem;
use oxidnn::{Args, Policy};
use oxidnn_tests::{check, contexts, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::adam::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn lists_match_the_reference(problem in problems::adam::lists(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }
}

/// With constant gradients, corrected moments are the gradient and its square at every step: w moves by alpha each time.
#[test]
fn constant_gradients_move_parameters_by_the_learning_rate() {
    let problem: AdamProblem = "adam:update mode=adamw eps=0 w=5:bf16 m=5:f32 v=5:f32 master=5:f32".parse().unwrap();
    for context in contexts() {
        let stream = context.stream().unwrap();
        let plan = context.plan(&problem, Policy::Heuristic).unwrap();
        let mut workspace = plan.workspace().unwrap();
        let tensors = problem.tensors()[0];
        let dw = context.tensor_from(&tensors.dw, &[-2.0f32, -1.0, 0.5, 1.0, 100.0]).unwrap();
        let [mut m, mut v] = [&tensors.m, &tensors.v].map(|desc| context.tensor(desc).unwrap());
        let mut master = context.tensor_from(&tensors.master.unwrap(), &[1.0f32; 5]).unwrap();
        let mut w = context.tensor(&tensors.w).unwrap();
        for t in 1..=4 {
            let step = context.tensor_from(&"1:f32".parse().unwrap(), &[t as f32]).unwrap();
            let args = Args::new().input("step", &step).input("dw", &dw).output("m", &mut m).output("v", &mut v);
            let args = args.output("master", &mut master).output("w", &mut w).alpha(0.125);
            plan.run(&stream, args, &mut workspace).unwrap();
            let moved = 0.125 * t as f32;
            let expected = [1.0 + moved, 1.0 + moved, 1.0 - moved, 1.0 - moved, 1.0 - moved];
            let got = master.to_vec::<f32>(&stream).unwrap();
            assert!(got.iter().zip(expected).all(|(got, e)| (got - e).abs() < 1e-5), "{got:?}, {expected:?}");
            let got = w.to_vec::<f32>(&stream).unwrap();
            assert!(got.iter().zip(expected).all(|(got, e)| (got - e).abs() < 1e-2), "{got:?}, {expected:?}");
        }
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<AdamProblem>().unwrap_err().to_string();
    assert!(
        text("adam:update beta1=1 w=3:f32").contains("bad beta1: expected a number of at least 0 and below 1, given 1")
    );
    assert!(text("adam:update beta2=-1 w=3:f32").contains("bad beta2"));
    assert!(text("adam:update eps=-1 w=3:f32").contains("bad eps: expected a finite number of at least 0, given -1"));
    assert!(text("adam:update weight_decay=inf w=3:f32").contains("given inf"));
    assert!(text("adam:update w=3:f32 m=4:f32").contains("bad m: expected the extents 3 of w, given 4"));
    assert!(text("adam:update w=3:f32 dw=3:f16").contains("bad dw: expected the element type f32"));
    assert!(text("adam:update w=3:f16 m=3:f32").contains("bad v: expected the element type f32 of m, given f16"));
    assert!(text("adam:update w=3:f32 master=3:f32").contains("bad master: expected f32 beside a w of 16 bits"));
    assert!(text("adam:update w=3:f32 step=2:f32").contains("bad step: expected 1:f32, given 2:f32"));
    assert!(text("adam:update bias_correction=0 w=3:f32 step=1:f32").contains("expected none without bias correction"));
    assert!(text("adam:update mode=lamb w=3:f32").contains("one of adam, adamw"));
    assert!(text("adam:update w=3:f32 v=3:f32:s0").contains("do not overlap"));
    assert!(text("adam:update").contains("at least one tensor"));
    assert!(
        text("adam:update w0=3:bf16 w1=3:bf16 m1=3:f32 v1=3:f32").contains("bad w1: expected the types of the first")
    );
}
