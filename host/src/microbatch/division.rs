//! Batches and their divisions: sizes of parts, parts, and what is worth having.

use super::knapsack::Choice;
use super::pareto::{Picoseconds, microseconds, picoseconds};
use crate::Candidate;
use std::collections::BTreeSet;
use std::fmt;

/// Which numbers of images a part of a batch may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BatchSizes {
    /// The whole batch is computed at once.
    #[default]
    Undivided,
    /// Powers of two, the whole batch, and what is left behind parts that must be larger.
    PowerOfTwo,
    /// Any: in steps of one image up to 1024, of larger batches in as many steps at most. With
    /// [`Policy::Find`](crate::Policy::Find) powers of two are measured, and of the others those that a choice depends on:
    /// if more images take no less time, and a + b no longer than a and then b, no division saves more than a 200th.
    All,
}

impl BatchSizes {
    /// Its name: `undivided`, `power-of-two`, `all`.
    pub fn name(self) -> &'static str {
        match self {
            BatchSizes::Undivided => "undivided",
            BatchSizes::PowerOfTwo => "power-of-two",
            BatchSizes::All => "all",
        }
    }

    /// The sizes for a batch whose parts begin at multiples of `grain`: those that a part can have, ascending.
    pub(super) fn of(self, batch: i64, grain: i64) -> Vec<i64> {
        let last = batch % grain;
        let can_be = |&size: &i64| size == batch || size % grain == 0 || size % grain == last;
        match self {
            BatchSizes::Undivided => vec![batch],
            BatchSizes::PowerOfTwo => {
                let powers = (0..62).map(|power| 1i64 << power).take_while(|&size| size < batch);
                // What is left behind whole grains, too, whatever it is.
                let mut sizes: Vec<i64> = powers.chain([batch, last]).filter(can_be).filter(|&size| size > 0).collect();
                sizes.sort_unstable();
                sizes.dedup();
                sizes
            }
            BatchSizes::All => (1..=batch / grain)
                .flat_map(|k| [(k - 1) * grain + last, k * grain])
                .chain([batch])
                .filter(|&size| size > 0)
                .collect::<BTreeSet<i64>>()
                .into_iter()
                .collect(),
        }
    }
}

/// A part of a batch, with what computes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MicroBatch {
    /// Its images.
    pub batch: i64,
    /// The algorithm.
    pub algorithm: &'static str,
    /// The kernel's symbol, or what stands for it on the CPU.
    pub config: &'static str,
    /// Its time, in whole picoseconds: measured with [`Policy::Find`](crate::Policy::Find), else estimated.
    pub time_us: f64,
    /// The workspace it needs.
    pub workspace_bytes: u64,
}

/// A batch that can be computed in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its images.
    pub images: i64,
    /// A part begins at a multiple of so many images, so that its addresses are as aligned as the whole's: on a GPU,
    /// multiples of 16 bytes in every operand.
    pub unit: i64,
}

/// Segments begin at multiples of this, as memory of a device does.
const SEGMENT_BYTES: u64 = 256;

/// A batch in parts, which are computed in turn in one workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    pub(super) time: Picoseconds,
    /// The largest workspace of a part.
    pub workspace_bytes: u64,
    /// The parts, in the order in which they run; one where the batch is not divided.
    pub parts: Vec<MicroBatch>,
}

impl Division {
    /// These parts, in this order.
    pub fn new(parts: Vec<MicroBatch>) -> Self {
        let time = parts.iter().map(|part| picoseconds(part.time_us)).fold(0, Picoseconds::saturating_add);
        let workspace_bytes = parts.iter().map(|part| part.workspace_bytes).max().unwrap_or(0);
        Division { time, workspace_bytes, parts }
    }

    /// The sum of the parts' times.
    pub fn time_us(&self) -> f64 {
        microseconds(self.time)
    }

    /// The bytes of its segment in a buffer of many.
    pub(super) fn segment(&self) -> u64 {
        self.workspace_bytes.checked_next_multiple_of(SEGMENT_BYTES).unwrap_or(u64::MAX)
    }

    /// What it takes of a total.
    pub(super) fn choice(&self) -> Choice {
        Choice { time: self.time, weight: self.segment() }
    }
}

/// `4 x 64 im2col_wgmma (…)`, and so on: equal neighbours together.
impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, run) in self.parts.chunk_by(|a, b| a == b).enumerate() {
            let MicroBatch { batch, algorithm, config, .. } = run[0];
            write!(f, "{}{} x {batch} {algorithm} ({config})", if i > 0 { " + " } else { "" }, run.len())?;
        }
        Ok(())
    }
}

/// What is worth having for a problem: no division in a list is better than another in time and workspace.
#[derive(Clone, Debug)]
pub struct Divisions {
    /// The problem's text form.
    pub problem: String,
    /// Those of one part, by workspace ascending.
    pub undivided: Vec<Division>,
    /// All of them, by workspace ascending.
    pub front: Vec<Division>,
    /// Why the batch cannot be divided, where it cannot and other sizes were asked for.
    pub refusal: Option<String>,
    /// Every verdict on the problem as a whole.
    pub candidates: Vec<Candidate>,
    /// Parts of which not every candidate has the time that it should have, since the time for measurements was over
    /// ([`FindOptions::until`](crate::FindOptions::until)) or there was not enough memory. With [`BatchSizes::All`], those
    /// that would have been measured next: divisions with them could be faster. None of them is in a list here.
    pub unmeasured: usize,
}

impl Divisions {
    /// The fastest one that needs at most so much workspace.
    pub fn within(&self, bytes: u64) -> Option<&Division> {
        self.front.iter().rev().find(|division| division.workspace_bytes <= bytes)
    }

    /// The fastest one of one part that needs at most so much workspace.
    pub fn undivided_within(&self, bytes: u64) -> Option<&Division> {
        self.undivided.iter().rev().find(|division| division.workspace_bytes <= bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_that_a_part_can_have() {
        assert_eq!(BatchSizes::PowerOfTwo.of(20, 1), [1, 2, 4, 8, 16, 20]);
        assert_eq!(BatchSizes::PowerOfTwo.of(20, 8), [4, 8, 16, 20]);
        assert_eq!(BatchSizes::PowerOfTwo.of(27, 8), [3, 8, 16, 27]);
        assert_eq!(BatchSizes::PowerOfTwo.of(3, 8), [3]);
        assert_eq!(BatchSizes::PowerOfTwo.of(16, 1), [1, 2, 4, 8, 16]);
        assert_eq!(BatchSizes::All.of(5, 2), [1, 2, 3, 4, 5]);
        assert_eq!(BatchSizes::All.of(6, 4), [2, 4, 6]);
        assert_eq!(BatchSizes::All.of(3, 4), [3]);
        assert_eq!(BatchSizes::Undivided.of(6, 4), [6]);
    }
}
