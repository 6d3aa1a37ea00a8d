//! What divisions are looked for, and which of those that are not measured are worth it.
//!
//! A choice among measured divisions is the best there is where no other could be faster, if parts without a time took
//! as little as they can ([`Bounds::least`](super::times::Bounds::least)). Where one could, its parts are measured, and the
//! question is put anew: their times are known then, so it ends.

use super::division::Division;
use super::knapsack::{self, Choice, TooHeavy};
use super::pareto::Picoseconds;
use super::times::Name;

/// What divisions are looked for, by bytes of workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Aim {
    /// All that are worth having within so much: for each amount of workspace below, the fastest.
    Front(u64),
    /// The fastest of each problem within so much.
    Each(u64),
    /// Those of all problems, of the least sum of times, with so much for all of them together.
    Total(u64),
}

impl Aim {
    /// The most workspace of a division.
    pub fn bytes(self) -> u64 {
        match self {
            Aim::Front(bytes) | Aim::Each(bytes) | Aim::Total(bytes) => bytes,
        }
    }
}

/// A division is worth measuring where it could save more than so much of the time: one 200th. Measured again, a time
/// differs by more.
const WORTHWHILE: Picoseconds = 200;

/// A part without a time: its images, and its candidate.
pub(super) type Open = (i64, Name);

/// A division, some of whose parts may have no time: then its own is the least that it can be.
#[derive(Clone, Debug)]
pub(super) struct Hope {
    pub(super) division: Division,
    /// Its parts without a time, and for those of a candidate without any the largest.
    pub(super) open: Vec<Open>,
}

/// What a problem's divisions take: those that are measured, and those that one may hope for. Both by workspace ascending.
#[derive(Clone, Debug, Default)]
pub(super) struct Outlook {
    pub(super) known: Vec<Division>,
    pub(super) hoped: Vec<Hope>,
}

impl Outlook {
    /// The best measured time within so much workspace.
    fn known_within(&self, bytes: u64) -> Picoseconds {
        let best = self.known.iter().rev().find(|division| division.workspace_bytes <= bytes);
        best.map_or(Picoseconds::MAX, |best| best.time)
    }
}

/// The parts without a time whose measurement could change what is chosen, each with the number of its problem.
/// `layers` are the numbers of the problems that share a total, some of them more than once.
pub(super) fn worth_measuring(outlooks: &[Outlook], layers: &[usize], aim: Aim) -> Vec<(usize, Open)> {
    let is_better = |hoped: Picoseconds, known: Picoseconds| hoped.saturating_add(known / WORTHWHILE) < known;
    let mut worth: Vec<(usize, &Hope)> = Vec::new();
    match aim {
        Aim::Front(limit) => {
            for (problem, outlook) in outlooks.iter().enumerate() {
                let within = outlook.hoped.iter().filter(|hope| hope.division.workspace_bytes <= limit);
                let could =
                    |hope: &&Hope| is_better(hope.division.time, outlook.known_within(hope.division.workspace_bytes));
                worth.extend(within.filter(could).map(|hope| (problem, hope)));
            }
        }
        Aim::Each(limit) => {
            for (problem, outlook) in outlooks.iter().enumerate() {
                let best = outlook.hoped.iter().rev().find(|hope| hope.division.workspace_bytes <= limit);
                worth.extend(
                    best.filter(|hope| is_better(hope.division.time, outlook.known_within(limit)))
                        .map(|hope| (problem, hope)),
                );
            }
        }
        Aim::Total(total) => {
            let known: Vec<&Outlook> = layers.iter().map(|&problem| &outlooks[problem]).collect();
            let classes: Vec<Vec<Choice>> =
                known.iter().map(|outlook| outlook.known.iter().map(Division::choice).collect()).collect();
            let hopes: Vec<Vec<Choice>> =
                known.iter().map(|outlook| outlook.hoped.iter().map(|hope| hope.division.choice()).collect()).collect();
            // What does not fit with the least workspace of all does not fit with times, either.
            let Ok(hoped) = knapsack::solve(&hopes, total) else { return Vec::new() };
            let sum = |classes: &[Vec<Choice>], chosen: &[usize]| -> Picoseconds {
                classes.iter().zip(chosen).map(|(class, &at)| class[at].time).fold(0, Picoseconds::saturating_add)
            };
            let best = match knapsack::solve(&classes, total) {
                Ok(chosen) => sum(&classes, &chosen),
                Err(TooHeavy { .. }) => Picoseconds::MAX,
            };
            if is_better(sum(&hopes, &hoped), best) {
                worth.extend(layers.iter().zip(hoped).map(|(&problem, at)| (problem, &outlooks[problem].hoped[at])));
            }
        }
    }
    worth.into_iter().flat_map(|(problem, hope)| hope.open.iter().map(move |&open| (problem, open))).collect()
}
