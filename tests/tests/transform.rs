//! Transforms against the reference, exactly on integers, and their refusals.

use kernel_abi::ops::transform::TransformProblem;
use kernel_abi::{Problem, TensorDesc};
use oxidnn::{Args, Policy};
use oxidnn_tests::{Fill, check, check_exact, contexts, problems};
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

/// Extents for which tiles are written in each way, with tails.
const TRANSPOSED: &[&str] = &[
    "x=2x64x56x56:bf16 y=2x64x56x56:bf16:nhwc",
    "x=2x136x14x14:f16 y=2x136x14x14:f16:nhwc",
    "x=3x200x7x7:bf16 y=3x200x7x7:bf16:nhwc",
    "x=3x40x6x6:bf16 y=3x40x6x6:bf16:nhwc",
    "x=1x72x20x21:f16 y=1x72x20x21:f16:nhwc",
    "x=2x130x29x31:bf16 y=2x130x29x31:bf16:nhwc",
    "x=2x70x13x13:f32 y=2x70x13x13:f32:nhwc",
    "x=5x600x3x3:bf16 y=5x600x3x3:bf16:nhwc",
    "x=1000x3:f32 y=1000x3:f32:s1x1000",
    "x=2x72x28x28:bf16 y=2x72x28x28:bf16:nhwc",
    "x=1x120x14x14:f16 y=1x120x14x14:f16:nhwc",
    "x=2x200x7x14:bf16 y=2x200x7x14:bf16:nhwc",
    "x=2x336x7x7:bf16 y=2x336x7x7:bf16:nhwc",
    "x=2x44x13x13:f16 y=2x44x13x13:f16:nhwc",
    "x=1x88x10x5:bf16 y=1x88x10x5:bf16:nhwc",
    "x=1x36x10x10:bf16 y=1x36x10x10:bf16:nhwc",
    "x=1x8x25x31:bf16 y=1x8x25x31:bf16:nhwc",
    "x=2x36x7x7:f32 y=2x36x7x7:f32:nhwc",
    "x=2x3x40x52:bf16 y=2x3x40x52:bf16:nhwc",
];

#[test]
fn transpositions_there_and_back() {
    for (i, text) in TRANSPOSED.iter().enumerate() {
        let there: TransformProblem = format!("transform:forward {text}").parse().unwrap();
        let back = TransformProblem::new(there.y(), there.x()).unwrap();
        for problem in [there, back] {
            check_exact(&problem, i as u64, 60).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

/// Tensors may begin at any element.
#[test]
fn transpositions_take_any_address() {
    for text in TRANSPOSED {
        let problem: TransformProblem = format!("transform:forward {text}").parse().unwrap();
        let dtype = problem.x().dtype();
        let values = Fill::Integers { max: 60 }.values(problem.x().n_elems() as usize, dtype, 7);
        for context in contexts() {
            let algorithm = if context.is_gpu() { "tiled_transpose" } else { "cpu_copy" };
            let plan = context.plan(&problem, Policy::fixed(algorithm)).unwrap();
            let stream = context.stream().unwrap();
            for offsets in [[1, 0], [0, 1], [3, 5]] {
                let memory = |desc: &TensorDesc, offset: i64| {
                    context.tensor(&TensorDesc::packed(dtype, &[desc.span_elems() + offset + 1]).unwrap()).unwrap()
                };
                let mut x = memory(problem.x(), offsets[0]);
                let mut y = memory(problem.y(), offsets[1]);
                let mut stored = vec![0.0; x.desc().n_elems() as usize];
                for (linear, value) in values.iter().enumerate() {
                    stored[(offsets[0] + problem.x().offset_of(linear as i64)) as usize] = *value;
                }
                x.write(&stream, &stored).unwrap();
                y.write(&stream, &vec![-100.0; y.desc().n_elems() as usize]).unwrap();
                let args = Args::new()
                    .input("x", x.window(offsets[0], problem.x()).unwrap())
                    .output("y", y.window_mut(offsets[1], problem.y()).unwrap());
                plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
                let mut got = y.to_vec::<f64>(&stream).unwrap();
                for (linear, value) in values.iter().enumerate() {
                    let at = (offsets[1] + problem.y().offset_of(linear as i64)) as usize;
                    assert_eq!(got[at], *value, "{} at {offsets:?}, element {linear}", problem.pass());
                    got[at] = -100.0;
                }
                assert!(got.iter().all(|value| *value == -100.0), "{text} at {offsets:?} wrote around its output");
            }
        }
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
