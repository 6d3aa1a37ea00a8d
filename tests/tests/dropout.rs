//! Dropout against the reference, its laws and its refusals.

use kernel_abi::ops::dropout::{DropoutDesc, DropoutProblem, PhiloxState};
use kernel_abi::{DType, Problem};
use oxidnn::{Args, Context, Policy, TensorViewMut, Verdict};
use oxidnn_tests::{Case, Fill, check_in_place, contexts, oracle, problems, refusal};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    /// Masks and states to the bit, values to the rounding of one product.
    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::dropout::any(), seed in any::<u64>()) {
        oracle::check_case(&problem, &Case::normal(seed))?;
        // States with all their bits.
        oracle::check_case(&problem, &Case { fill: Fill::Integers { max: 1 << 30 }, ..Case::normal(seed) })?;
    }

    #[test]
    fn dense_tensors_match_the_reference(problem in problems::dropout::dense(), seed in any::<u64>()) {
        oracle::check_case(&problem, &Case::normal(seed))?;
    }

    #[test]
    fn tensors_that_lie_anywhere_match_the_reference(
        problem in problems::dropout::dense(),
        shift in 1i64..8,
        seed in any::<u64>(),
    ) {
        oracle::check_case(&problem, &Case::normal(seed).shifted(shift))?;
    }

    #[test]
    fn results_in_place_have_the_same_bits(problem in problems::dropout::dense(), seed in any::<u64>()) {
        let alike = problem.input() == problem.out();
        if alike {
            check_in_place(&problem, problem.operands()[0].name, seed)?;
        }
    }

    /// With p = 1/2 every product is exact, and so are masks and states.
    #[test]
    fn halves_come_out_exactly(
        n in 1i64..5000,
        seed in any::<u64>(),
        pass in prop::sample::select(&["forward p=0.5 next=4:i32 x", "backward p=0.5 dy"][..]),
        stores_mask in any::<bool>(),
        dtype in prop::sample::select(&DType::GENERAL[..]),
    ) {
        let mask = if stores_mask { format!(" mask={}:i32", (n as u64).div_ceil(32)) } else { String::new() };
        let problem: DropoutProblem = format!("dropout:{pass}={n}:{dtype}{mask}").parse().unwrap();
        oracle::check_case(&problem, &Case::integers(seed, 100))?;
    }
}

/// y, mask and next of a dropout of `x`.
fn run(context: &Context, name: &str, problem: &DropoutProblem, state: PhiloxState, x: &[f64]) -> [Vec<f64>; 3] {
    let stream = context.stream().unwrap();
    let plan = context.plan(problem, Policy::fixed(name)).unwrap();
    let operands = plan.operands().to_vec();
    let x = context.tensor_from(problem.input(), x).unwrap();
    let state = context.tensor_from(&PhiloxState::desc(), &state.to_words()).unwrap();
    let mut written: Vec<_> = operands[2..].iter().map(|operand| context.tensor(&operand.desc).unwrap()).collect();
    let mut args = Args::new().input("x", &x).input("state", &state);
    for (operand, tensor) in operands[2..].iter().zip(&mut written) {
        args = args.output(operand.name, tensor);
    }
    plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
    [0, 1, 2].map(|i| written[i].to_vec(&stream).unwrap())
}

fn algorithms(context: &Context, problem: &DropoutProblem) -> Vec<&'static str> {
    let candidates = oxidnn::operators::AnyProblem::candidates(problem, context);
    let able = candidates.into_iter().filter(|candidate| matches!(candidate.verdict, Verdict::Able { .. }));
    able.map(|candidate| if context.is_gpu() { candidate.config } else { candidate.algorithm }).collect()
}

#[test]
fn devices_algorithms_and_layouts_agree_bit_by_bit() {
    for dtype in DType::GENERAL {
        let n = 3 * 40 * 7 * 9;
        let words = format!("mask={}:i32 next=4:i32", (n as u64).div_ceil(32));
        let mut first: Option<[Vec<f64>; 3]> = None;
        for layout in ["", ":nhwc"] {
            let text = format!("dropout:forward p=0.3 x=3x40x7x9:{dtype}{layout} {words}");
            let problem: DropoutProblem = text.parse().unwrap();
            let x = Fill::Normal.values(n, dtype, 5);
            let state = PhiloxState { seed: u64::MAX - 7, offset: (1 << 32) - 100 };
            for context in contexts() {
                for name in algorithms(context, &problem) {
                    let got = run(context, name, &problem, state, &x);
                    let first = first.get_or_insert_with(|| got.clone());
                    assert_eq!(*first, got, "{text}, {name}");
                }
            }
            let next = first.as_ref().unwrap()[2].iter().map(|&word| word as i32).collect::<Vec<_>>();
            assert_eq!(next, state.after(n as i64).to_words());
        }
    }
}

/// A layer that is its own successor: every run begins where the last one ended.
#[test]
fn states_move_on_in_place() {
    let problem: DropoutProblem = "dropout:forward p=0.5 x=70000:f32 mask=2188:i32 next=4:i32".parse().unwrap();
    let Some(gpu) = oxidnn_tests::gpu("states_move_on_in_place") else { return };
    for name in algorithms(&gpu, &problem) {
        let stream = gpu.stream().unwrap();
        let plan = gpu.plan(&problem, Policy::fixed(name)).unwrap();
        let x = gpu.tensor_from(problem.input(), &vec![1.0f32; 70_000]).unwrap();
        let mut begin = PhiloxState { seed: 9, offset: 4 };
        let words = gpu.tensor_from(&PhiloxState::desc(), &begin.to_words()).unwrap();
        for _ in 0..3 {
            let expected = run(&gpu, name, &problem, begin, &vec![1.0; 70_000]);
            let mut y = gpu.tensor(problem.out()).unwrap();
            let mut mask = gpu.tensor(&DropoutDesc::mask_desc(problem.input())).unwrap();
            // SAFETY: `words` outlives the run; sharing is what is under test.
            let next = unsafe { TensorViewMut::from_raw(&gpu, PhiloxState::desc(), words.address()).unwrap() };
            let args = Args::new().input("x", &x).input("state", &words).output("next", next);
            let args = args.output("y", &mut y).output("mask", &mut mask);
            plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
            assert_eq!(y.to_vec::<f64>(&stream).unwrap(), expected[0], "{name}");
            assert_eq!(mask.to_vec::<f64>(&stream).unwrap(), expected[1], "{name}");
            begin = begin.after(70_000);
            assert_eq!(words.to_vec::<i32>(&stream).unwrap(), begin.to_words(), "{name}");
        }
    }
}

#[test]
fn masks_over_the_state_are_refused() {
    let problem: DropoutProblem = "dropout:forward p=0.5 x=128:f32 mask=4:i32".parse().unwrap();
    let Some(gpu) = oxidnn_tests::gpu("masks_over_the_state_are_refused") else { return };
    let x = gpu.tensor_from(problem.input(), &[1.0f32; 128]).unwrap();
    let words = gpu.tensor_from(&PhiloxState::desc(), &[1, 2, 3, 4]).unwrap();
    let mut y = gpu.tensor(problem.out()).unwrap();
    // SAFETY: as above.
    let mask = unsafe { TensorViewMut::from_raw(&gpu, PhiloxState::desc(), words.address()).unwrap() };
    let args = Args::new().input("x", &x).input("state", &words).output("y", &mut y).output("mask", mask);
    let plan = gpu.plan(&problem, Policy::Heuristic).unwrap();
    let outcome = plan.run(&gpu.stream().unwrap(), args, &mut plan.workspace().unwrap());
    assert!(outcome.unwrap_err().to_string().contains("bad mask: expected memory of its own"));
}

#[test]
fn refusals_of_tensors_in_another_order() {
    let Some(gpu) = oxidnn_tests::gpu("refusals_of_tensors_in_another_order") else { return };
    let refused =
        |text: &str| refusal(&gpu, &format!("dropout:forward {text}").parse::<DropoutProblem>().unwrap(), "vectorized");
    let message = refused("x=2x3x4:f32:nhwc");
    assert!(message.contains("a stride of 1 along dimension 1 instead of 4"), "{message}");
    assert_eq!(refused("order=channels_last x=2x3x4:f32:nhwc"), "");
}

#[test]
fn about_as_many_are_kept_as_asked_for() {
    let n = 200_000i64;
    for p in [0.0, 0.1, 0.5, 0.9, 1.0] {
        let text = format!("dropout:forward p={p} x={n}:f32 mask={}:i32 next=4:i32", n / 32);
        let problem: DropoutProblem = text.parse().unwrap();
        for context in contexts() {
            let [y, ..] = run(
                context,
                algorithms(context, &problem)[0],
                &problem,
                PhiloxState { seed: 3, offset: 0 },
                &vec![1.0; n as usize],
            );
            let kept = y.iter().filter(|&&y| y != 0.0).count() as f64 / n as f64;
            // Four standard deviations.
            assert!((kept - (1.0 - p)).abs() <= 4.0 * (p * (1.0 - p) / n as f64).sqrt(), "{p}: {kept}");
        }
    }
}

#[test]
fn infinities_that_are_dropped_are_zero() {
    let problem: DropoutProblem = "dropout:forward p=1 x=9:f32 mask=1:i32 next=4:i32".parse().unwrap();
    for context in contexts() {
        let [y, mask, _] =
            run(context, algorithms(context, &problem)[0], &problem, PhiloxState::default(), &[f64::INFINITY; 9]);
        assert_eq!((y, mask), (vec![0.0; 9], vec![0.0]));
    }
}

#[test]
fn states_are_saved_and_restored() {
    let state = PhiloxState { seed: 0x0123_4567_89ab_cdef, offset: u64::MAX };
    assert_eq!(PhiloxState::from_words(state.to_words()), state);
    assert_eq!(state.after(5), PhiloxState { offset: 1, ..state });
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<DropoutProblem>().unwrap_err().to_string();
    assert!(text("dropout:forward p=1.5 x=4:f32").contains("bad p: expected a probability from 0 to 1, given 1.5"));
    assert!(text("dropout:forward x=4:f32 y=5:f32").contains("bad y: expected the extents 4 of x, given 5"));
    assert!(text("dropout:forward x=4:f32 y=4:f16").contains("bad y: expected the element type f32"));
    assert!(text("dropout:forward x=4:i8").contains("bad x"));
    assert!(text("dropout:forward order=channels_last x=4:f32").contains("a rank of at least 2"));
    assert!(text("dropout:forward x=4:f32 mask=2:i32").contains("bad mask: expected 1:i32, given 2:i32"));
    assert!(text("dropout:forward x=4:f32 y=4:f32:s0").contains("do not overlap"));
    assert!(text("dropout:backward dy=4:f32 mask=1:i32 state=4:i32").contains("mask or state, given both"));
    assert!(text("dropout:backward dy=4:f32 next=4:i32").contains("bad next"));
}
