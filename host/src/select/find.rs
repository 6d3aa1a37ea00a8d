//! Choosing by measurement.

use super::{Candidate, Verdict, assemble};
use crate::operators::Operation;
use crate::{Args, Context, Error, Role, Tensor, Workspace};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Timings by candidate, of problems already measured on a context.
pub(crate) type Timings = HashMap<(&'static str, &'static str), f64>;

/// Measured problems of one context, by text form.
#[derive(Debug, Default)]
pub(crate) struct FindCache(Mutex<HashMap<String, Timings>>);

impl FindCache {
    fn get(&self, problem: &str) -> Timings {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(problem).cloned().unwrap_or_default()
    }

    fn extend(&self, problem: String, timings: Timings) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(problem).or_default().extend(timings);
    }
}

/// Runs per candidate, the first of them uncounted: it pays for loading the kernel.
const RUNS: usize = 4;

/// Fills in measured times and replaces the estimates in `order` with them.
///
/// Operands and workspace are allocated for the duration; they hold zeros, which sorts candidates well enough.
pub(super) fn measure<P: Operation>(
    context: &Context,
    problem: &P,
    candidates: &mut [Candidate],
    order: &mut [(usize, f64)],
) -> Result<(), Error> {
    let text = problem.to_string();
    let mut timings = context.find_cache().get(&text);
    if order.iter().any(|&(i, _)| !timings.contains_key(&(candidates[i].algorithm, candidates[i].config))) {
        let mut tensors = problem
            .operands()
            .iter()
            .map(|operand| Ok((*operand, context.tensor(&operand.desc)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let mut workspace = Workspace::none(context)?;
        for &(i, _) in order.iter() {
            let us = time(context, problem, candidates, i, &mut tensors, &mut workspace)?;
            timings.insert((candidates[i].algorithm, candidates[i].config), us);
        }
        context.find_cache().extend(text, timings.clone());
    }
    for (i, us) in order {
        *us = timings[&(candidates[*i].algorithm, candidates[*i].config)];
        if let Verdict::Able { measured_us, .. } = &mut candidates[*i].verdict {
            *measured_us = Some(*us);
        }
    }
    Ok(())
}

fn time<P: Operation>(
    context: &Context,
    problem: &P,
    candidates: &[Candidate],
    chosen: usize,
    tensors: &mut [(crate::Operand, Tensor)],
    workspace: &mut Workspace,
) -> Result<f64, Error> {
    let plan = assemble(context, problem, vec![candidates[chosen].clone()], 0)?;
    workspace.grow(plan.workspace_bytes())?;
    let stream = context.stream()?;
    let mut best = f64::INFINITY;
    for run in 0..RUNS {
        let mut args = Args::new();
        for (operand, tensor) in tensors.iter_mut() {
            args = match operand.role {
                Role::Input => args.input(operand.name, &*tensor),
                Role::Output | Role::Update => args.output(operand.name, tensor),
            };
        }
        let timer = stream.timer()?;
        plan.run(&stream, args, workspace)?;
        let us = timer.stop_us()?;
        if run > 0 {
            best = best.min(us);
        }
    }
    Ok(best)
}
