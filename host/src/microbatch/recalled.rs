//! What is known of all parts of a batch, and which divisions that makes worth having.

use super::aim::{Hope, Open, Outlook};
use super::division::{Division, Divisions, MicroBatch};
use super::pareto::{microseconds, picoseconds};
use super::times::{Name, Times, name};
use super::wr::{self, Call};
use crate::select::Judged;
use crate::{Candidate, Verdict};
use std::collections::HashMap;

/// The verdicts on a part of a batch, with estimates or known times.
pub(crate) struct Part {
    pub(super) images: i64,
    pub(super) judged: Judged,
    /// Places of the candidates that are to be measured.
    pub(super) missing: Vec<usize>,
    /// Whether one could not be measured, which was tried.
    pub(super) is_given_up: bool,
}

/// The verdicts on all parts of a batch.
pub(crate) struct Recalled {
    problem: String,
    batch: i64,
    grain: i64,
    /// By images, ascending; the whole batch is the last.
    parts: Vec<Part>,
    /// The images of the parts that are measured before anything is said of others.
    first: Vec<i64>,
    /// The known times, where some are missing.
    pub(super) times: Times,
    refusal: Option<String>,
}

/// Parts with what the dynamic program knows of them.
type Calls = (Vec<MicroBatch>, Vec<Call>);

impl Recalled {
    pub(super) fn new(
        problem: String,
        (batch, grain): (i64, i64),
        parts: Vec<Part>,
        first: Vec<i64>,
        refusal: Option<String>,
    ) -> Self {
        let mut recalled = Recalled { problem, batch, grain, parts, first, times: Times::default(), refusal };
        if !recalled.is_complete() {
            for Part { images, judged, .. } in &recalled.parts {
                recalled.times.add(*images, &judged.candidates);
            }
            recalled.leave_out();
        }
        recalled
    }

    /// Images of the whole batch.
    pub(super) fn batch(&self) -> i64 {
        self.batch
    }

    /// Whether nothing is to be measured.
    pub(super) fn is_complete(&self) -> bool {
        self.parts.iter().all(|part| part.missing.is_empty())
    }

    /// Images of those parts to be measured first of which some candidate has no time yet.
    pub(super) fn missing(&self) -> impl Iterator<Item = i64> {
        let incomplete = self.parts.iter().filter(|part| !part.missing.is_empty()).map(|part| part.images);
        incomplete.filter(|images| self.first.contains(images))
    }

    /// Whether one of these candidates, or any, is still to be measured for a part.
    pub(super) fn lacks(&self, images: i64, names: Option<&[Name]>) -> bool {
        let Some(part) = self.parts.iter().find(|part| part.images == images) else { return false };
        part.missing.iter().any(|&i| is_among(names, &part.judged.candidates[i]))
    }

    /// Takes over what has become known of these candidates of a part, or of all.
    pub(super) fn learn(&mut self, images: i64, names: Option<&[Name]>, judged: Judged, missing: Vec<usize>) {
        let Some(part) = self.parts.iter_mut().find(|part| part.images == images) else { return };
        // Places are those of the same list.
        if judged.candidates.len() != part.judged.candidates.len() {
            return;
        }
        let is_new = |i: usize| is_among(names, &judged.candidates[i]);
        part.missing.retain(|&i| !is_new(i));
        part.missing.extend(missing.into_iter().filter(|&i| is_new(i)));
        part.judged.order.retain(|&(i, _)| !is_new(i));
        part.judged.order.extend(judged.order.iter().filter(|&&(i, _)| is_new(i)));
        part.judged.order.sort_by_key(|&(i, _)| i);
        for (i, candidate) in judged.candidates.iter().enumerate().filter(|&(i, _)| is_new(i)) {
            part.judged.candidates[i].verdict = candidate.verdict.clone();
        }
        self.times.add(images, &part.judged.candidates);
    }

    /// Does without those of these candidates that still have no time.
    pub(super) fn give_up(&mut self, images: i64, names: Option<&[Name]>) {
        let Some(part) = self.parts.iter_mut().find(|part| part.images == images) else { return };
        let n = part.missing.len();
        part.missing.retain(|&i| !is_among(names, &part.judged.candidates[i]));
        part.is_given_up |= part.missing.len() < n;
    }

    /// Parts of which a candidate could not be measured.
    pub(super) fn n_given_up(&self) -> usize {
        self.parts.iter().filter(|part| part.is_given_up).count()
    }

    /// Refuses the candidates that other parts' times show to be of no use.
    pub(super) fn leave_out(&mut self) {
        for Part { images, judged, missing, .. } in self.parts.iter_mut().filter(|part| !part.missing.is_empty()) {
            let hopeless = self.times.hopeless(*images, &judged.candidates);
            missing.retain(|i| !hopeless.contains(i));
            for i in hopeless {
                let reason = "left out: by the times of other parts, one that needs no more workspace is faster";
                judged.candidates[i].verdict = Verdict::Refused(reason.to_owned());
            }
        }
    }

    /// The parts that have times.
    fn known(&self) -> Calls {
        let (mut parts, mut calls) = Calls::default();
        for Part { images, judged, .. } in &self.parts {
            for &(at, time_us) in &judged.order {
                push(&mut parts, &mut calls, *images, &judged.candidates[at], time_us);
            }
        }
        (parts, calls)
    }

    /// What the divisions within a limit of workspace take, and what they could take with parts that have no time yet.
    pub(super) fn outlook(&self, limit: u64) -> Outlook {
        let (mut parts, mut calls) = self.known();
        let n_known = parts.len();
        let known: Vec<Division> =
            self.divide(&parts, &calls, limit).into_iter().map(|(division, _)| division).collect();
        if self.is_complete() {
            let hope = |division: &Division| Hope { division: division.clone(), open: Vec::new() };
            return Outlook { hoped: known.iter().map(hope).collect(), known };
        }
        let sizes: Vec<i64> = self.parts.iter().map(|part| part.images).collect();
        let bounds = self.times.bounds(&sizes);
        // By candidate: the least times, and the most images of a part without one.
        let mut least: HashMap<Name, (Vec<f64>, i64)> = HashMap::new();
        for (size, Part { images, judged, missing, .. }) in self.parts.iter().enumerate() {
            for candidate in missing.iter().map(|&i| &judged.candidates[i]) {
                let name = name(candidate);
                let (of, most) = least.entry(name).or_insert_with(|| (bounds.least(name), 0));
                *most = *images;
                push(&mut parts, &mut calls, *images, candidate, of[size]);
            }
        }
        let hope = |(division, calls): (Division, Vec<usize>)| {
            let open = |call: usize| {
                let MicroBatch { batch, algorithm, config, .. } = parts[call];
                let name = (algorithm, config);
                // The first time of a candidate is that of most images, which says most of the others.
                (if bounds.knows(name) { batch } else { least[&name].1 }, name)
            };
            let open: Vec<Open> = calls.into_iter().filter(|&call| call >= n_known).map(open).collect();
            Hope { division, open }
        };
        let hoped = self.divide(&parts, &calls, limit).into_iter().map(hope).collect();
        Outlook { known, hoped }
    }

    /// The divisions into some parts that are worth having, each with the numbers of its parts.
    fn divide(&self, parts: &[MicroBatch], calls: &[Call], limit: u64) -> Vec<(Division, Vec<usize>)> {
        let read = |wr::Division { time, bytes, calls }: wr::Division| {
            let parts = calls.iter().map(|&call| parts[call]).collect();
            (Division { time, workspace_bytes: bytes, parts }, calls)
        };
        wr::divisions(self.batch as usize, self.grain as usize, calls, limit).into_iter().map(read).collect()
    }

    /// What is worth having within a limit of workspace. So many parts are not measured as they should be.
    pub(super) fn divisions(self, limit: u64, unmeasured: usize) -> Divisions {
        let (parts, calls) = self.known();
        let of = |calls: &[Call], parts: &[MicroBatch]| -> Vec<Division> {
            self.divide(parts, calls, limit).into_iter().map(|(division, _)| division).collect()
        };
        let whole = parts.partition_point(|part| part.batch < self.batch);
        Divisions {
            undivided: of(&calls[whole..], &parts[whole..]),
            front: of(&calls, &parts),
            problem: self.problem,
            refusal: self.refusal,
            unmeasured,
            candidates: self.parts.into_iter().last().map_or(Vec::new(), |part| part.judged.candidates),
        }
    }
}

/// Whether a candidate is one of these, where some are named.
fn is_among(names: Option<&[Name]>, candidate: &Candidate) -> bool {
    names.is_none_or(|names| names.contains(&name(candidate)))
}

/// Adds a part by an able candidate.
fn push(parts: &mut Vec<MicroBatch>, calls: &mut Vec<Call>, images: i64, candidate: &Candidate, time_us: f64) {
    let Candidate { algorithm, config, verdict, .. } = candidate;
    let Verdict::Able { workspace_bytes, .. } = *verdict else { return };
    let time = picoseconds(time_us);
    parts.push(MicroBatch { batch: images, algorithm, config, time_us: microseconds(time), workspace_bytes });
    calls.push(Call { batch: images as usize, time, bytes: workspace_bytes });
}
