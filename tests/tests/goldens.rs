//! Results of PyTorch in f64, gradients by autograd, against the reference and against every algorithm.

use oxidnn::operators::parse_problem;
use oxidnn::{Args, PlanRequest, Policy, Role, Verdict};
use oxidnn_reference::tolerance;
use oxidnn_tests::contexts;
use safetensors::SafeTensors;
use std::collections::BTreeSet;

/// Made by `tests/goldens/make.py`.
static GENERAL: &[u8] = include_bytes!("../goldens/goldens.safetensors");
/// Made by `tests/goldens/images.py`: pooling and resampling.
static IMAGES: &[u8] = include_bytes!("../goldens/images.safetensors");
/// Made by `tests/goldens/training.py`: losses, activations, dropout, optimizers, reductions, pointwise operations,
/// gathering, padding, further norms.
static TRAINING: &[u8] = include_bytes!("../goldens/training.safetensors");

/// Both sides compute in f64, in other orders; values are of the order of 1.
const LIMIT: f64 = 1e-12;

fn values(file: &SafeTensors<'_>, name: &str) -> Option<Vec<f64>> {
    let bytes = file.tensor(name).ok()?.data();
    Some(bytes.chunks_exact(8).map(|c| f64::from_le_bytes(c.try_into().unwrap())).collect())
}

#[test]
fn reference_and_algorithms_agree_with_pytorch() {
    agree(GENERAL, 6);
}

#[test]
fn pooling_and_resampling_agree_with_pytorch() {
    agree(IMAGES, 5);
}

#[test]
fn losses_steps_and_what_moves_data_agree_with_pytorch() {
    agree(TRAINING, 11);
}

/// Of a file whose problems are of at least so many operators.
fn agree(file: &[u8], n_operators: usize) {
    let file = SafeTensors::deserialize(file).unwrap();
    let names = file.names();
    let cases: BTreeSet<&str> = names.iter().filter_map(|name| name.split('|').next()).collect();
    let covered: BTreeSet<&str> = cases.iter().filter_map(|text| text.split([':', ' ']).next()).collect();
    assert!(covered.len() >= n_operators, "only {covered:?}");
    for case in cases {
        // Of several cases of one problem all but the first have a number.
        let text = case.split('#').next().unwrap();
        let problem = parse_problem(text).unwrap();
        let operands = problem.operands();
        let expected: Vec<Vec<f64>> =
            operands.iter().map(|operand| values(&file, &format!("{case}|{}", operand.name)).unwrap()).collect();
        let given: Vec<Vec<f64>> = operands
            .iter()
            .zip(&expected)
            .map(|(operand, expected)| match operand.role {
                Role::Input => expected.clone(),
                Role::Output | Role::Result => vec![f64::NAN; expected.len()],
                Role::Update => values(&file, &format!("{case}|{}.prior", operand.name)).unwrap(),
            })
            .collect();
        let mut judged = oxidnn_reference::judge(text).unwrap().judge_scaled(&given, 1.0, 0.0).into_iter();
        for (operand, expected) in operands.iter().zip(&expected).filter(|(operand, _)| operand.role != Role::Input) {
            let error = tolerance::error(expected, &judged.next().unwrap(), &vec![1.0; expected.len()]);
            assert!(error <= LIMIT, "{case}: reference, {}: error {error:e}", operand.name);
        }
        for context in contexts() {
            let stream = context.stream().unwrap();
            for candidate in problem.candidates(context) {
                if !matches!(candidate.verdict, Verdict::Able { .. }) {
                    continue;
                }
                let name = if context.is_gpu() { candidate.config } else { candidate.algorithm };
                let plan = problem.plan(context, &PlanRequest::from(Policy::fixed(name))).unwrap();
                let mut tensors: Vec<_> = operands
                    .iter()
                    .zip(&given)
                    .map(|(operand, given)| context.tensor_from(&operand.desc, given).unwrap())
                    .collect();
                let mut args = Args::new();
                for (operand, tensor) in operands.iter().zip(&mut tensors) {
                    args = match operand.role {
                        Role::Input => args.input(operand.name, &*tensor),
                        Role::Output | Role::Update | Role::Result => args.output(operand.name, tensor),
                    };
                }
                plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
                for ((operand, tensor), expected) in operands.iter().zip(&tensors).zip(&expected) {
                    let error =
                        tolerance::error(expected, &tensor.to_vec::<f64>(&stream).unwrap(), &vec![1.0; expected.len()]);
                    assert!(error <= LIMIT, "{case}: {name}, {}: error {error:e}", operand.name);
                }
            }
        }
    }
}
