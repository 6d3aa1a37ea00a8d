//! Softmax against the reference, its laws and its refusals.

use kernel_abi::DType;
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxMode, SoftmaxProblem};
use oxidnn_reference::ops::softmax::{backward, forward};
use oxidnn_tests::{Case, Fill, check, check_case, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::softmax::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn rows_of_any_length_match_the_reference(problem in problems::softmax::tuned(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    /// The backward pass is the forward pass's derivative, by a central difference.
    #[test]
    fn the_gradient_is_the_derivative(seed in any::<u64>(), kind in prop::sample::select(SoftmaxKind::ALL)) {
        let problem: SoftmaxProblem = format!("softmax:forward kind={kind} x=2x5x3:f64").parse().unwrap();
        let n = problem.input().n_elems() as usize;
        let [x, dy, step] = [0, 1, 2].map(|i| Fill::Normal.values(n, DType::F64, seed.wrapping_add(i)));
        let at = |sign: f64| -> Vec<f64> { x.iter().zip(&step).map(|(x, s)| x + sign * 1e-6 * s).collect() };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let difference = (dot(&dy, &forward(&problem, &at(1.0))) - dot(&dy, &forward(&problem, &at(-1.0)))) / 2e-6;
        let gradient = dot(&backward(&problem, &forward(&problem, &x), &dy), &step);
        prop_assert!((difference - gradient).abs() < 1e-6 * (1.0 + gradient.abs()), "{difference} and {gradient}");
    }
}

#[test]
fn minus_infinity_has_probability_zero() {
    let problem: SoftmaxProblem = "softmax:forward x=1x3:f32".parse().unwrap();
    for context in oxidnn_tests::contexts() {
        let stream = context.stream().unwrap();
        let x = context.tensor_from(problem.input(), &[f32::NEG_INFINITY, 1.0, 1.0]).unwrap();
        let mut y = context.tensor(problem.out()).unwrap();
        let plan = context.plan(&problem, oxidnn::Policy::Heuristic).unwrap();
        let args = oxidnn::Args::new().input("x", &x).output("y", &mut y);
        plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
        assert_eq!(y.to_vec::<f32>(&stream).unwrap(), [0.0, 0.5, 0.5]);
    }
}

/// Configs share kernels and differ in the shared memory that they ask for: a plan runs whatever others were made since.
#[test]
fn plans_run_after_others_of_their_kernel_were_made() {
    let Some(gpu) = oxidnn_tests::gpu("plans_run_after_others_of_their_kernel_were_made") else { return };
    let problem: SoftmaxProblem = "softmax:forward kind=accurate mode=channel x=1300x512:bf16".parse().unwrap();
    let candidates = oxidnn::operators::AnyProblem::candidates(&problem, &gpu);
    let able = candidates.iter().filter(|candidate| matches!(candidate.verdict, oxidnn::Verdict::Able { .. }));
    let names: Vec<&str> = able.map(|candidate| candidate.config).collect();
    assert!(names.iter().any(|name| name.ends_with("+whole")), "{names:?}");
    let plan = |name: &&str| gpu.plan(&problem, oxidnn::Policy::fixed(*name)).unwrap();
    // Both ways round: of two plans the one that needs more is made first.
    let plans: Vec<_> = names.iter().map(plan).chain(names.iter().rev().map(plan)).collect();
    let stream = gpu.stream().unwrap();
    let x = gpu.tensor(problem.input()).unwrap();
    for plan in &plans {
        let mut y = gpu.tensor(problem.out()).unwrap();
        let args = oxidnn::Args::new().input("x", &x).output("y", &mut y);
        plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
    }
    stream.synchronize().unwrap();
}

/// Rows whose ends lie amid pieces and lines, that others' elements or gaps lie between, and of all sizes of clusters.
#[test]
fn long_rows_match_the_reference() {
    for rows in [
        "9x8192:f16",
        "9x8193:bf16",
        "7x8199:f16",
        "3x16387:bf16:s16400x1",
        "3x8200:bf16:s8201x1",
        "5x4097:f32",
        "3x4100:f32:s4104x1",
        "2x60001:bf16",
        "1x110001:f16",
        "1x220000:bf16",
        // Less than a kernel's own shared memory below all that an H200's block may have.
        "2x57826:f32",
        "2x115660:bf16",
    ] {
        for kind in SoftmaxKind::ALL {
            let forward = format!("softmax:forward kind={kind} mode=channel x={rows} y={rows}");
            let backward = format!("softmax:backward kind={kind} mode=channel y={rows} dy={rows} dx={rows}");
            for text in [forward, backward] {
                let problem: SoftmaxProblem = text.parse().unwrap();
                check(&problem, 1).unwrap_or_else(|error| panic!("{text}: {error}"));
            }
        }
    }
}

/// Short rows side by side, in multiples of what a thread may have and of half of that, where they lie to its accesses and
/// where they do not.
#[test]
fn short_rows_side_by_side() {
    for extents in [
        "3x21x8x8:bf16",
        "2x24x6:f16",
        "5x7x300:bf16",
        "2x3x4:f32",
        "3x9x2:f32",
        "2x24x600:f32",
        "2x5x8:bf16:s41x8x1",
        "3x4x8:f16:s60x10x1",
        "3x13x12:f32:s400x13x1",
        "2x1x64:bf16",
    ] {
        for kind in SoftmaxKind::ALL {
            let forward = format!("softmax:forward kind={kind} mode=channel x={extents} y={extents}");
            let backward = format!("softmax:backward kind={kind} mode=channel y={extents} dy={extents} dx={extents}");
            for text in [forward, backward] {
                let problem: SoftmaxProblem = text.parse().unwrap();
                let case = Case::normal(3);
                for case in [case, case.scaled(1.5, -0.75)] {
                    check_case(&problem, &case).unwrap_or_else(|error| panic!("{text}: {error}"));
                }
            }
        }
    }
}

/// Rows with masks in all places, and with numbers that are not finite, through every algorithm.
#[test]
fn masked_rows_and_infinities() {
    let [inf, nan] = [f32::INFINITY, f32::NAN];
    for extents in ["4x37", "4x200", "4x1500", "4x40000", "4x5x16", "4x50x3"] {
        for kind in SoftmaxKind::ALL {
            let problem: SoftmaxProblem = format!("softmax:forward kind={kind} x={extents}:f32").parse().unwrap();
            let rows = problem.rows();
            let (elems, inner) = (rows.row_elems as usize, rows.inner_rows as usize);
            let mut x = vec![0.5f32; problem.input().n_elems() as usize];
            let at = |n: usize, c: usize| (n * elems + c) * inner;
            // Of image 0 all but the last element, of 1 everything; an infinity in 2, a NaN in 3.
            (0..elems - 1).for_each(|c| x[at(0, c)] = -inf);
            (0..elems).for_each(|c| x[at(1, c)] = -inf);
            (x[at(2, elems / 2)], x[at(3, elems / 2)]) = (inf, nan);
            for context in oxidnn_tests::contexts() {
                let stream = context.stream().unwrap();
                let input = context.tensor_from(problem.input(), &x).unwrap();
                for candidate in oxidnn::operators::AnyProblem::candidates(&problem, context) {
                    if !matches!(candidate.verdict, oxidnn::Verdict::Able { .. }) {
                        continue;
                    }
                    let name = if context.is_gpu() { candidate.config } else { candidate.algorithm };
                    let plan = context.plan(&problem, oxidnn::Policy::fixed(name)).unwrap();
                    let mut y = context.tensor(problem.out()).unwrap();
                    let args = oxidnn::Args::new().input("x", &input).output("y", &mut y);
                    plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
                    let y = y.to_vec::<f32>(&stream).unwrap();
                    let row = |n: usize| (0..elems).map(|c| y[at(n, c)]).collect::<Vec<_>>();
                    let log = *kind == SoftmaxKind::Log;
                    let (zero, one) = if log { (-inf, 0.0) } else { (0.0, 1.0) };
                    let first = row(0);
                    assert!(
                        first[..elems - 1].iter().all(|&y| y == zero) && first[elems - 1] == one,
                        "{problem}, {name}"
                    );
                    assert!(row(1).iter().chain(&row(3)).all(|y| y.is_nan()), "{problem}, {name}");
                    assert!(row(2).iter().any(|y| y.is_nan()), "{problem}, {name}");
                }
            }
        }
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<SoftmaxProblem>().unwrap_err().to_string();
    assert!(text("softmax:forward x=4:f32").contains("bad x: expected a rank of at least 2"));
    assert!(text("softmax:forward x=4x2:f32 y=2x4:f32").contains("bad y: expected the extents 4x2 of x, given 2x4"));
    assert!(text("softmax:backward y=4x2:f32 dy=4x2:f16").contains("bad dy: expected the element type f32 of y"));
    assert!(text("softmax:backward y=4x2:f32 dx=4x2:f32:s0x1").contains("do not overlap"));
    assert!(text("softmax:forward kind=slow x=4x2:f32").contains("given \"slow\""));
    assert!(text("softmax:forward mode=row x=4x2:f32").contains("one of instance, channel"));
    assert_eq!(SoftmaxMode::ALL.len(), 2);
}
