//! What is known of all parts of a batch, and which divisions that makes worth having.

use super::division::{Division, Divisions, MicroBatch};
use super::pareto::{microseconds, picoseconds};
use super::times::Times;
use super::wr::{self, Call};
use crate::select::Judged;
use crate::{Candidate, Verdict};

/// The verdicts on all parts of a batch, with estimates or known times.
pub(crate) struct Recalled {
    problem: String,
    batch: i64,
    grain: i64,
    /// By images, ascending; the whole batch is the last.
    parts: Vec<(i64, Judged)>,
    /// Parts of which some candidate is to be measured: their images.
    pub(super) missing: Vec<i64>,
    /// The times of those that need not be.
    pub(super) times: Times,
    refusal: Option<String>,
}

impl Recalled {
    /// `parts` are their images, verdicts, and places of candidates without a time that are to have one: those that
    /// other parts' times show to be of no use are refused instead.
    pub(super) fn new(
        problem: String,
        (batch, grain): (i64, i64),
        parts: Vec<(i64, Judged, Vec<usize>)>,
        refusal: Option<String>,
    ) -> Self {
        let mut times = Times::default();
        if parts.iter().any(|(_, _, missing)| !missing.is_empty()) {
            for (images, judged, _) in &parts {
                times.add(*images, &judged.candidates);
            }
        }
        let mut incomplete = Vec::new();
        let judge = |(images, mut judged, mut missing): (i64, Judged, Vec<usize>)| {
            if !missing.is_empty() {
                let hopeless = times.hopeless(images, &judged.candidates);
                missing.retain(|i| !hopeless.contains(i));
                for i in hopeless {
                    let reason = "left out: by the times of other parts, one that needs no more workspace is faster";
                    judged.candidates[i].verdict = Verdict::Refused(reason.to_owned());
                }
            }
            if !missing.is_empty() {
                incomplete.push(images);
            }
            (images, judged)
        };
        let parts = parts.into_iter().map(judge).collect();
        Recalled { problem, batch, grain, parts, missing: incomplete, times, refusal }
    }

    /// Images of the whole batch.
    pub(super) fn batch(&self) -> i64 {
        self.batch
    }

    /// What is worth having within a limit of workspace.
    pub(super) fn divisions(self, limit: u64) -> Divisions {
        let (batch, grain) = (self.batch as usize, self.grain as usize);
        let mut parts = Vec::new();
        let mut calls = Vec::new();
        for (images, judged) in &self.parts {
            for &(at, time_us) in &judged.order {
                let Candidate { algorithm, config, verdict } = &judged.candidates[at];
                let Verdict::Able { workspace_bytes, .. } = *verdict else { continue };
                let time = picoseconds(time_us);
                let time_us = microseconds(time);
                parts.push(MicroBatch { batch: *images, algorithm, config, time_us, workspace_bytes });
                calls.push(Call { batch: *images as usize, time, bytes: workspace_bytes });
            }
        }
        let of = |calls: &[Call], parts: &[MicroBatch]| -> Vec<Division> {
            let read = |division: wr::Division| Division {
                time: division.time,
                workspace_bytes: division.bytes,
                parts: division.calls.iter().map(|&call| parts[call]).collect(),
            };
            wr::divisions(batch, grain, calls, limit).into_iter().map(read).collect()
        };
        let whole = parts.partition_point(|part| part.batch < self.batch);
        Divisions {
            problem: self.problem,
            undivided: of(&calls[whole..], &parts[whole..]),
            front: of(&calls, &parts),
            refusal: self.refusal,
            unmeasured: self.missing.len(),
            candidates: self.parts.into_iter().last().map_or(Vec::new(), |(_, judged)| judged.candidates),
        }
    }
}
