//! Workspace reuse: the best ways to compute a batch in parts that use one workspace in turn.
//!
//! With calls u that compute b(u) images in time T(u) with M(u) bytes, a division is a list of calls whose batches sum
//! to N, its time is Σ T(u) and its workspace max M(u). The set D(b) of those worth having is the front of the single
//! calls for b and of all u + d with b(u) ≤ b / 2 and d in D(b - b(u)): a list of at least two has a call of at most half
//! of the batch, and exchanging the rest of it for one that is better never makes the list worse. This is the dynamic
//! program of µ-cuDNN (arXiv 1804.04806).
//!
//! Every call but the last begins the next one's images where it ends, and some begins are not allowed: only multiples
//! of `unit` images are. So all parts but the last are multiples of it, and D is made for these alone; the last part
//! takes what is left.
//!
//! Where each size of call divides the next larger one, as powers of two do, a list in descending order begins with some
//! that sum to any larger size that it reaches, so D of a size is the front of its calls and of as many D of the size
//! before as make it, and all other D need not be made ([`by_doubling`]).

use super::pareto::{Front, Picoseconds, Point};
use std::cmp::Reverse;

/// A call that computes some images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// How many.
    pub(crate) batch: usize,
    /// Its time.
    pub(crate) time: Picoseconds,
    /// Its workspace.
    pub(crate) bytes: u64,
}

/// A batch in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// Sum of the calls' times.
    pub(crate) time: Picoseconds,
    /// Largest of the calls' workspaces.
    pub(crate) bytes: u64,
    /// Which calls, in the order of execution: large ones first, but the last one where it is no multiple of the unit.
    pub(crate) calls: Vec<usize>,
}

/// How a point of a front came about.
#[derive(Clone, Copy, Debug)]
struct Link {
    call: usize,
    /// The point of the front for what the call leaves of the batch.
    rest: Option<usize>,
}

/// Every division of `batch` images that is worth having, by workspace ascending, within a limit of workspace.
pub(crate) fn divisions(batch: usize, unit: usize, calls: &[Call], limit: u64) -> Vec<Division> {
    let unit = unit.max(1);
    let mut singles: Vec<Front<usize>> = vec![Front::default(); batch + 1];
    for (i, call) in calls.iter().enumerate().filter(|(_, call)| call.bytes <= limit && call.batch <= batch) {
        singles[call.batch].insert(Point { time: call.time, bytes: call.bytes, n_parts: 1, choice: i });
    }
    let is_part = |size: &usize| size.is_multiple_of(unit) && !singles[*size].points().is_empty();
    let sizes: Vec<usize> = (1..batch).filter(is_part).collect();
    if batch.is_multiple_of(unit) && sizes.windows(2).all(|pair| pair[1].is_multiple_of(pair[0])) {
        return by_doubling(batch, &sizes, &singles, calls);
    }
    // Of multiples of the unit: D(k · unit) is fronts[k].
    let mut fronts: Vec<Front<Link>> = vec![Front::default()];
    for k in 1..=batch / unit {
        let mut front = alone(&singles[k * unit]);
        for first in (1..=k / 2).filter(|first| !singles[first * unit].points().is_empty()) {
            join(&singles[first * unit], &fronts[k - first], &mut front);
        }
        fronts.push(front);
    }
    let left = batch % unit;
    let whole = if left == 0 {
        fronts.pop().unwrap_or_default()
    } else {
        let mut front = alone(&singles[batch]);
        for last in (left..batch).step_by(unit).filter(|&last| !singles[last].points().is_empty()) {
            join(&singles[last], &fronts[(batch - last) / unit], &mut front);
        }
        front
    };
    let read = |point: &Point<Link>| {
        let mut list = Vec::with_capacity(point.n_parts);
        let (mut link, mut rest_of) = (point.choice, batch);
        loop {
            list.push(link.call);
            rest_of -= calls[link.call].batch;
            let Some(rest) = link.rest else { break };
            link = fronts[rest_of / unit].points()[rest].choice;
        }
        list.sort_by_key(|&call| (!calls[call].batch.is_multiple_of(unit), Reverse(calls[call].batch), call));
        Division { time: point.time, bytes: point.bytes, calls: list }
    };
    whole.points().iter().map(read).collect()
}

/// How a point of a front came about: as a call, or of points of two other fronts, by their numbers.
#[derive(Clone, Copy, Debug)]
enum Way {
    Call(usize),
    Both([(usize, usize); 2]),
}

/// Fronts that are made of others.
#[derive(Default)]
struct Fronts(Vec<Front<Way>>);

impl Fronts {
    /// The front of these calls, and of the points of another front.
    fn of_calls(&mut self, singles: &Front<usize>, others: Option<usize>) -> usize {
        let mut front = others.map_or_else(Front::default, |others| self.0[others].clone());
        for point in singles.points() {
            let Point { time, bytes, n_parts, choice } = *point;
            front.insert(Point { time, bytes, n_parts, choice: Way::Call(choice) });
        }
        self.0.push(front);
        self.0.len() - 1
    }

    /// The front of a point of each: for each bound on the workspace, the fastest of both.
    fn both(&mut self, a: usize, b: usize) -> usize {
        let mut front = Front::default();
        let (left, right) = (&self.0[a], &self.0[b]);
        let bounds = left.points().iter().chain(right.points()).map(|point| point.bytes);
        for (i, j) in bounds.filter_map(|bytes| left.within(bytes).zip(right.within(bytes))) {
            let (x, y) = (&left.points()[i], &right.points()[j]);
            front.insert(Point {
                time: x.time.saturating_add(y.time),
                bytes: x.bytes.max(y.bytes),
                n_parts: x.n_parts + y.n_parts,
                choice: Way::Both([(a, i), (b, j)]),
            });
        }
        self.0.push(front);
        self.0.len() - 1
    }

    /// The front of so many points of one, at least one.
    fn times(&mut self, front: usize, n: usize) -> usize {
        let half = if n > 1 { self.times(front, n / 2) } else { return front };
        let even = self.both(half, half);
        if n.is_multiple_of(2) { even } else { self.both(even, front) }
    }

    /// The calls that a point is made of.
    fn calls(&self, (front, at): (usize, usize), list: &mut Vec<usize>) {
        match self.0[front].points()[at].choice {
            Way::Call(call) => list.push(call),
            Way::Both(both) => both.into_iter().for_each(|point| self.calls(point, list)),
        }
    }
}

/// The divisions where each of the sizes, ascending and without the whole, divides the next one.
fn by_doubling(batch: usize, sizes: &[usize], singles: &[Front<usize>], calls: &[Call]) -> Vec<Division> {
    let mut fronts = Fronts::default();
    let mut made: Vec<(usize, usize)> = Vec::new();
    for &size in sizes {
        let smaller = made.last().map(|&(smaller, front)| fronts.times(front, size / smaller));
        made.push((size, fronts.of_calls(&singles[size], smaller)));
    }
    let (mut left, mut parts) = (batch, None);
    for &(size, front) in made.iter().rev() {
        if left >= size {
            let of_size = fronts.times(front, left / size);
            parts = Some(parts.map_or(of_size, |parts| fronts.both(parts, of_size)));
            left %= size;
        }
    }
    let whole = fronts.of_calls(&singles[batch], parts.filter(|_| left == 0));
    let read = |(at, point): (usize, &Point<Way>)| {
        let mut list = Vec::with_capacity(point.n_parts);
        fronts.calls((whole, at), &mut list);
        list.sort_by_key(|&call| (Reverse(calls[call].batch), call));
        Division { time: point.time, bytes: point.bytes, calls: list }
    };
    fronts.0[whole].points().iter().enumerate().map(read).collect()
}

/// The divisions that are one call.
fn alone(singles: &Front<usize>) -> Front<Link> {
    let mut front = Front::default();
    for point in singles.points() {
        let Point { time, bytes, n_parts, choice } = *point;
        front.insert(Point { time, bytes, n_parts, choice: Link { call: choice, rest: None } });
    }
    front
}

/// Adds every call of one front before every division of the other that can be worth having: for each bound on the
/// workspace, the fastest of both.
fn join(singles: &Front<usize>, rests: &Front<Link>, into: &mut Front<Link>) {
    let mut add = |single: &Point<usize>, at: usize| {
        let rest = &rests.points()[at];
        into.insert(Point {
            time: single.time.saturating_add(rest.time),
            bytes: single.bytes.max(rest.bytes),
            n_parts: single.n_parts + rest.n_parts,
            choice: Link { call: single.choice, rest: Some(at) },
        });
    };
    for single in singles.points() {
        if let Some(at) = rests.within(single.bytes) {
            add(single, at);
        }
    }
    for (at, rest) in rests.points().iter().enumerate() {
        if let Some(single) = singles.within(rest.bytes) {
            add(&singles.points()[single], at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pareto::picoseconds;
    use super::*;
    use rand::{RngExt as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn the_published_set_is_found() {
        // Two algorithms, a fast one with much workspace and a slow one with little; sizes are powers of two. The rows
        // are (time in ms, workspace, micro-batches), as µ-cuDNN's test/dp.cpp prints them.
        const EXPECTED: [(f64, u64, usize); 15] = [
            (25.68, 33_554_432, 8),
            (25.76, 16_777_216, 16),
            (25.92, 8_388_608, 32),
            (26.24, 4_194_304, 64),
            (26.88, 2_097_152, 128),
            (28.16, 1_048_576, 256),
            (2560.1, 256, 1),
            (2560.2, 128, 2),
            (2560.4, 64, 4),
            (2560.8, 32, 8),
            (2561.6, 16, 16),
            (2563.2, 8, 32),
            (2566.4, 4, 64),
            (2572.8, 2, 128),
            (2585.6, 1, 256),
        ];
        let mut calls = Vec::new();
        for batch in (0..=8).map(|power| 1usize << power) {
            let b = batch as f64;
            let ms = |ms: f64| picoseconds(ms * 1e3);
            calls.push(Call { batch, time: ms(0.1 * b + 0.01), bytes: (batch as u64) << 20 });
            calls.push(Call { batch, time: ms(10.0 * b + 0.1), bytes: batch as u64 });
        }
        // The limit of 64 MiB is itself not allowed there.
        let set = divisions(256, 1, &calls, (64 << 20) - 1);
        let got: Vec<(u64, u64, usize)> = set.iter().rev().map(|d| (d.time, d.bytes, d.calls.len())).collect();
        assert_eq!(got, EXPECTED.map(|(ms, bytes, parts)| (picoseconds(ms * 1e3), bytes, parts)));
        for division in &set {
            assert_eq!(division.calls.iter().map(|&call| calls[call].batch).sum::<usize>(), 256);
        }
    }

    /// All lists of calls, in the order of execution, that the rule for begins allows: the slow way.
    fn best_by_trying(left: usize, begin: usize, unit: usize, calls: &[Call], limit: u64) -> Option<u64> {
        if left == 0 {
            return Some(0);
        }
        let fits = |call: &&Call| call.batch <= left && call.bytes <= limit && begin.is_multiple_of(unit);
        let with =
            |call: &Call| Some(call.time + best_by_trying(left - call.batch, begin + call.batch, unit, calls, limit)?);
        calls.iter().filter(fits).filter_map(with).min()
    }

    #[test]
    fn every_limit_has_the_time_of_the_best_list() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        for case in 0..300 {
            let (batch, unit) = (rng.random_range(1..=9), rng.random_range(1..=4));
            // Every other time sizes that divide one another.
            let mut size = || match case % 2 {
                0 => rng.random_range(1..=batch),
                _ => [1, 2, 4, 8, batch][rng.random_range(0..5)].min(batch),
            };
            let sizes: Vec<usize> = (0..7).map(|_| size()).collect();
            let calls: Vec<Call> = (sizes[..rng.random_range(1..8)].iter())
                .map(|&batch| Call { batch, time: rng.random_range(1..20), bytes: rng.random_range(0..6) })
                .collect();
            let set = divisions(batch, unit, &calls, 5);
            for limit in 0..6 {
                let best = set.iter().filter(|d| d.bytes <= limit).map(|d| d.time).min();
                assert_eq!(best, best_by_trying(batch, 0, unit, &calls, limit), "case {case}, limit {limit}");
            }
            for division in &set {
                let mut begin = 0;
                for &call in &division.calls {
                    assert_eq!(begin % unit, 0);
                    begin += calls[call].batch;
                }
                assert_eq!(begin, batch);
                assert_eq!(division.time, division.calls.iter().map(|&call| calls[call].time).sum::<u64>());
                assert_eq!(division.bytes, division.calls.iter().map(|&call| calls[call].bytes).max().unwrap());
            }
        }
    }

    #[test]
    fn equal_costs_prefer_fewer_parts() {
        let call = |batch, time| Call { batch, time, bytes: 0 };
        let set = divisions(4, 1, &[call(1, 1), call(2, 2), call(4, 4)], 0);
        assert_eq!(set.len(), 1);
        assert_eq!(set[0].calls, [2]);
    }
}
