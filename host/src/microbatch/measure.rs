//! Measuring parts of many problems before anything is chosen: on one device after the other, or on several at a time.
//!
//! Parts of whole batches and of powers of two are all measured. Where any size of part is asked for, that would be
//! thousands; then it goes in rounds: of all other parts, those that the choice depends on ([`worth_measuring`]), until
//! it depends on none without a time.

use super::aim::{Aim, Outlook, worth_measuring};
use super::division::Divisions;
use super::recalled::Recalled;
use super::times::{Name, Times};
use crate::operators::AnyProblem;
use crate::select::{Position, scope};
use crate::{Context, Error, PlanRequest};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A part to measure: which problem's, its images, and the candidates; all of them where none is named.
#[derive(Clone, Debug)]
struct Task {
    problem: usize,
    images: i64,
    names: Option<Vec<Name>>,
}

/// What measurements were made for a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Rounds: the first of parts that are always measured, each other of those that the choice depended on then.
    pub rounds: usize,
    /// Parts that were measured.
    pub parts: usize,
}

impl AddAssign for Effort {
    fn add_assign(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.parts += other.parts;
    }
}

/// What is known of the problems' parts after the measurements that these aims ask for: with the number of those that
/// stayed without a time, of each problem.
type Known = (Vec<Recalled>, Vec<usize>, Effort);

/// What is worth having for each of the problems, within the request's limit of workspace; what is not known of their
/// parts is measured, where the policy says so. Where parts of all sizes are, only what the aim asks for is sure to be
/// the best of its workspace. `layers` are the numbers of the problems that share a total.
///
/// # Errors
/// From measurements: `StaleKernels`, `Driver`; `BadDescriptor` for devices that are not of one kind.
pub(super) fn divisions(
    context: &Context,
    problems: &[&dyn AnyProblem],
    layers: &[usize],
    request: &PlanRequest,
    aim: Aim,
) -> Result<(Vec<Divisions>, Effort), Error> {
    let (all, unmeasured, effort) = known(context, problems, layers, request, &[aim])?;
    let limit = request.workspace_limit_bytes.unwrap_or(u64::MAX);
    let found = all.into_par_iter().zip(unmeasured).map(|(recalled, n)| recalled.divisions(limit, n)).collect();
    Ok((found, effort))
}

/// Measures what several aims ask for.
///
/// # Errors
/// As above.
pub(super) fn known(
    context: &Context,
    problems: &[&dyn AnyProblem],
    layers: &[usize],
    request: &PlanRequest,
    aims: &[Aim],
) -> Result<Known, Error> {
    let mut all: Vec<Recalled> = problems.par_iter().map(|problem| problem.recall(context, request)).collect();
    let mut effort = Effort::default();
    let first = |(problem, recalled): (usize, &Recalled)| {
        recalled.missing().map(move |images| Task { problem, images, names: None }).collect::<Vec<_>>()
    };
    let tasks: Vec<Task> = all.iter().enumerate().flat_map(first).collect();
    if !tasks.is_empty() {
        effort += measure(context, problems, &mut all, tasks, request)?;
    }
    if !request.measures_in_rounds() || all.iter().all(Recalled::is_complete) {
        let unmeasured = all.iter().map(|recalled| recalled.missing().count() + recalled.n_given_up()).collect();
        return Ok((all, unmeasured, effort));
    }
    let limit = request.workspace_limit_bytes.unwrap_or(u64::MAX);
    let mut outlooks: Vec<Option<Outlook>> = all.iter().map(|_| None).collect();
    loop {
        let known = std::mem::take(&mut outlooks).into_par_iter().zip(&all);
        let known: Vec<Outlook> =
            known.map(|(known, recalled)| known.unwrap_or_else(|| recalled.outlook(limit))).collect();
        let mut parts: BTreeMap<(usize, i64), BTreeSet<Name>> = BTreeMap::new();
        for (problem, (images, name)) in aims.iter().flat_map(|&aim| worth_measuring(&known, layers, aim)) {
            parts.entry((problem, images)).or_default().insert(name);
        }
        if parts.is_empty() || request.find.is_over() {
            let mut unmeasured: Vec<usize> = all.iter().map(Recalled::n_given_up).collect();
            parts.keys().for_each(|&(problem, _)| unmeasured[problem] += 1);
            return Ok((all, unmeasured, effort));
        }
        let changed: BTreeSet<usize> = parts.keys().map(|&(problem, _)| problem).collect();
        let task = |((problem, images), names): ((usize, i64), BTreeSet<Name>)| Task {
            problem,
            images,
            names: Some(names.into_iter().collect()),
        };
        let tasks = parts.into_iter().map(task).collect();
        effort += measure(context, problems, &mut all, tasks, request)?;
        let keep = |(problem, outlook)| (!changed.contains(&problem)).then_some(outlook);
        outlooks = known.into_iter().enumerate().map(keep).collect();
    }
}

/// Measures parts: each device takes the next one from a queue, and all use the context's store.
fn measure(
    context: &Context,
    problems: &[&dyn AnyProblem],
    all: &mut [Recalled],
    mut tasks: Vec<Task>,
    request: &PlanRequest,
) -> Result<Effort, Error> {
    // Whole batches first, then what is divided by two the most often: the times of each stage tell what the next can do
    // without, the longest measurements come first, and where time runs out, it is the finest division that is left.
    let whole: Vec<i64> = all.iter().map(Recalled::batch).collect();
    tasks.sort_by_key(|&Task { problem, images, .. }| {
        (images != whole[problem], Reverse(images.trailing_zeros()), Reverse(images), problem)
    });
    let mut effort = Effort { rounds: 1, parts: 0 };
    // What devices together leave, since one has fewer clusters or less memory than the context's, is its own to measure.
    let mut request = request.clone();
    let stages = if request.find.other_devices().is_empty() { 1 } else { 2 };
    for stage in 0..stages {
        if stage > 0 {
            request.find = request.find.devices([]);
        }
        effort.parts += take_turns(context, problems, all, &tasks, &request)?;
        request.find = request.find.remeasure(false);
        let again = |Task { problem, images, .. }: &Task| problems[*problem].recall_part(context, *images, &request);
        let known: Vec<_> = tasks.par_iter().map(again).collect();
        for (Task { problem, images, names }, (judged, missing)) in tasks.iter().zip(known) {
            all[*problem].learn(*images, names.as_deref(), judged, missing);
        }
        all.par_iter_mut().for_each(Recalled::leave_out);
        tasks.retain(|Task { problem, images, names }| all[*problem].lacks(*images, names.as_deref()));
        if tasks.is_empty() || request.find.is_over() {
            return Ok(effort);
        }
    }
    for Task { problem, images, names } in &tasks {
        all[*problem].give_up(*images, names.as_deref());
    }
    Ok(effort)
}

/// Has all devices measure what they can of these parts, and gives how many were begun.
fn take_turns(
    context: &Context,
    problems: &[&dyn AnyProblem],
    all: &mut [Recalled],
    tasks: &[Task],
    request: &PlanRequest,
) -> Result<usize, Error> {
    let devices = request.find.other_devices();
    for device in devices {
        let (expected, given) = (scope::of(context), scope::of(device));
        if expected != given {
            return Err(Error::bad("find", "devices", format!("expected ones of {expected:?}, given {given:?}")));
        }
        device.store().share(context.store());
    }
    let times: Vec<Mutex<Times>> =
        all.iter_mut().map(|recalled| Mutex::new(std::mem::take(&mut recalled.times))).collect();
    let position = Arc::new(Position { done: AtomicUsize::new(0), n_parts: tasks.len() });
    let request = PlanRequest { find: request.find.at(position.clone()), ..request.clone() };
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let work = |context: &Context| {
        while !request.find.is_over() {
            let Some(Task { problem, images, names }) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let part = (*images, names.as_deref());
            if let Err(error) = problems[*problem].measure_part(context, part, &request, &times[*problem]) {
                // A device that is lost; the others need not go on.
                next.store(tasks.len(), Ordering::Relaxed);
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return;
            }
            position.done.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for device in devices {
            scope.spawn(|| work(device));
        }
        work(context);
    });
    for (recalled, times) in all.iter_mut().zip(times) {
        recalled.times = times.into_inner().unwrap_or_else(PoisonError::into_inner);
    }
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(position.done.load(Ordering::Relaxed)),
    }
}
