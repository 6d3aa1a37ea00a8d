//! The divisions of one problem's batch: what each part costs, which are worth having, and the plan of one.

use super::aim::Aim;
use super::division::{Batch, BatchSizes, Division, Divisions, MicroBatch};
use super::launch::Parts;
use super::measure;
use super::recalled::{Part, Recalled};
use super::split::BatchSplit;
use super::times::{Name, Times, name};
use crate::operators::Operation;
use crate::select::{self, Judged, Refusal};
use crate::{Candidate, Context, Error, Plan, PlanRequest, Policy, Verdict};
use rayon::prelude::*;
use std::sync::{Mutex, PoisonError};

/// What stands for the algorithm of a plan of several parts.
const NAME: &str = "micro_batches";

/// A problem, whose batch may be divided.
struct Subject<'a, P> {
    context: &'a Context,
    problem: &'a P,
    split: Result<BatchSplit, Refusal>,
}

impl<'a, P: Operation> Subject<'a, P> {
    fn new(context: &'a Context, problem: &'a P) -> Self {
        Subject { context, problem, split: problem.batch_split() }
    }

    /// Images, and how many of them a part begins at multiples of.
    fn extents(&self) -> (i64, i64) {
        match &self.split {
            Ok(split) if self.context.is_gpu() => (split.batch(), split.unit(&self.problem.operands())),
            Ok(split) => (split.batch(), 1),
            Err(_) => (1, 1),
        }
    }

    /// Divisions are looked for among parts that begin at multiples of so many images: where addresses are aligned, of a
    /// large batch not at each image, and few where sums are rounded to 16 bits after each part.
    fn grain(&self) -> i64 {
        /// Dynamic programming takes time with the square of it.
        const MOST_STEPS: i64 = 1024;
        /// Roundings of a sum: together not more than a few bits of a 16-bit type's last place.
        const MOST_ROUNDINGS: i64 = 8;
        let (batch, unit) = self.extents();
        let most = match &self.split {
            Ok(split) if split.rounds(&self.problem.operands()) => MOST_ROUNDINGS,
            _ => MOST_STEPS,
        };
        let least = u64::try_from(batch).unwrap_or(1).div_ceil(most as u64).next_power_of_two() as i64;
        least.max(unit)
    }

    /// The problem of so many of the images.
    fn part(&self, images: i64) -> Result<P, Refusal> {
        match &self.split {
            Ok(split) if images != split.batch() => split.part(self.problem, images),
            Err(refusal) if images != 1 => Err(refusal.clone()),
            _ => Ok(self.problem.clone()),
        }
    }

    /// Every verdict on a part of so many images, with its estimates, or with the times that are known; and the places of
    /// the candidates that are still to be measured.
    fn judged(&self, images: i64, request: &PlanRequest) -> (Judged, Vec<usize>) {
        let part = match self.part(images) {
            Ok(part) => part,
            Err(Refusal(reason)) => return (Judged::refused(reason), Vec::new()),
        };
        // Where times are known, estimates are only told, those for the whole.
        let is_told = self.split.as_ref().is_ok_and(|split| split.batch() == images) || self.split.is_err();
        let is_measured = request.policy == Policy::Find;
        let mut judged = match is_measured && !is_told {
            true => select::able(self.context, &part, request),
            false => select::estimated(self.context, &part, request),
        };
        let missing = match is_measured {
            true => select::recall(self.context, &part, request, &mut judged),
            false => Vec::new(),
        };
        (judged, missing)
    }

    /// A part of so many images by this algorithm and config, with its estimate.
    fn named(&self, images: i64, algorithm: &str, config: &str) -> Result<MicroBatch, Refusal> {
        let part = self.part(images)?;
        let candidates = select::candidates(self.context, &part, None);
        let is_named = |candidate: &&Candidate| candidate.algorithm == algorithm && candidate.config == config;
        match candidates.iter().find(is_named) {
            Some(&Candidate {
                algorithm, config, verdict: Verdict::Able { workspace_bytes, estimate_us, .. }, ..
            }) => Ok(MicroBatch { batch: images, algorithm, config, time_us: estimate_us, workspace_bytes }),
            Some(refused) => Err(Refusal(refused.to_string())),
            None => Err(Refusal(format!("has no candidate {algorithm} ({config}) for {images} images"))),
        }
    }

    /// The error where a batch has not the parts that are asked for.
    fn refused(&self, Refusal(reason): Refusal) -> Error {
        Error::Unsupported { problem: self.problem.to_string(), reasons: vec![(NAME.to_owned(), reason)] }
    }
}

/// What is worth having for a problem, within the request's limit of workspace. The list is empty where nothing is.
///
/// # Errors
/// From measurements: `StaleKernels`, `Driver`.
pub(crate) fn divisions<P: Operation>(
    context: &Context,
    problem: &P,
    request: &PlanRequest,
) -> Result<Divisions, Error> {
    divisions_for(context, problem, request, Aim::Front)
}

/// The same where only some are asked for.
fn divisions_for<P: Operation>(
    context: &Context,
    problem: &P,
    request: &PlanRequest,
    aim: fn(u64) -> Aim,
) -> Result<Divisions, Error> {
    let aim = aim(request.workspace_limit_bytes.unwrap_or(u64::MAX));
    let (found, _) = measure::divisions(context, &[problem], &[0], request, aim)?;
    Ok(found.into_iter().next().expect("as many as problems"))
}

/// What is known of all parts of a batch: estimates, or the times in the store.
pub(crate) fn recall<P: Operation>(context: &Context, problem: &P, request: &PlanRequest) -> Recalled {
    let subject = Subject::new(context, problem);
    let ((batch, _), grain) = (subject.extents(), subject.grain());
    let sizes = request.batch_sizes.of(batch, grain);
    let judged = |&images: &i64| {
        let (judged, missing) = subject.judged(images, request);
        Part { images, judged, missing, is_given_up: false }
    };
    let parts = sizes.par_iter().map(judged).collect();
    let refusal = match &subject.split {
        Err(Refusal(reason)) if request.batch_sizes != BatchSizes::Undivided => Some(reason.clone()),
        _ => None,
    };
    // Of the parts that there are too many of, those of powers of two are measured first.
    let first = match request.measures_in_rounds() {
        true => BatchSizes::PowerOfTwo.of(batch, grain),
        false => sizes,
    };
    Recalled::new(problem.to_string(), (batch, grain), parts, first, refusal)
}

/// What is known of a part of so many images: its verdicts, and the places of candidates that are still to be measured.
pub(crate) fn recall_part<P: Operation>(
    context: &Context,
    problem: &P,
    images: i64,
    request: &PlanRequest,
) -> (Judged, Vec<usize>) {
    Subject::new(context, problem).judged(images, request)
}

/// Measures a part of so many images: the candidates of these names, or all. `times` are those of the batch's parts that
/// are known; where all are asked for, what they show to be of no use is left out. The new times are added.
///
/// # Errors
/// `StaleKernels`, `Driver`. Where there is no room for the part, there may be for a smaller one: that is none.
pub(crate) fn measure_part<P: Operation>(
    context: &Context,
    problem: &P,
    (images, names): (i64, Option<&[Name]>),
    request: &PlanRequest,
    times: &Mutex<Times>,
) -> Result<(), Error> {
    let lock = || times.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(part) = Subject::new(context, problem).part(images) else { return Ok(()) };
    let mut judged = select::estimated(context, &part, request);
    let hopeless = if names.is_none() { lock().hopeless(images, &judged.candidates) } else { Vec::new() };
    let is_asked_for = |i: usize| match names {
        Some(names) => names.contains(&name(&judged.candidates[i])),
        None => !hopeless.contains(&i),
    };
    judged.order.retain(|&(i, _)| is_asked_for(i));
    match select::measure(context, &part, request, &mut judged) {
        Ok(()) | Err(Error::OutOfMemory { .. }) => {}
        Err(error) => return Err(error),
    }
    lock().add(images, &judged.candidates);
    Ok(())
}

/// The plan of the fastest division within the request's limit.
///
/// # Errors
/// `Unsupported` for a batch that cannot be divided, and where nothing is within the limit; others as for any plan.
pub(crate) fn plan<P: Operation>(context: &Context, problem: &P, request: &PlanRequest) -> Result<Plan, Error> {
    let found = divisions_for(context, problem, request, Aim::Each)?;
    if let Some(reason) = &found.refusal {
        let reasons = vec![(NAME.to_owned(), reason.clone())];
        return Err(Error::Unsupported { problem: found.problem, reasons });
    }
    let Some(best) = found.within(u64::MAX) else { return Err(none_within(context, problem, request)) };
    let plan = plan_division(context, problem, best)?;
    let chosen_by = format!("{}, micro-batches {}", select::chosen_by(context, request), request.batch_sizes.name());
    Ok(Plan { candidates: found.candidates, chosen_by, ..plan })
}

/// The error where nothing is within the request's limit: with what is needed at least.
pub(crate) fn none_within<P: Operation>(context: &Context, problem: &P, request: &PlanRequest) -> Error {
    let limit = request.workspace_limit_bytes.unwrap_or(u64::MAX);
    let policy = if request.policy == Policy::Find { Policy::Heuristic } else { request.policy.clone() };
    let unlimited = PlanRequest { policy, workspace_limit_bytes: None, ..request.clone() };
    let found = recall(context, problem, &unlimited).divisions(u64::MAX, 0);
    let reason = |candidate: &Candidate| match &candidate.verdict {
        Verdict::Refused(reason) => reason.clone(),
        Verdict::Able { workspace_bytes, .. } if *workspace_bytes > limit => {
            select::over_limit(*workspace_bytes, limit)
        }
        Verdict::Able { .. } => "was not measured".to_owned(),
    };
    let name = |candidate: &Candidate| candidate.algorithm.to_owned();
    let mut reasons: Vec<_> = found.candidates.iter().map(|candidate| (name(candidate), reason(candidate))).collect();
    if let Some(least) = found.front.first().filter(|least| least.workspace_bytes > limit) {
        let reason = format!("the least: {least} {}", select::over_limit(least.workspace_bytes, limit));
        reasons.push((NAME.to_owned(), reason));
    }
    Error::Unsupported { problem: found.problem, reasons }
}

/// The batch of a problem that has parts.
///
/// # Errors
/// `Unsupported` with the reason where it has none.
pub(crate) fn batch<P: Operation>(context: &Context, problem: &P) -> Result<Batch, Error> {
    let subject = Subject::new(context, problem);
    let (images, unit) = subject.extents();
    match &subject.split {
        Ok(_) => Ok(Batch { images, unit }),
        Err(refusal) => Err(subject.refused(refusal.clone())),
    }
}

/// A part of so many images by this algorithm and config, with its estimate.
///
/// # Errors
/// `Unsupported` where there is no such part, or the algorithm does not compute it.
pub(crate) fn micro_batch<P: Operation>(
    context: &Context,
    problem: &P,
    images: i64,
    (algorithm, config): (&str, &str),
) -> Result<MicroBatch, Error> {
    let subject = Subject::new(context, problem);
    subject.named(images, algorithm, config).map_err(|refusal| subject.refused(refusal))
}

/// The plan of a division.
///
/// # Errors
/// `Unsupported` where its parts are not the problem's, or its algorithms do not take them; `StaleKernels`, `Driver`.
pub(crate) fn plan_division<P: Operation>(context: &Context, problem: &P, division: &Division) -> Result<Plan, Error> {
    let subject = Subject::new(context, problem);
    let refused = |refusal| subject.refused(refusal);
    let (batch, unit) = subject.extents();
    let are_parts = division.parts.iter().all(|part| (1..=batch).contains(&part.batch));
    let begin_well = division.parts.iter().rev().skip(1).all(|part| part.batch % unit == 0);
    if !are_parts || !begin_well || division.parts.iter().map(|part| part.batch).sum::<i64>() != batch {
        let reason = format!("expected parts of {batch} images that begin at multiples of {unit}, given {division}");
        return Err(refused(Refusal(reason)));
    }
    if let [MicroBatch { algorithm, config, .. }] = division.parts[..] {
        subject.named(batch, algorithm, config).map_err(refused)?;
        return select::assemble(context, problem, algorithm, config);
    }
    let split = subject.split.as_ref().map_err(|refusal| refused(refusal.clone()))?;
    let operands = problem.operands();
    let mut prepared: Vec<(MicroBatch, Plan)> = Vec::new();
    let mut parts = Parts::new(split.accumulates());
    let mut begin = 0;
    for part in &division.parts {
        let same = |(other, _): &(MicroBatch, Plan)| {
            (other.batch, other.algorithm, other.config) == (part.batch, part.algorithm, part.config)
        };
        let at = match prepared.iter().position(same) {
            Some(at) => at,
            None => {
                subject.named(part.batch, part.algorithm, part.config).map_err(refused)?;
                let problem = subject.part(part.batch).map_err(refused)?;
                prepared.push((*part, select::assemble(context, &problem, part.algorithm, part.config)?));
                prepared.len() - 1
            }
        };
        parts.push(at, split.ranges(&operands, begin, part.batch).map_err(refused)?);
        begin += part.batch;
    }
    let workspace_bytes = prepared.iter().map(|(_, plan)| plan.workspace_bytes).max().unwrap_or(0);
    Ok(Plan {
        context: context.clone(),
        op: P::OP,
        problem: problem.to_string(),
        in_place: problem.works_in_place(),
        algorithm: NAME,
        config: "",
        workspace_bytes,
        launch: Box::new(parts.with_launches(prepared.into_iter().map(|(_, plan)| plan.launch).collect())),
        operands,
        candidates: Vec::new(),
        chosen_by: String::new(),
        micro_batches: division.parts.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that knows a time for every candidate of every part of a problem, for a device that is not there.
    #[test]
    fn stored_measurements_are_enough() {
        let context = Context::described(crate::DeviceInfo::h200());
        context.use_store(crate::StoreLocation::Off);
        let text = "conv:fprop pad=1x1 x=16x128x28x28:f32 w=128x128x3x3:f32 y=16x128x28x28:f32";
        let problem: crate::ops::conv::ConvProblem = text.parse().unwrap();
        let split = problem.batch_split().unwrap();
        // What needs workspace is fast, the more the larger the part: halves are slower than the whole.
        for size in BatchSizes::PowerOfTwo.of(16, 1) {
            let part = if size == 16 { problem.clone() } else { split.part(&problem, size).unwrap() };
            let entry = |candidate: &Candidate| {
                let Verdict::Able { workspace_bytes, .. } = candidate.verdict else { return None };
                let us = if workspace_bytes == 0 { 100.0 * size as f64 } else { 10.0 + size as f64 };
                Some(select::stored(candidate, us, workspace_bytes))
            };
            let entries = select::candidates(&context, &part, None).iter().filter_map(entry).collect();
            context.store().add(&context, &part.to_string(), entries);
        }
        let request = Policy::Find.micro_batches(BatchSizes::PowerOfTwo);
        let all = divisions(&context, &problem, &request).unwrap();
        let whole = all.front.last().unwrap();
        assert_eq!((whole.time_us(), whole.parts.len()), (26.0, 1));
        // One byte less than the whole needs: two halves, not an algorithm without workspace.
        let least_whole = all.undivided.iter().rev().find(|division| division.time_us() == 26.0).unwrap();
        let limit = least_whole.workspace_bytes - 1;
        let less = divisions(&context, &problem, &request.clone().workspace_limit(limit)).unwrap();
        let best = less.within(limit).unwrap();
        assert_eq!(best.parts.iter().map(|part| part.batch).collect::<Vec<_>>(), [8, 8]);
        assert_eq!((best.time_us(), less.undivided_within(limit).unwrap().time_us()), (36.0, 1600.0));
        // Nothing was measured, which this device could not do; what is not known cannot be had.
        let unknown = divisions(&context, &problem, &request.micro_batches(BatchSizes::All));
        assert!(matches!(unknown, Err(Error::NoDevice { .. })));
    }

    #[test]
    fn grains_keep_the_search_short_and_sums_exact() {
        let grain = |text: &str| {
            let problem: crate::ops::conv::ConvProblem = text.parse().unwrap();
            Subject::new(&Context::cpu(), &problem).grain()
        };
        assert_eq!(grain("conv:fprop x=256x3x9x9:bf16 w=4x3x3x3:bf16"), 1);
        assert_eq!(grain("conv:fprop x=5000x3x9x9:bf16 w=4x3x3x3:bf16"), 8);
        assert_eq!(grain("conv:wgrad x=256x3x9x9:f32 dw=4x3x3x3:f32 dy=256x4x7x7:f32"), 1);
        assert_eq!(grain("conv:wgrad x=256x3x9x9:bf16 dw=4x3x3x3:bf16 dy=256x4x7x7:bf16"), 32);
        // Millions of images are looked at in steps, in no time.
        let large: crate::ops::activation::ActivationProblem =
            "activation:forward mode=relu x=9000001:f32".parse().unwrap();
        let request = Policy::Heuristic.micro_batches(BatchSizes::All);
        assert!(!divisions(&Context::cpu(), &large, &request).unwrap().front.is_empty());
    }
}
