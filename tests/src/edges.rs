//! Running a plan on given numbers, for tests at the edge of the number range.

use crate::fill::round;
use kernel_abi::{Domain, Operand, Role};
use oxidnn::operators::AnyProblem;
use oxidnn::{Args, Candidate, Context, PlanRequest, Policy, Verdict};

/// Normal numbers for the operands, each in its domain and its type.
pub fn normal(operands: &[Operand], seed: u64) -> Vec<Vec<f64>> {
    operands
        .iter()
        .zip(seed..)
        .map(|(operand, seed)| {
            let dtype = operand.desc.dtype();
            let mut values = crate::Fill::Normal.values(operand.desc.n_elems() as usize, dtype, seed);
            if operand.domain != Domain::Real {
                values.iter_mut().for_each(|value| *value = round(operand.domain.map(*value), dtype));
            }
            values
        })
        .collect()
}

/// The candidates that compute a problem: all, but on a simulated device one of each algorithm.
pub fn able(problem: &dyn AnyProblem, context: &Context) -> Vec<Candidate> {
    let mut able = problem.candidates(context);
    able.retain(|candidate| matches!(candidate.verdict, Verdict::Able { .. }));
    if crate::skip::is_simulated(context) {
        able.dedup_by_key(|candidate| candidate.algorithm);
    }
    able
}

/// What a candidate makes of these operands: each output's numbers, in the order of the operands.
///
/// # Errors
/// The error of the plan or the run, as text.
pub fn run(
    problem: &dyn AnyProblem,
    context: &Context,
    candidate: &Candidate,
    values: &[Vec<f64>],
) -> Result<Vec<Vec<f64>>, String> {
    let name = if context.is_gpu() { candidate.config } else { candidate.algorithm };
    let run = || -> Result<_, oxidnn::Error> {
        let plan = problem.plan(context, &PlanRequest::from(Policy::fixed(name)))?;
        let stream = context.stream()?;
        let operands = plan.operands().to_vec();
        let mut tensors = Vec::new();
        for (operand, values) in operands.iter().zip(values) {
            tensors.push(context.tensor_from(&operand.desc, values)?);
        }
        let mut args = Args::new();
        for (operand, tensor) in operands.iter().zip(&mut tensors) {
            args = match operand.role {
                Role::Input => args.input(operand.name, &*tensor),
                Role::Output | Role::Update | Role::Result => args.output(operand.name, tensor),
            };
        }
        plan.run(&stream, args, &mut plan.workspace()?)?;
        let written = operands.iter().zip(&tensors).filter(|(operand, _)| operand.role != Role::Input);
        written.map(|(_, tensor)| tensor.to_vec::<f64>(&stream)).collect()
    };
    run().map_err(|error| error.to_string())
}
