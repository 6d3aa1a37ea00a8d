//! What both sides have in common: operands, calls, and the search for the fastest.

use crate::case::Work;
use crate::random::Filling;
use crate::session::Session;
use crate::timing::{Clock, Turn, in_turns, rotation};
use anyhow::{Result, bail};
use oxidnn::driver::{DeviceMemory, DeviceSpan, GpuStream, Graph};
use oxidnn::{Operand, Role};
use std::sync::Arc;

/// The memory of one operand, in an allocation with others.
pub(crate) struct Place {
    memory: Arc<DeviceMemory>,
    begin: u64,
    bytes: u64,
}

impl Place {
    /// All of an allocation.
    pub(crate) fn alone(memory: DeviceMemory) -> Self {
        Place { begin: 0, bytes: memory.len_bytes() as u64, memory: Arc::new(memory) }
    }

    /// It.
    pub(crate) fn span(&self) -> DeviceSpan<'_> {
        self.memory.span().part(self.begin, self.begin + self.bytes)
    }
}

/// An allocation that places are taken from, one behind the other.
struct Pool {
    memory: Arc<DeviceMemory>,
    next: u64,
}

impl Pool {
    /// What places begin at multiples of, as PyTorch's do.
    const ALIGN: u64 = 512;

    fn new(session: &Session, bytes: u64) -> Result<Self> {
        Ok(Pool { memory: Arc::new(DeviceMemory::alloc(session.gpu(), bytes as usize)?), next: 0 })
    }

    /// The room that so many bytes take.
    fn room(bytes: u64) -> u64 {
        bytes.next_multiple_of(Self::ALIGN)
    }

    fn take(&mut self, bytes: u64) -> Place {
        let place = Place { memory: Arc::clone(&self.memory), begin: self.next, bytes };
        self.next += Self::room(bytes);
        place
    }
}

/// Operands of one call: the inputs, in the problem's order, and the outputs of each side.
pub(crate) struct Set {
    pub(crate) inputs: Vec<(Place, Filling)>,
    pub(crate) ours: Vec<Place>,
    pub(crate) theirs: Vec<Place>,
}

impl Set {
    /// Addresses of the operands in the problem's order, with `outputs` in their places.
    pub(crate) fn addresses(&self, operands: &[Operand], outputs: &[Place]) -> Vec<u64> {
        let mut inputs = self.inputs.iter().map(|(place, _)| place);
        let mut outputs = outputs.iter();
        let next = |operand: &Operand| if operand.role == Role::Input { inputs.next() } else { outputs.next() };
        operands.iter().map(next).map(|place| place.map_or(0, |place| place.span().address())).collect()
    }

    /// Where the peer writes the result of a problem that has one.
    pub(crate) fn their_address(&self) -> u64 {
        self.theirs.first().map_or(0, |place| place.span().address())
    }
}

/// As many sets as pass the cache, one behind the other in memory, but for what the peers write: it is not to lie between
/// what a call touches and what the next one does, which would then be spread over more pages.
pub(crate) fn sets(work: &Work, session: &Session) -> Result<Vec<Set>> {
    let operands = work.problem().operands();
    if operands.iter().all(|operand| operand.role == Role::Input) {
        bail!("expected a problem with an output, given {}", work.problem().text());
    }
    let (free, _) = session.gpu().memory_info()?;
    let bytes: u64 = operands.iter().map(|operand| operand.desc.span_bytes()).sum();
    // A quarter of the memory is left for workspaces and what verification needs.
    let fits = (free as u64 / 4 * 3 / (2 * bytes)).max(1) as usize;
    let n_sets = rotation(bytes).min(fits);
    let room = |operand: &Operand| Pool::room(operand.desc.span_bytes());
    let written = |operand: &&Operand| operand.role != Role::Input;
    let of_set: u64 = operands.iter().map(room).sum();
    let of_theirs: u64 = operands.iter().filter(written).map(room).sum();
    let mut pool = Pool::new(session, n_sets as u64 * of_set)?;
    let mut peers = Pool::new(session, n_sets as u64 * of_theirs)?;
    let mut sets: Vec<Set> = Vec::new();
    for _ in 0..n_sets {
        let mut set = Set { inputs: Vec::new(), ours: Vec::new(), theirs: Vec::new() };
        for (i, operand) in operands.iter().enumerate() {
            let bytes = operand.desc.span_bytes();
            let filled = |place: Place| -> Result<(Place, Filling)> {
                let filling = fill(place.span(), operand, seed(sets.len(), i), session)?;
                Ok((place, filling))
            };
            if operand.role == Role::Input {
                set.inputs.push(filled(pool.take(bytes))?);
            } else {
                set.ours.push(filled(pool.take(bytes))?.0);
                set.theirs.push(filled(peers.take(bytes))?.0);
            }
        }
        sets.push(set);
    }
    session.gpu_stream().synchronize()?;
    Ok(sets)
}

/// What an operand of a set is filled with depends on this.
pub(crate) fn seed(set: usize, operand: usize) -> usize {
    7 * set + operand + 1
}

/// Numbers for an operand: normal ones, brought into its domain. What a run writes without reading stays as it is.
pub(crate) fn fill(memory: DeviceSpan<'_>, operand: &Operand, seed: usize, session: &Session) -> Result<Filling> {
    if matches!(operand.role, Role::Output | Role::Result) {
        return Ok(Filling::default());
    }
    session.block(operand.desc.dtype(), operand.domain)?.fill(memory, seed, session.gpu_stream())
}

/// An algorithm of either side, ready to be queued.
pub(crate) trait Call {
    /// What it is called in the table.
    fn name(&self) -> String;
    /// Scratch memory that it needs.
    fn workspace_bytes(&self) -> u64;
    /// Queues the work on one set, the output being the side's own.
    fn queue(&self, set: &Set) -> Result<()>;
}

/// Records `calls` calls over the sets in turn.
pub(crate) fn record(call: &dyn Call, sets: &[Set], calls: usize, stream: &GpuStream) -> Result<Graph> {
    Graph::capture(stream, || sets.iter().cycle().take(calls).try_for_each(|set| call.queue(set)))
}

/// A call with the time that the search found.
pub(crate) struct Tried<'a> {
    pub(crate) call: Box<dyn Call + 'a>,
    pub(crate) us: f64,
}

/// Time that one recorded graph of the search should take.
const TRIAL_US: f64 = 300.0;

/// A call this long is timed well enough by itself.
const LONG_US: f64 = 50e3;

/// A candidate this much slower than the best so far is not timed more closely.
const HOPELESS: f64 = 3.0;

/// Times a candidate roughly; `best` is the best time so far.
pub(crate) fn trial(call: &dyn Call, sets: &[Set], clock: &Clock<'_>, best: f64) -> Result<f64> {
    // The first call loads kernels, which takes time and cannot be recorded.
    call.queue(&sets[0])?;
    clock.stream().synchronize()?;
    let once = clock.time(|| call.queue(&sets[sets.len() - 1]))?;
    // A single call's time holds the way from the host, some ten microseconds.
    if once > HOPELESS * best + 50.0 || once > LONG_US {
        return Ok(once);
    }
    let calls = trial_calls(once);
    let graph = record(call, sets, calls, clock.stream())?;
    let mut turns = Vec::new();
    for turn in 0..4 {
        let us = clock.replay(&graph)? / calls as f64;
        if turn > 0 {
            turns.push(us);
        }
    }
    turns.sort_by(f64::total_cmp);
    Ok(turns[1])
}

/// Calls of one recorded graph of the search.
fn trial_calls(us: f64) -> usize {
    ((TRIAL_US / us.max(1.0)).ceil() as usize).clamp(2, 64)
}

/// Candidates whose trials are within this many times their side's best are timed again, and so many of a side at most.
const NOISE: f64 = 1.25;
const CLOSEST: usize = 10;

/// Rounds in which they are, each once a round.
const ROUNDS: usize = 5;

/// Times the candidates of both sides that may be the best again, in rounds, and puts them in order: a trial runs at the
/// clocks that what was before it has left, and a GPU that was idle while kernels were loaded at higher ones. Both sides
/// come as the searches give them, the best first.
pub(crate) fn settle(sides: [&mut [Tried<'_>]; 2], sets: &[Set], clock: &Clock<'_>) -> Result<()> {
    let mut close = sides.map(|side| {
        let n = n_close(&side.iter().map(|tried| tried.us).collect::<Vec<_>>());
        &mut side[..n]
    });
    let graphs = close
        .iter()
        .flat_map(|side| side.iter())
        .map(|tried| {
            let calls = trial_calls(tried.us);
            Ok((record(tried.call.as_ref(), sets, calls, clock.stream())?, calls))
        })
        .collect::<Result<Vec<_>>>()?;
    let replays: Vec<_> = graphs.iter().map(|(graph, calls)| || Ok(clock.replay(graph)? / *calls as f64)).collect();
    let turns: Vec<Turn<'_>> = replays.iter().map(|replay| replay as Turn<'_>).collect();
    let mut timings = in_turns(&turns, ROUNDS)?.into_iter();
    for side in &mut close {
        for (tried, timing) in side.iter_mut().zip(&mut timings) {
            tried.us = timing.us;
        }
        side.sort_by(|a, b| a.us.total_cmp(&b.us));
    }
    Ok(())
}

/// How many of a side's candidates, the best first, are timed again: none where there is no choice, or where trials were
/// long enough.
fn n_close(us: &[f64]) -> usize {
    let Some(&best) = us.first().filter(|&&us| us <= LONG_US) else { return 0 };
    let n = us.iter().take(CLOSEST).take_while(|&&us| us <= NOISE * best).count();
    if n > 1 { n } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_candidates_are_timed_again_where_there_are_several() {
        assert_eq!(n_close(&[]), 0);
        assert_eq!(n_close(&[100.0]), 0);
        assert_eq!(n_close(&[100.0, 126.0]), 0);
        assert_eq!(n_close(&[100.0, 110.0, 124.0, 126.0]), 3);
        assert_eq!(n_close(&[100.0; 30]), CLOSEST);
        assert_eq!(n_close(&[2.0 * LONG_US; 3]), 0);
    }
}
