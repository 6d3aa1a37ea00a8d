//! Measuring parts of many problems before anything is chosen: on one device after the other, or on several at a time.

use super::division::Divisions;
use super::recalled::Recalled;
use super::times::Times;
use crate::operators::AnyProblem;
use crate::select::{Position, scope};
use crate::{Context, Error, PlanRequest};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A part to measure: which problem's, and its images.
#[derive(Clone, Copy)]
struct Task {
    problem: usize,
    images: i64,
}

/// What is worth having for each of the problems, within the request's limit of workspace; what is not known of their
/// parts is measured, where the policy says so.
///
/// # Errors
/// From measurements: `StaleKernels`, `Driver`; `BadDescriptor` for devices that are not of one kind.
pub(super) fn divisions(
    context: &Context,
    problems: &[&dyn AnyProblem],
    request: &PlanRequest,
) -> Result<Vec<Divisions>, Error> {
    let mut all: Vec<Recalled> = problems.par_iter().map(|problem| problem.recall(context, request)).collect();
    let mut request = request.clone();
    // What devices together leave, since one has fewer clusters or less memory than the context's, is its own to measure.
    let stages = if request.find.other_devices().is_empty() { 1 } else { 2 };
    for stage in 0..stages {
        if all.iter().all(|recalled| recalled.missing.is_empty()) {
            break;
        }
        if stage > 0 {
            request.find = request.find.devices([]);
        }
        measure(context, problems, &mut all, &request)?;
        request.find = request.find.remeasure(false);
        let again = |(recalled, problem): (&mut Recalled, &&dyn AnyProblem)| {
            if !recalled.missing.is_empty() {
                *recalled = problem.recall(context, &request);
            }
        };
        all.par_iter_mut().zip(problems).for_each(again);
    }
    let limit = request.workspace_limit_bytes.unwrap_or(u64::MAX);
    Ok(all.into_par_iter().map(|recalled| recalled.divisions(limit)).collect())
}

/// Measures what is missing: each device takes the next part from one queue, and all use the context's store.
fn measure(
    context: &Context,
    problems: &[&dyn AnyProblem],
    all: &mut [Recalled],
    request: &PlanRequest,
) -> Result<(), Error> {
    let devices = request.find.other_devices();
    for device in devices {
        let (expected, given) = (scope::of(context), scope::of(device));
        if expected != given {
            return Err(Error::bad("find", "devices", format!("expected ones of {expected:?}, given {given:?}")));
        }
        device.store().share(context.store());
    }
    let of = |(problem, recalled): (usize, &Recalled)| {
        recalled.missing.iter().map(move |&images| Task { problem, images }).collect::<Vec<_>>()
    };
    let mut tasks: Vec<Task> = all.iter().enumerate().flat_map(of).collect();
    // Whole batches first, then what is divided by two the most often: the times of each stage tell what the next can do
    // without, the longest measurements come first, and where time runs out, it is the finest division that is left.
    let whole: Vec<i64> = all.iter().map(Recalled::batch).collect();
    tasks.sort_by_key(|&Task { problem, images }| {
        (images != whole[problem], Reverse(images.trailing_zeros()), Reverse(images), problem)
    });
    let times: Vec<Mutex<Times>> =
        all.iter_mut().map(|recalled| Mutex::new(std::mem::take(&mut recalled.times))).collect();
    let position = Arc::new(Position { done: AtomicUsize::new(0), n_parts: tasks.len() });
    let request = PlanRequest { find: request.find.at(position.clone()), ..request.clone() };
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let work = |context: &Context| {
        while !request.find.is_over() {
            let Some(&Task { problem, images }) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            if let Err(error) = problems[problem].measure_part(context, images, &request, &times[problem]) {
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
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}
