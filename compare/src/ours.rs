//! Our side: every algorithm of the library that is able.

use crate::case::Work;
use crate::measure::{Call, Set, Tried, trial};
use crate::options::{Algorithms, Options};
use crate::timing::Clock;
use anyhow::Result;
use oxidnn::operators::AnyProblem;
use oxidnn::{
    Args, Candidate, Context, Plan, PlanRequest, Policy, Role, Stream, TensorView, TensorViewMut, Verdict, Workspace,
};
use std::cell::RefCell;

/// A plan with what a run needs.
pub(crate) struct OurCall<'a> {
    stream: &'a Stream,
    plan: Plan,
    workspace: RefCell<Workspace>,
}

impl<'a> OurCall<'a> {
    pub(crate) fn new(context: &Context, stream: &'a Stream, problem: &dyn AnyProblem, policy: Policy) -> Result<Self> {
        let plan = problem.plan(context, &PlanRequest::from(policy))?;
        let workspace = RefCell::new(plan.workspace()?);
        Ok(OurCall { stream, plan, workspace })
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Queues the work with operands at these addresses, in the problem's order.
    ///
    /// # Safety
    /// Each address is of device memory of that operand's size, filled or zeroed, alive until the work is done, and
    /// nobody else touches the output meanwhile.
    pub(crate) unsafe fn queue_at(&self, addresses: &[u64]) -> Result<()> {
        let context = self.plan.context();
        let mut args = Args::new();
        for (operand, &address) in self.plan.operands().iter().zip(addresses) {
            let (name, desc) = (operand.name, operand.desc);
            if operand.role == Role::Input {
                // SAFETY: the caller's promise.
                args = args.input(name, unsafe { TensorView::from_raw(context, desc, address) }?);
            } else {
                // SAFETY: the caller's promise.
                args = args.output(name, unsafe { TensorViewMut::from_raw(context, desc, address) }?);
            }
        }
        Ok(self.plan.run(self.stream, args, &mut self.workspace.borrow_mut())?)
    }
}

impl Call for OurCall<'_> {
    fn name(&self) -> String {
        name(self.plan.algorithm(), self.plan.config())
    }

    fn workspace_bytes(&self) -> u64 {
        self.plan.workspace_bytes()
    }

    fn queue(&self, set: &Set) -> Result<()> {
        // SAFETY: sets are made by this problem's operands and live as long as their case is measured.
        unsafe { self.queue_at(&set.addresses(self.plan.operands(), &set.ours)) }
    }
}

/// What an algorithm with a config is called.
pub(crate) fn name(algorithm: &str, config: &str) -> String {
    if config.contains(algorithm) { config.to_owned() } else { format!("{algorithm}:{config}") }
}

/// A candidate whose estimate is this many times the best one's is not tried.
const HOPELESS_ESTIMATE: f64 = 20.0;

/// What the search found: candidates with their times, best first, and why others were dropped.
pub(crate) struct Found<'a> {
    pub(crate) tried: Vec<Tried<'a>>,
    pub(crate) notes: Vec<String>,
}

/// The heuristic's choice, and every candidate worth trying, timed.
pub(crate) fn search<'a>(
    context: &'a Context,
    stream: &'a Stream,
    work: &Work,
    sets: &[Set],
    clock: &Clock<'_>,
    options: &Options,
) -> Result<(Option<OurCall<'a>>, Found<'a>)> {
    let mut found = Found { tried: Vec::new(), notes: Vec::new() };
    if let Some(name) = &options.algorithm {
        let call = OurCall::new(context, stream, work.problem(), Policy::fixed(name.as_str()))?;
        let us = trial(&call, sets, clock, f64::INFINITY)?;
        found.tried.push(Tried { call: Box::new(call), us });
        return Ok((None, found));
    }
    let heuristic = OurCall::new(context, stream, work.problem(), Policy::Heuristic)?;
    let names = match options.algorithms {
        Algorithms::Heuristic => vec![heuristic.plan().config()],
        Algorithms::All => worth_trying(heuristic.plan().candidates()),
    };
    let mut best = f64::INFINITY;
    for name in names {
        if options.verbose {
            // Before it runs: what hangs is named.
            eprintln!("    trying {name}");
        }
        let attempt = || -> Result<Tried<'a>> {
            let call = OurCall::new(context, stream, work.problem(), Policy::fixed(name))?;
            let us = trial(&call, sets, clock, best)?;
            Ok(Tried { call: Box::new(call), us })
        };
        match attempt() {
            Ok(tried) => {
                best = best.min(tried.us);
                found.tried.push(tried);
            }
            Err(e) => found.notes.push(format!("{name}: {e:#}")),
        }
    }
    found.tried.sort_by(|a, b| a.us.total_cmp(&b.us));
    Ok((Some(heuristic), found))
}

/// Configs by estimate, without the naive and the hopeless ones unless there is nothing else.
fn worth_trying(candidates: &[Candidate]) -> Vec<&'static str> {
    let mut able: Vec<(f64, &Candidate)> = candidates
        .iter()
        .filter_map(|candidate| match candidate.verdict {
            Verdict::Able { estimate_us, .. } => Some((estimate_us, candidate)),
            Verdict::Refused(_) => None,
        })
        .collect();
    able.sort_by(|a, b| a.0.total_cmp(&b.0));
    let limit = HOPELESS_ESTIMATE * able.first().map_or(0.0, |(us, _)| *us);
    let mut names = Vec::new();
    for (us, candidate) in &able {
        if candidate.algorithm != "naive" && *us <= limit && !names.contains(&candidate.config) {
            names.push(candidate.config);
        }
    }
    if names.is_empty() {
        names.extend(able.first().map(|(_, candidate)| candidate.config));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naive_and_hopeless_candidates_are_left_out() {
        let able = |algorithm, config, estimate_us| Candidate {
            algorithm,
            config,
            spread: oxidnn::Spread::None,
            verdict: Verdict::Able { workspace_bytes: 0, estimate_us, measured: None },
        };
        let all =
            [able("slow", "c", 900.0), able("tiles", "a", 30.0), able("tiles", "b", 20.0), able("naive", "n", 25.0)];
        assert_eq!(worth_trying(&all), ["b", "a"]);
        assert_eq!(worth_trying(&all[3..]), ["n"]);
        assert!(worth_trying(&[]).is_empty());
    }
}
