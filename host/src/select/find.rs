//! Choosing by measurement: what is known, what must be measured, and what that says about the candidates.

use super::request::FindOptions;
use super::store::{Entry, Timing};
use super::trial::{self, TOO_SLOW};
use super::{Candidate, Measured, Origin, Verdict};
use crate::{Context, Error, Operand, Plan};

/// A problem and how to make plans for its candidates.
pub(super) struct Subject<'a> {
    pub(super) context: &'a Context,
    pub(super) problem: &'a str,
    pub(super) operands: &'a [Operand],
    /// Makes the plan of an algorithm and config.
    pub(super) plan: &'a dyn Fn(&'static str, &'static str) -> Result<Plan, Error>,
}

/// Fills in measured times and replaces the estimates in `order` with them.
///
/// A candidate that fails is refused with what went wrong, and leaves `order`.
pub(super) fn measure(
    subject: &Subject<'_>,
    candidates: &mut [Candidate],
    order: &mut Vec<(usize, f64)>,
    options: &FindOptions,
) -> Result<(), Error> {
    let _alone = subject.context.store().measuring();
    // The most promising first, so that those far behind are seen to be so at their first run.
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let known = subject.context.store().lookup(subject.context, subject.problem);
    let mut missing = Vec::new();
    for &(i, _) in order.iter() {
        let Candidate { algorithm, config, verdict } = &mut candidates[i];
        let Verdict::Able { workspace_bytes, measured, .. } = verdict else { continue };
        *measured = known.get(algorithm, config, *workspace_bytes).filter(|_| !options.remeasures());
        if measured.is_none() {
            missing.push(i);
        }
    }
    let mut failure = measure_these(subject, candidates, &missing, options)?;
    // A candidate that was cut short beside a faster one is looked at again when that one is not allowed.
    let best = best_us(candidates);
    let doubtful = |candidate: &Candidate| time(candidate).is_some_and(|m| m.cut_short && m.us <= TOO_SLOW * best);
    let doubtful: Vec<usize> = order.iter().map(|&(i, _)| i).filter(|&i| doubtful(&candidates[i])).collect();
    failure = measure_these(subject, candidates, &doubtful, options)?.or(failure);
    order.retain_mut(|(i, us)| {
        let measured = time(&candidates[*i]);
        *us = measured.map_or(f64::INFINITY, |measured| measured.us);
        measured.is_some()
    });
    match failure {
        Some(error) if order.is_empty() => Err(error),
        _ => Ok(()),
    }
}

/// Measures the candidates with these numbers, keeps what came out, and gives the last failure.
fn measure_these(
    subject: &Subject<'_>,
    candidates: &mut [Candidate],
    chosen: &[usize],
    options: &FindOptions,
) -> Result<Option<Error>, Error> {
    if chosen.is_empty() {
        return Ok(None);
    }
    let mut failure = None;
    let mut entries = Vec::new();
    let others: Vec<Candidate> =
        candidates.iter().enumerate().filter(|(i, _)| !chosen.contains(i)).map(|(_, c)| c.clone()).collect();
    let outcomes = trial::run(subject, candidates, chosen, best_us(&others), options)?;
    for (&i, outcome) in chosen.iter().zip(outcomes) {
        let Candidate { algorithm, config, verdict } = &mut candidates[i];
        match outcome {
            Ok((us, cut_short)) => {
                let Verdict::Able { workspace_bytes, measured, .. } = verdict else { continue };
                *measured = Some(Measured { us, cut_short, origin: Origin::Now });
                let timing = Timing { us, workspace_bytes: *workspace_bytes, cut_short };
                entries.push(Entry { algorithm: (*algorithm).to_owned(), config: (*config).to_owned(), timing });
            }
            Err(error) => {
                *verdict = Verdict::Refused(format!("could not be measured: {error}"));
                failure = Some(error);
            }
        }
    }
    subject.context.store().add(subject.problem, entries);
    Ok(failure)
}

fn time(candidate: &Candidate) -> Option<Measured> {
    match candidate.verdict {
        Verdict::Able { measured, .. } => measured,
        Verdict::Refused(_) => None,
    }
}

fn best_us(candidates: &[Candidate]) -> f64 {
    candidates.iter().filter_map(time).map(|measured| measured.us).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::conv::ConvProblem;
    use crate::{Policy, StoreLocation};

    /// A plan after Find was told these times of the two CPU algorithms; the flags say which are of first runs only.
    fn find_after(gemm: (f64, bool), direct: (f64, bool)) -> Plan {
        let context = Context::cpu();
        context.use_store(StoreLocation::Off);
        let problem: ConvProblem = "conv:fprop pad=1x1 x=1x3x6x6:f32 w=4x3x3x3:f32".parse().unwrap();
        let entries = super::super::candidates(&context, &problem, None).into_iter().filter_map(|candidate| {
            let Verdict::Able { workspace_bytes, .. } = candidate.verdict else { return None };
            let (us, cut_short) = if candidate.algorithm == "cpu_gemm" { gemm } else { direct };
            let timing = Timing { us, workspace_bytes, cut_short };
            let (algorithm, config) = (candidate.algorithm.to_owned(), candidate.config.to_owned());
            Some(Entry { algorithm, config, timing })
        });
        context.store().add(&problem.to_string(), entries.collect());
        context.plan(&problem, Policy::Find).unwrap()
    }

    fn of(plan: &Plan, algorithm: &str) -> Measured {
        plan.candidates().iter().find(|candidate| candidate.algorithm == algorithm).and_then(time).unwrap()
    }

    #[test]
    fn what_was_far_behind_is_not_measured_again() {
        let plan = find_after((1.0, false), (50.0, true));
        assert_eq!(of(&plan, "cpu_direct"), Measured { us: 50.0, cut_short: true, origin: Origin::Context });
        assert_eq!(of(&plan, "cpu_gemm").origin, Origin::Context);
        assert_eq!(plan.algorithm(), "cpu_gemm");
        assert!(plan.explain().contains("first run only"), "{plan:?}");
    }

    #[test]
    fn a_first_run_is_measured_in_full_when_nothing_is_far_ahead_any_more() {
        let plan = find_after((1e12, false), (50.0, true));
        let direct = of(&plan, "cpu_direct");
        assert_eq!((direct.origin, direct.cut_short), (Origin::Now, false));
        assert_eq!(of(&plan, "cpu_gemm"), Measured { us: 1e12, cut_short: false, origin: Origin::Context });
        assert_eq!(plan.algorithm(), "cpu_direct");
    }
}
