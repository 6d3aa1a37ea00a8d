//! Timing candidates on the device.
//!
//! Every candidate is run alone first. Those that are not far behind are then timed in rounds, forward and backward in
//! turn, each candidate once a round, so that all see the same clocks, and the median of the rounds counts; after a few,
//! only those go on that may be the fastest within their workspace. On a GPU a candidate's turn is one replay of a CUDA
//! graph of several calls: the host's time for a call is not the kernel's. The calls rotate through sets of operands that
//! together do not fit into the second-level cache.

use super::find::Subject;
use super::operands::Operands;
use super::request::{FindOptions, FindProgress, FindStage};
use super::{Candidate, Verdict};
use crate::driver::Graph;
use crate::{Error, Plan, Stream, Workspace};

/// A candidate whose first runs take this many times the time of one that needs no more workspace is not timed any
/// further,
const BEHIND_LIGHTER: f64 = 3.0;

/// nor one whose first runs take this many times the best time,
const BEHIND_ANY: f64 = 10.0;

/// unless it is quicker than this: the first runs of a short kernel are mostly the host's time.
const NEVER_SLOW_US: f64 = 300.0;

/// Rounds that all take part in; one more before them is for clocks and caches.
const FEW_ROUNDS: usize = 3;

/// Rounds of a candidate that may be the fastest within its workspace: its median is not more than this many times the
/// best of those that need no more.
const ROUNDS: usize = 7;
const CLOSE: f64 = 1.15;

/// A candidate whose turn takes longer than this gets few rounds: its median settles sooner.
const LONG_TURN_US: f64 = 10e3;

/// A turn repeats a short kernel until about this much time has passed.
const TURN_US: f64 = 1000.0;

/// The most calls of a turn.
const MAX_CALLS: usize = 32;

/// A time, and whether it is only that of first runs; or why there is none.
type Outcome = Result<(f64, bool), Error>;

/// Workspaces and times of candidates.
#[derive(Clone, Debug, Default)]
pub(super) struct Rivals(Vec<(u64, f64)>);

impl FromIterator<(u64, f64)> for Rivals {
    fn from_iter<I: IntoIterator<Item = (u64, f64)>>(all: I) -> Self {
        Rivals(all.into_iter().collect())
    }
}

impl Rivals {
    /// The best time within so much workspace.
    fn best_us(&self, bytes: u64) -> f64 {
        let within = self.0.iter().filter(|&&(needed, _)| needed <= bytes);
        within.map(|&(_, us)| us).fold(f64::INFINITY, f64::min)
    }

    /// Whether a candidate of this time need not be timed any further.
    pub(super) fn are_far_ahead(&self, bytes: u64, us: f64) -> bool {
        us > BEHIND_LIGHTER * self.best_us(bytes) || us > BEHIND_ANY * self.best_us(u64::MAX)
    }
}

/// A candidate that takes part in the rounds.
struct Runner {
    /// Its place among the outcomes.
    at: usize,
    bytes: u64,
    first_us: f64,
    plan: Plan,
    graph: Option<Graph>,
    calls: usize,
    times: Vec<f64>,
}

/// Times the chosen candidates beside the others, whose times are known. The error is one that stops everything, such as
/// a device that is lost.
pub(super) fn run(
    subject: &Subject<'_>,
    candidates: &[Candidate],
    chosen: &[usize],
    mut rivals: Rivals,
    options: &FindOptions,
) -> Result<Vec<Outcome>, Error> {
    let context = subject.context;
    let n_steps = chosen.len() + ROUNDS + 1;
    let tell = |step, stage| {
        options.tell(FindProgress { problem: subject.problem, step, n_steps, part: 0, n_parts: 1, stage });
    };
    let stream = context.stream()?;
    let mut operands = Operands::random(context, &stream, subject.operands)?;
    let mut workspace = Workspace::none(context)?;
    let needs: Vec<u64> = chosen.iter().map(|&i| need(&candidates[i])).collect();
    let most = grow_to_most(&mut workspace, &needs)?;
    let mut outcomes: Vec<Option<Outcome>> = Vec::new();
    let mut runners = Vec::new();
    for (at, (&i, &bytes)) in chosen.iter().zip(&needs).enumerate() {
        let Candidate { algorithm, config, .. } = candidates[i];
        tell(at, FindStage::Trying { algorithm, config });
        if bytes > most {
            let device = context.info().name.clone();
            outcomes.push(Some(Err(Error::OutOfMemory { bytes, device })));
            continue;
        }
        let first = (subject.plan)(algorithm, config)
            .and_then(|plan| Ok((first_us(&plan, &mut operands, &stream, &mut workspace)?, plan)));
        outcomes.push(match first {
            Ok((first_us, plan)) => {
                rivals.0.push((bytes, first_us));
                let calls = ((TURN_US / first_us).ceil() as usize).clamp(1, MAX_CALLS);
                runners.push(Runner { at, bytes, first_us, plan, graph: None, calls, times: Vec::new() });
                None
            }
            Err(error) => {
                // What went wrong with this candidate is its own business, unless the device is lost with it.
                stream.synchronize()?;
                Some(Err(error))
            }
        });
    }
    runners.retain(|runner| {
        let is_out = runner.first_us > NEVER_SLOW_US && rivals.are_far_ahead(runner.bytes, runner.first_us);
        if is_out {
            outcomes[runner.at] = Some(Ok((runner.first_us, true)));
        }
        !is_out
    });
    for runner in &mut runners {
        runner.record(&mut operands, &stream, &mut workspace)?;
    }
    for round in 0..=ROUNDS {
        tell(chosen.len() + round, FindStage::Timing { round, n_rounds: ROUNDS + 1 });
        if round == FEW_ROUNDS + 1 {
            let rivals: Rivals = runners.iter().map(|runner| (runner.bytes, median(&runner.times))).collect();
            runners.retain(|runner| {
                let us = median(&runner.times);
                let is_done = runner.is_long() || us > CLOSE * rivals.best_us(runner.bytes);
                if is_done {
                    outcomes[runner.at] = Some(Ok((us, false)));
                }
                !is_done
            });
        }
        for runner in &mut runners {
            let timer = stream.timer()?;
            runner.turn(&mut operands, &stream, &mut workspace)?;
            let us = timer.stop_us()?;
            if round > 0 {
                runner.times.push(us / runner.calls as f64);
            }
        }
        // Every second round goes backward: near the limit of power a turn has the clocks that the one before has left.
        runners.reverse();
    }
    tell(n_steps, FindStage::Done);
    for Runner { at, times, .. } in runners {
        outcomes[at] = Some(Ok((median(&times), false)));
    }
    Ok(outcomes.into_iter().flatten().collect())
}

fn need(candidate: &Candidate) -> u64 {
    match candidate.verdict {
        Verdict::Able { workspace_bytes, .. } => workspace_bytes,
        Verdict::Refused(_) => 0,
    }
}

/// Grows the workspace to the largest need that there is memory for, and gives that.
fn grow_to_most(workspace: &mut Workspace, needs: &[u64]) -> Result<u64, Error> {
    let mut sorted = needs.to_vec();
    sorted.sort_unstable();
    while let Some(bytes) = sorted.pop() {
        match workspace.grow(bytes) {
            Ok(()) => return Ok(bytes),
            Err(Error::OutOfMemory { .. }) if bytes > 0 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(0)
}

/// The time of the second run, since the first may load code; of the first, if that was long enough not to matter.
fn first_us(plan: &Plan, operands: &mut Operands, stream: &Stream, workspace: &mut Workspace) -> Result<f64, Error> {
    /// Loading a kernel takes less by far.
    const LONG_US: f64 = 100e3;
    let mut best_us = f64::INFINITY;
    for _ in 0..2 {
        let timer = stream.timer()?;
        operands.run(plan, 0, stream, workspace)?;
        best_us = best_us.min(timer.stop_us()?);
        if best_us > LONG_US {
            break;
        }
    }
    Ok(best_us)
}

impl Runner {
    /// Records a turn of several calls, on a GPU.
    fn record(&mut self, operands: &mut Operands, stream: &Stream, workspace: &mut Workspace) -> Result<(), Error> {
        let Some(gpu_stream) = stream.gpu_stream().filter(|_| self.calls > 1) else { return Ok(()) };
        let (plan, calls) = (&self.plan, self.calls);
        // An algorithm that cannot be recorded is timed call by call.
        self.graph =
            Graph::capture(gpu_stream, || (0..calls).try_for_each(|call| operands.run(plan, call, stream, workspace)))
                .ok();
        stream.synchronize()
    }

    fn is_long(&self) -> bool {
        self.first_us * self.calls as f64 > LONG_TURN_US
    }

    fn turn(&self, operands: &mut Operands, stream: &Stream, workspace: &mut Workspace) -> Result<(), Error> {
        match (&self.graph, stream.gpu_stream()) {
            (Some(graph), Some(stream)) => Ok(graph.launch(stream)?),
            _ => (0..self.calls).try_for_each(|call| operands.run(&self.plan, call, stream, workspace)),
        }
    }
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_needs_no_more_is_sooner_far_ahead() {
        let rivals: Rivals = [(0, 10.0), (100, 1.0)].into_iter().collect();
        assert!(rivals.are_far_ahead(100, 3.1) && !rivals.are_far_ahead(100, 2.9));
        assert!(rivals.are_far_ahead(99, 10.1) && !rivals.are_far_ahead(99, 9.9));
        assert!(!Rivals::default().are_far_ahead(0, 1e9));
    }
}
