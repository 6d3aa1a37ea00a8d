//! Timing recorded work, and the statistics of it.

use anyhow::Result;
use oxidnn::driver::{Event, GpuContext, GpuStream, Graph};

/// Bytes that operands rotate through, so that no call finds its own in the L2 cache: three times an H200's.
pub const ROTATION_BYTES: u64 = 180 << 20;

/// Sets of operands to rotate through, when one set has `bytes`.
pub fn rotation(bytes: u64) -> usize {
    (ROTATION_BYTES.div_ceil(bytes.max(1)) as usize).clamp(2, 256)
}

/// Calls of a graph: enough that its own launch does not count, and every set of operands at least once.
pub fn calls(sets: usize) -> usize {
    const CALLS: usize = 10;
    CALLS.max(sets)
}

/// Something that queues a number of calls.
pub type Work<'a> = &'a dyn Fn() -> Result<()>;

/// One turn of a side: does its calls and gives the microseconds of one.
pub type Turn<'a> = &'a dyn Fn() -> Result<f64>;

/// Times sides in turns, so that all see the same clocks.
///
/// # Errors
/// Those of the sides.
pub fn in_turns(sides: &[Turn<'_>], rounds: usize) -> Result<Vec<Timing>> {
    let mut turns = vec![Vec::new(); sides.len()];
    // The first turn is for caches and clocks and is not counted.
    for round in 0..=rounds {
        for side in order(round, sides.len()) {
            let us = sides[side]()?;
            if round > 0 {
                turns[side].push(us);
            }
        }
    }
    Ok(turns.into_iter().map(Timing::of).collect())
}

/// The order of the sides in a round: each begins in turn, and every second round goes backward, so that none always
/// follows the same one. Near the limit of power a side has the clocks that those before it have left.
fn order(round: usize, sides: usize) -> impl Iterator<Item = usize> {
    let forward = move |i: usize| (round / 2 + i) % sides;
    (0..sides).map(move |i| forward(if round.is_multiple_of(2) { i } else { sides - 1 - i }))
}

/// Times of one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// The median of all turns, a call.
    pub us: f64,
    /// Distance of the quartiles, by the median.
    pub spread: f64,
}

impl Timing {
    /// Sums up the turns.
    pub fn of(mut turns: Vec<f64>) -> Self {
        turns.sort_by(f64::total_cmp);
        let us = quantile(&turns, 0.5);
        Timing { us, spread: (quantile(&turns, 0.75) - quantile(&turns, 0.25)) / us }
    }
}

/// The value below which this share of sorted values lies, between neighbours where need be; NaN of none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let at = share * last as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

/// The geometric mean; NaN of none.
pub fn geometric_mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// A clock on a stream.
#[derive(Debug)]
pub struct Clock<'a> {
    stream: &'a GpuStream,
    start: Event,
    end: Event,
}

impl<'a> Clock<'a> {
    /// A clock.
    ///
    /// # Errors
    /// From the driver.
    pub fn new(context: &GpuContext, stream: &'a GpuStream) -> Result<Self> {
        Ok(Clock { stream, start: Event::new(context)?, end: Event::new(context)? })
    }

    /// The stream.
    pub fn stream(&self) -> &'a GpuStream {
        self.stream
    }

    /// Microseconds that the device takes for what `work` queues.
    ///
    /// # Errors
    /// Those of the work, and from the driver.
    pub fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        self.start.record(self.stream)?;
        work()?;
        self.end.record(self.stream)?;
        self.end.synchronize()?;
        Ok(f64::from(Event::elapsed_us(&self.start, &self.end)?))
    }

    /// Microseconds of one replay.
    ///
    /// # Errors
    /// From the driver.
    pub fn replay(&self, graph: &Graph) -> Result<f64> {
        self.time(|| Ok(graph.launch(self.stream)?))
    }

    /// Times sides in turns, so that all see the same clocks. Each queues so many calls.
    ///
    /// # Errors
    /// Those of the work, and from the driver.
    pub fn interleaved(&self, sides: &[(Work<'_>, usize)], rounds: usize) -> Result<Vec<Timing>> {
        let timed: Vec<_> = sides.iter().map(|(work, calls)| move || Ok(self.time(work)? / *calls as f64)).collect();
        let turns: Vec<Turn<'_>> = timed.iter().map(|turn| turn as Turn<'_>).collect();
        in_turns(&turns, rounds)
    }

    /// [`Clock::interleaved`] of recorded work.
    ///
    /// # Errors
    /// From the driver.
    pub fn interleaved_replays(&self, graphs: &[(&Graph, usize)], rounds: usize) -> Result<Vec<Timing>> {
        let launches: Vec<_> =
            graphs.iter().map(|(graph, _)| || -> Result<()> { Ok(graph.launch(self.stream)?) }).collect();
        let sides: Vec<(Work<'_>, usize)> =
            launches.iter().zip(graphs).map(|(launch, (_, calls))| (launch as Work<'_>, *calls)).collect();
        self.interleaved(&sides, rounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_has_every_place_and_neighbours_on_both_sides() {
        assert_eq!(order(0, 3).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(order(1, 3).collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(order(2, 3).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(order(3, 3).collect::<Vec<_>>(), [0, 2, 1]);
        for place in 0..5 {
            let mut at: Vec<usize> = (0..10).map(|round| order(round, 5).nth(place).unwrap()).collect();
            at.sort_unstable();
            assert_eq!(at, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
        }
        assert_eq!(order(3, 0).count(), 0);
    }

    #[test]
    fn statistics() {
        let timing = Timing::of(vec![4.0, 1.0, 2.0, 3.0, 5.0]);
        assert_eq!((timing.us, timing.spread), (3.0, 2.0 / 3.0));
        assert_eq!(quantile(&[1.0, 2.0], 0.5), 1.5);
        assert!(quantile(&[], 0.5).is_nan());
        assert!((geometric_mean(&[0.5, 2.0]) - 1.0).abs() < 1e-12);
        assert!(geometric_mean(&[]).is_nan());
    }

    #[test]
    fn rotation_passes_the_cache() {
        assert_eq!(rotation(1 << 30), 2);
        assert!(rotation(10 << 20) as u64 * (10 << 20) >= ROTATION_BYTES);
        assert_eq!(rotation(1), 256);
    }
}
