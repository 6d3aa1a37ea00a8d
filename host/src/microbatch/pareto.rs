//! Sets of configurations of which none is better than another in time and in workspace.

/// Picoseconds: whole numbers, so that sums do not depend on their order and equal is equal.
pub(crate) type Picoseconds = u64;

/// A time in whole picoseconds; one that is no number, or too large for one, is the largest.
pub(crate) fn picoseconds(us: f64) -> Picoseconds {
    /// Some three hours: a thousand of them do not overflow.
    const LARGEST: f64 = 1e16;
    let ps = (us * 1e6).round();
    if ps >= 0.0 { ps.min(LARGEST) as u64 } else { LARGEST as u64 }
}

/// A time in microseconds.
pub(crate) fn microseconds(ps: Picoseconds) -> f64 {
    ps as f64 / 1e6
}

/// A configuration: what it costs, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point<C> {
    /// Time.
    pub(crate) time: Picoseconds,
    /// Workspace.
    pub(crate) bytes: u64,
    /// Micro-batches. Of two points that cost the same, the one with fewer stays.
    pub(crate) n_parts: usize,
    /// What it is.
    pub(crate) choice: C,
}

/// The points that are worth having: by bytes ascending, and so by time descending.
#[derive(Clone, Debug)]
pub(crate) struct Front<C>(Vec<Point<C>>);

impl<C> Default for Front<C> {
    fn default() -> Self {
        Front(Vec::new())
    }
}

impl<C> Front<C> {
    /// Adds a point unless another is at least as good, and drops those that it is better than.
    pub(crate) fn insert(&mut self, point: Point<C>) {
        // Those before `at` need less workspace, or as much.
        let at = self.0.partition_point(|other| other.bytes <= point.bytes);
        if let Some(left) = at.checked_sub(1).map(|left| &self.0[left]) {
            let fewer = left.time == point.time && left.bytes == point.bytes && point.n_parts < left.n_parts;
            if left.time <= point.time && !fewer {
                return;
            }
        }
        let start = if at > 0 && self.0[at - 1].bytes == point.bytes { at - 1 } else { at };
        let slower = self.0[at..].iter().take_while(|other| other.time >= point.time).count();
        self.0.splice(start..at + slower, [point]);
    }

    /// Its points, by bytes ascending.
    pub(crate) fn points(&self) -> &[Point<C>] {
        &self.0
    }

    /// The place of the fastest point within a limit.
    pub(crate) fn within(&self, limit: u64) -> Option<usize> {
        self.0.partition_point(|point| point.bytes <= limit).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt as _, SeedableRng as _};
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn a_front_is_what_nothing_is_faster_than_within_its_bytes() {
        // µ-cuDNN's test: workspaces up to 64 MiB, of which more is faster on the whole.
        const MOST: u64 = 64 << 20;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let points: Vec<(u64, u64)> = (0..10_000)
            .map(|_| {
                let bytes = rng.random_range(0..=MOST);
                (picoseconds(1.0 - bytes as f64 / MOST as f64 + rng.random_range(0.0..1.0)), bytes)
            })
            .collect();
        let mut front = Front::default();
        for (i, &(time, bytes)) in points.iter().enumerate() {
            front.insert(Point { time, bytes, n_parts: 1, choice: i });
        }
        let mut best = u64::MAX;
        let mut sorted = points.clone();
        sorted.sort_by_key(|&(time, bytes)| (bytes, time));
        // In the order of bytes, a point is in the set if and only if it is faster than all before.
        sorted.retain(|&(time, _)| {
            let is_faster = time < best;
            best = best.min(time);
            is_faster
        });
        let got: Vec<(u64, u64)> = front.points().iter().map(|point| (point.time, point.bytes)).collect();
        assert_eq!(got, sorted);
        assert!(got.len() > 10);
        for point in front.points() {
            assert_eq!(points[point.choice], (point.time, point.bytes));
            let rivals = |&(time, bytes): &(u64, u64)| time < point.time && bytes <= point.bytes;
            assert!(!points.iter().any(rivals));
        }
    }

    #[test]
    fn of_equal_points_the_one_with_fewer_parts_stays() {
        let mut front = Front::default();
        for (time, bytes, n_parts) in [(5, 10, 3), (5, 10, 2), (5, 10, 4), (5, 12, 1), (7, 10, 1), (5, 11, 1)] {
            front.insert(Point { time, bytes, n_parts, choice: () });
        }
        assert_eq!(front.points(), [Point { time: 5, bytes: 10, n_parts: 2, choice: () }]);
        front.insert(Point { time: 5, bytes: 9, n_parts: 9, choice: () });
        assert_eq!(front.points()[0].bytes, 9);
        assert_eq!((front.within(8), front.within(9)), (None, Some(0)));
    }

    #[test]
    fn times_that_are_no_numbers_are_the_largest() {
        assert_eq!(picoseconds(1.5), 1_500_000);
        assert_eq!(picoseconds(f64::INFINITY), picoseconds(f64::NAN));
        assert!(picoseconds(f64::NAN).checked_mul(4).is_some());
    }
}
