//! The measured times of a batch's parts, and what they say of parts that are not measured.
//!
//! More images take no less time; and k times as many take at most k times as long, also where a device has rounds of
//! blocks to fill. So a candidate's time for b images is at least that for fewer, and at least the k-th part of that for
//! k · b; and at most that for more. A candidate whose least time is above the most time of another one that needs no
//! more workspace is of no use to any division, and is not measured: that spares most of the slow candidates of small
//! parts, and where all sizes of part are asked for, most of everything.

use crate::{Candidate, Measured, Verdict};
use std::collections::{BTreeMap, HashMap};

/// Times of two measurements differ by so much without meaning it.
const SLACK: f64 = 1.05;

/// Times by candidate (algorithm and config) and images.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(HashMap<(&'static str, &'static str), BTreeMap<i64, f64>>);

impl Times {
    /// Adds the measured times of a part.
    pub(super) fn add(&mut self, images: i64, candidates: &[Candidate]) {
        for candidate in candidates {
            if let Verdict::Able { measured: Some(Measured { us, .. }), .. } = candidate.verdict {
                self.0.entry((candidate.algorithm, candidate.config)).or_default().insert(images, us);
            }
        }
    }

    /// The places of the able candidates for so many images that have no time and need none.
    pub(super) fn hopeless(&self, images: i64, candidates: &[Candidate]) -> Vec<usize> {
        // By workspace ascending, with the least of the most times so far.
        let mut most: Vec<(u64, f64)> = Vec::new();
        let mut waiting = Vec::new();
        for (i, candidate) in candidates.iter().enumerate() {
            let Verdict::Able { workspace_bytes, measured, .. } = candidate.verdict else { continue };
            let known = self.0.get(&(candidate.algorithm, candidate.config));
            let (low, high) = known.map_or((0.0, f64::INFINITY), |known| bounds(known, images));
            most.push((workspace_bytes, measured.map_or(high, |measured| measured.us.min(high))));
            if measured.is_none() {
                waiting.push((i, workspace_bytes, low));
            }
        }
        most.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut best = f64::INFINITY;
        for (_, us) in &mut most {
            best = best.min(*us);
            *us = best;
        }
        let is_hopeless = |&(_, bytes, low): &(usize, u64, f64)| {
            let within = most.partition_point(|&(needed, _)| needed <= bytes);
            within > 0 && low > SLACK * most[within - 1].1
        };
        waiting.into_iter().filter(is_hopeless).map(|(i, ..)| i).collect()
    }
}

/// The least and the most time for so many images, by those for others.
fn bounds(known: &BTreeMap<i64, f64>, images: i64) -> (f64, f64) {
    let fewer = known.range(..=images).next_back().map_or(0.0, |(_, &us)| us);
    let multiples = known.range(images..).filter(|(more, _)| **more % images == 0);
    let share = multiples.map(|(&more, us)| us / (more / images) as f64).fold(0.0, f64::max);
    let more = known.range(images..).map(|(_, &us)| us).fold(f64::INFINITY, f64::min);
    (fewer.max(share), more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;

    const NAMES: [&str; 3] = ["a", "b", "c"];

    fn candidates(list: &[(u64, Option<f64>)]) -> Vec<Candidate> {
        let candidate = |(&algorithm, &(workspace_bytes, us)): (&&'static str, &(u64, Option<f64>))| Candidate {
            algorithm,
            config: "",
            verdict: Verdict::Able {
                workspace_bytes,
                estimate_us: 1.0,
                measured: us.map(|us| Measured { us, cut_short: false, origin: Origin::Now }),
            },
        };
        NAMES.iter().zip(list).map(candidate).collect()
    }

    #[test]
    fn what_is_behind_for_other_parts_is_left_out() {
        let mut times = Times::default();
        times.add(8, &candidates(&[(0, Some(10.0)), (0, Some(19.0)), (80, Some(30.0))]));
        // Of half the images, b takes 9.5 at least and a 10 at most.
        assert_eq!(times.hopeless(4, &candidates(&[(0, None), (0, None), (40, None)])), [2]);
        // What needs less is another matter.
        assert!(times.hopeless(4, &candidates(&[(41, None), (41, None), (40, None)])).is_empty());
        // a is known better, and so b is out too.
        times.add(4, &candidates(&[(0, Some(6.0))]));
        assert_eq!(times.hopeless(4, &candidates(&[(0, Some(6.0)), (0, None), (40, None)])), [1, 2]);
        // Six images take as long as four at least, eight at most, and a third of eight is not known of six.
        assert_eq!(times.hopeless(6, &candidates(&[(0, None), (0, None), (60, None)])), []);
        times.add(4, &candidates(&[(0, Some(6.0)), (0, Some(12.0)), (40, Some(17.0))]));
        assert_eq!(times.hopeless(6, &candidates(&[(0, None), (0, None), (60, None)])), [1, 2]);
        // Nothing is known of larger parts.
        assert!(times.hopeless(16, &candidates(&[(0, None), (0, None), (160, None)])).is_empty());
    }
}
