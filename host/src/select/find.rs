//! Choosing by measurement: what is known, what must be measured, and what that says about the candidates.

use super::request::FindOptions;
use super::store::{Entry, Failure, Timing};
use super::trial::{self, Rivals};
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

/// Why a candidate has no time after the deadline.
const OVER: &str = "not measured: the time for it is over";

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
    let missing = unknown(subject.context, subject.problem, candidates, order, options.remeasures());
    let mut failure = measure_these(subject, candidates, &missing, options)?;
    // A candidate that was cut short beside a faster one is looked at again when that one is not allowed.
    failure = measure_these(subject, candidates, &doubtful(candidates), options)?.or(failure);
    keep_timed(candidates, order);
    match failure {
        Some(error) if order.is_empty() => Err(error),
        _ => Ok(()),
    }
}

/// Fills in the times that are known, without measuring any; `order` keeps the candidates that have one. Gives the
/// places of those that are still to be measured.
pub(super) fn recall(
    context: &Context,
    problem: &str,
    candidates: &mut [Candidate],
    order: &mut Vec<(usize, f64)>,
    options: &FindOptions,
) -> Vec<usize> {
    let mut missing = unknown(context, problem, candidates, order, options.remeasures());
    missing.extend(doubtful(candidates));
    keep_timed(candidates, order);
    missing
}

/// Fills in the times that are known, and gives the places of the candidates without one. Those that could not be
/// measured are refused.
fn unknown(
    context: &Context,
    problem: &str,
    candidates: &mut [Candidate],
    order: &[(usize, f64)],
    remeasures: bool,
) -> Vec<usize> {
    let known = if remeasures { Default::default() } else { context.store().lookup(context, problem) };
    let mut missing = Vec::new();
    for &(i, _) in order {
        let Candidate { algorithm, config, verdict, .. } = &mut candidates[i];
        let Verdict::Able { workspace_bytes, measured, .. } = verdict else { continue };
        *measured = known.get(algorithm, config, *workspace_bytes);
        if measured.is_some() {
            continue;
        }
        match known.failure(algorithm, config) {
            Some(reason) => *verdict = Verdict::Refused(reason.to_owned()),
            None => missing.push(i),
        }
    }
    missing
}

/// Times of two measurements may differ by so much: what was cut short is not looked at again for less.
pub(crate) const NOISE: f64 = 1.25;

/// Candidates that were cut short, and that nothing allowed is far ahead of.
fn doubtful(candidates: &[Candidate]) -> Vec<usize> {
    let rivals = rivals(candidates.iter());
    let is = |candidate: &Candidate| {
        timed(candidate)
            .is_some_and(|(bytes, measured)| measured.cut_short && !rivals.are_far_ahead(bytes, NOISE * measured.us))
    };
    (0..candidates.len()).filter(|&i| is(&candidates[i])).collect()
}

/// Measured times take the place of estimates, and what has none leaves.
fn keep_timed(candidates: &[Candidate], order: &mut Vec<(usize, f64)>) {
    order.retain_mut(|(i, us)| match timed(&candidates[*i]) {
        Some((_, measured)) => {
            *us = measured.us;
            true
        }
        None => false,
    });
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
    if options.is_over() {
        for &i in chosen {
            if timed(&candidates[i]).is_none() {
                candidates[i].verdict = Verdict::Refused(OVER.to_owned());
            }
        }
        return Ok(None);
    }
    let mut failure = None;
    let (mut entries, mut failures) = (Vec::new(), Vec::new());
    let others = rivals(candidates.iter().enumerate().filter(|(i, _)| !chosen.contains(i)).map(|(_, c)| c));
    let outcomes = trial::run(subject, candidates, chosen, others, options)?;
    for (&i, outcome) in chosen.iter().zip(outcomes) {
        let Candidate { algorithm, config, verdict, .. } = &mut candidates[i];
        match outcome {
            Ok((us, cut_short)) => {
                let Verdict::Able { workspace_bytes, measured, .. } = verdict else { continue };
                *measured = Some(Measured { us, cut_short, origin: Origin::Now });
                let timing = Timing { us, workspace_bytes: *workspace_bytes, cut_short };
                entries.push(Entry { algorithm: (*algorithm).to_owned(), config: (*config).to_owned(), timing });
            }
            Err(error) => {
                let reason = format!("could not be measured: {error}");
                *verdict = Verdict::Refused(reason.clone());
                // There may be more memory another time.
                if !matches!(error, Error::OutOfMemory { .. }) {
                    failures.push(Failure { algorithm, config, reason });
                }
                failure = Some(error);
            }
        }
    }
    subject.context.store().add(subject.context, subject.problem, entries);
    subject.context.store().add_failures(subject.problem, failures);
    Ok(failure)
}

/// The workspace and the time of a candidate that has one.
fn timed(candidate: &Candidate) -> Option<(u64, Measured)> {
    match candidate.verdict {
        Verdict::Able { workspace_bytes, measured: Some(measured), .. } => Some((workspace_bytes, measured)),
        _ => None,
    }
}

fn rivals<'a>(candidates: impl Iterator<Item = &'a Candidate>) -> Rivals {
    candidates.filter_map(timed).map(|(bytes, measured)| (bytes, measured.us)).collect()
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
        context.store().add(&context, &problem.to_string(), entries.collect());
        context.plan(&problem, Policy::Find).unwrap()
    }

    fn of(plan: &Plan, algorithm: &str) -> Measured {
        plan.candidates().iter().find(|c| c.algorithm == algorithm).and_then(timed).unwrap().1
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
