//! The measured times of a batch's parts, and what they say of parts that are not measured.
//!
//! Two things are taken for granted of a candidate's time t(b) for b images, noise aside: more images take no less time,
//! and a + b take no longer than a and then b, also where a device has rounds of blocks to fill. So with U(b) the least
//! sum of known times whose images are b at least, t(b) is at most U(b), and at least
//!
//! - t(a) for every a ≤ b that is known,
//! - U(c) / ⌈c / b⌉ for every c > b that is known, and
//! - U(c) - U(c - b) for these.
//!
//! U(c) and not t(c), since it may be less: what is small stays in a cache, and then no more is expected of b than of
//! the parts that are known to be so. Of a candidate that takes no part as small as c - b, as one that cuts a batch into
//! so many chunks, U(c - b) is that of the slowest candidate of its algorithm that is known there. A candidate whose least time is above the most time of another one that needs no
//! more workspace is of no use to any division, and is not measured.

use crate::select::NOISE;
use crate::{Candidate, Measured, Verdict};
use std::collections::{BTreeMap, HashMap};

/// Times of two measurements differ by so much without meaning it.
const SLACK: f64 = 1.05;

/// A candidate's algorithm and config.
pub(crate) type Name = (&'static str, &'static str);

/// What a candidate is called in all parts of a batch.
pub(super) fn name(candidate: &Candidate) -> Name {
    (candidate.algorithm, candidate.config)
}

/// What is known of a time in us.
#[derive(Clone, Copy, Debug)]
struct Time {
    least: f64,
    most: f64,
}

/// Times by candidate and images.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(HashMap<Name, BTreeMap<i64, Time>>);

impl Times {
    /// Adds the measured times of a part.
    pub(super) fn add(&mut self, images: i64, candidates: &[Candidate]) {
        for candidate in candidates {
            if let Verdict::Able { measured: Some(Measured { us, cut_short, .. }), .. } = candidate.verdict {
                // A first run takes longer than those behind it.
                let least = if cut_short { us / NOISE } else { us };
                self.0.entry(name(candidate)).or_default().insert(images, Time { least, most: us });
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
            let known = self.0.get(&name(candidate));
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

    /// What they say of parts of these numbers of images: all that a part can have, ascending.
    pub(super) fn bounds<'a>(&'a self, sizes: &'a [i64]) -> Bounds<'a> {
        let most: HashMap<Name, Vec<f64>> = self.0.iter().map(|(&name, known)| (name, most(known, sizes))).collect();
        let mut slowest: HashMap<&str, Vec<f64>> = HashMap::new();
        for (name, known) in &self.0 {
            let slowest = slowest.entry(name.0).or_insert_with(|| vec![0.0; sizes.len()]);
            for ((&images, slowest), &most) in sizes.iter().zip(slowest).zip(&most[name]) {
                if known.range(images..=2 * images).next().is_some() {
                    *slowest = slowest.max(most);
                }
            }
        }
        Bounds { times: self, sizes, most, slowest }
    }
}

/// U of these sizes, by the known times of a candidate. That of other numbers of images is at most that of the next size.
fn most(known: &BTreeMap<i64, Time>, sizes: &[i64]) -> Vec<f64> {
    let mut most: Vec<f64> = Vec::with_capacity(sizes.len());
    for &images in sizes {
        let more = known.range(images..).map(|(_, time)| time.most).fold(f64::INFINITY, f64::min);
        let rest = |some: i64| most.get(sizes.partition_point(|&size| size < images - some));
        let sums = known.range(..images).filter_map(|(&some, time)| Some(time.most + rest(some)?));
        let least = sums.fold(more, f64::min);
        most.push(least);
    }
    most
}

/// What the known times of a batch's parts say of all.
pub(super) struct Bounds<'a> {
    times: &'a Times,
    sizes: &'a [i64],
    /// U of each size, by candidate.
    most: HashMap<Name, Vec<f64>>,
    /// The largest U of an algorithm's candidates that are known to take so few images; 0 where none is.
    slowest: HashMap<&'static str, Vec<f64>>,
}

impl Bounds<'_> {
    /// Whether a candidate has a time for some number of images.
    pub(super) fn knows(&self, candidate: Name) -> bool {
        self.most.contains_key(&candidate)
    }

    /// The least times in us that a candidate can take for all numbers of images.
    pub(super) fn least(&self, candidate: Name) -> Vec<f64> {
        let (Some(known), Some(most)) = (self.times.0.get(&candidate), self.most.get(&candidate)) else {
            return vec![0.0; self.sizes.len()];
        };
        let slowest = &self.slowest[candidate.0];
        let at = |images: i64| self.sizes.partition_point(|&size| size < images);
        let rest = |images: i64| match slowest[at(images)] {
            slowest if slowest > 0.0 => most[at(images)].min(slowest),
            _ => most[at(images)],
        };
        let capped: Vec<(i64, f64)> =
            known.iter().map(|(&images, time)| (images, time.least.min(most[at(images)]))).collect();
        let of = |&images: &i64| {
            let fewer = known.range(..=images).map(|(_, time)| time.least).fold(0.0, f64::max);
            let larger = &capped[capped.partition_point(|&(more, _)| more <= images)..];
            let by = |&(more, us): &(i64, f64)| {
                let share = us / (more as u64).div_ceil(images as u64) as f64;
                share.max(us - rest(more - images))
            };
            larger.iter().map(by).fold(fewer, f64::max)
        };
        self.sizes.iter().map(of).collect()
    }
}

/// The least and the most time for so many images, by those for others.
fn bounds(known: &BTreeMap<i64, Time>, images: i64) -> (f64, f64) {
    let fewer = known.range(..=images).next_back().map_or(0.0, |(_, time)| time.least);
    let share = |(&more, time): (&i64, &Time)| time.least / (more as u64).div_ceil(images as u64) as f64;
    let share = known.range(images..).map(share).fold(0.0, f64::max);
    let more = known.range(images..).map(|(_, time)| time.most).fold(f64::INFINITY, f64::min);
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
            spread: crate::Spread::None,
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
        // Six images take as long as four at least, eight at most, and twice six as long as eight.
        assert_eq!(times.hopeless(6, &candidates(&[(0, None), (0, None), (60, None)])), [2]);
        times.add(4, &candidates(&[(0, Some(6.0)), (0, Some(12.0)), (40, Some(17.0))]));
        assert_eq!(times.hopeless(6, &candidates(&[(0, None), (0, None), (60, None)])), [1, 2]);
        // Nothing is known of larger parts.
        assert!(times.hopeless(16, &candidates(&[(0, None), (0, None), (160, None)])).is_empty());
    }
    #[test]
    fn the_least_time_is_what_other_parts_leave() {
        let sizes: Vec<i64> = (1..=16).collect();
        let mut times = Times::default();
        assert_eq!(times.bounds(&sizes).least(("a", "")), [0.0; 16]);
        times.add(16, &candidates(&[(0, Some(34.0))]));
        times.add(8, &candidates(&[(0, Some(18.0))]));
        times.add(4, &candidates(&[(0, Some(10.0))]));
        let least = times.bounds(&sizes).least(("a", ""));
        assert_eq!((least[15], least[7], least[3]), (34.0, 18.0, 10.0));
        // 12: 16 without 4; 14: the same, since 2 may take as long as 4; 6: a third of 16.
        assert_eq!((least[11], least[13], least[5]), (24.0, 24.0, 34.0 / 3.0));
        // One image: the 16th of 16, or a quarter of four.
        assert_eq!(least[0], 2.5);
        // Where small parts are faster than a large one's share, no more than theirs is expected of any.
        times.add(2, &candidates(&[(0, Some(2.0))]));
        let least = times.bounds(&sizes).least(("a", ""));
        assert_eq!((least[11], least[15]), (18.0, 34.0));
        assert_eq!(least[2], 8.0 / 3.0);
    }

    #[test]
    fn no_time_is_below_its_bound() {
        for (round, share, image) in [(5.0, 3, 1.0), (7.0, 5, 0.0), (0.0, 1, 2.0), (100.0, 16, 0.1)] {
            let us = |images: i64| 3.0 + round * (images as u64).div_ceil(share) as f64 + image * images as f64;
            let sizes: Vec<i64> = (1..=100).collect();
            let mut times = Times::default();
            for images in [100, 64, 1, 32, 77, 2, 16, 50, 13] {
                times.add(images, &candidates(&[(0, Some(us(images)))]));
                let least = times.bounds(&sizes).least(("a", ""));
                assert!(sizes.iter().zip(&least).all(|(&images, &least)| least <= us(images) + 1e-9));
                assert!(times.hopeless(9, &candidates(&[(0, None)])).is_empty());
            }
        }
    }
}
