//! One problem: both sides searched, checked and timed in turns.

use crate::case::{Case, Table, Work};
use crate::device;
use crate::measure::{Call, Set, Tried, record, sets};
use crate::options::Options;
use crate::ours;
use crate::peers::{cublaslt, cudnn};
use crate::random::Block;
use crate::reference::whole;
use crate::report::Row;
use crate::session::Session;
use crate::timing::Timing;
use crate::verify::{Samples, limit_l2};
use anyhow::{Result, bail};
use oxidnn::driver::DeviceMemory;

/// Measures one problem. Whatever goes wrong stands in the row's note.
pub(crate) fn contest(session: &Session, table: &Table, case: &Case, options: &Options) -> Row {
    let problem = case.work.problem();
    let mut row = Row {
        suite: table.suite.clone(),
        problem: problem.text(),
        pass: table.pass.to_owned(),
        dtype: table.dtype.to_string(),
        layout: table.layout.to_owned(),
        peer: session.peer(matches!(case.work, Work::Matmul(_))),
        layer: case.layer.clone(),
        count: case.count,
        flops: problem.flops(),
        bytes: problem.bytes(),
        ..Row::unmeasured()
    };
    if let Err(e) = measure(session, &case.work, options, &mut row) {
        row.remark(&format!("{e:#}"));
    }
    row
}

fn measure(session: &Session, work: &Work, options: &Options, row: &mut Row) -> Result<()> {
    let (gpu, stream) = (session.gpu(), session.gpu_stream());
    let block = session.block(work.dtype())?;
    let sets = sets(work, &block, gpu, stream)?;
    let clock = session.clock()?;

    let (heuristic, our_candidates) =
        match ours::search(&session.context, &session.stream, work, &sets, &clock, options) {
            Ok((heuristic, found)) => {
                found.notes.iter().for_each(|note| row.remark(note));
                (heuristic, found.tried)
            }
            Err(e) => {
                row.remark(&format!("ours: {e:#}"));
                (None, Vec::new())
            }
        };
    let (their_candidates, notes) = match (work, &session.cudnn, &session.cublaslt) {
        (Work::Conv(problem), Some(cudnn), _) => cudnn::search(cudnn, problem, &sets, &clock, options),
        (Work::Matmul(problem), _, Some(lt)) => cublaslt::search(lt, problem, &sets, &clock),
        _ => (Vec::new(), Vec::new()),
    };
    // What a peer's candidates had to say matters where none was left.
    if their_candidates.is_empty() || options.verbose {
        notes.iter().for_each(|note| row.remark(note));
    }
    if options.verbose {
        for tried in our_candidates.iter().chain(&their_candidates) {
            let (name, bytes) = (tried.call.name(), tried.call.workspace_bytes());
            eprintln!("    {:>10.1} us {name}, workspace {bytes} bytes", tried.us);
        }
    }

    let checks = Checks::new(session, work, &sets[0], &block);
    let theirs = checks.right(their_candidates, &sets[0].theirs, options, Side::Theirs, row)?;
    let ours = checks.right(our_candidates, &sets[0].ours, options, Side::Ours, row)?;
    let heuristic = heuristic.as_ref().map(|call| call as &dyn Call);
    time(session, &sets, Sides { ours: &ours, heuristic, theirs: &theirs }, options, row)
}

/// Whose result.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Ours,
    Theirs,
}

/// A candidate this close to the best one is timed in turns with it: the search is not that exact.
const CLOSE: f64 = 1.05;

/// The checks of one problem's results, on its first set.
struct Checks<'a> {
    session: &'a Session,
    work: &'a Work,
    set: &'a Set,
    samples: Samples,
}

impl<'a> Checks<'a> {
    fn new(session: &'a Session, work: &'a Work, set: &'a Set, block: &Block) -> Self {
        let value = |operand: usize, offset: i64| block.value(set.inputs[operand].1, offset);
        Checks { session, work, set, samples: Samples::new(work, &value) }
    }

    /// The best candidate whose result is right, and the next one if it is close.
    fn right<'c>(
        &self,
        candidates: Vec<Tried<'c>>,
        output: &DeviceMemory,
        options: &Options,
        side: Side,
        row: &mut Row,
    ) -> Result<Vec<Tried<'c>>> {
        let mut right: Vec<Tried<'c>> = Vec::new();
        for tried in candidates {
            if right.first().is_some_and(|best| tried.us > CLOSE * best.us) {
                break;
            }
            match self.judge(tried.call.as_ref(), output, options, side, row) {
                Ok(()) => right.push(tried),
                Err(e) => row.remark(&format!("WRONG {}: {e:#}", tried.call.name())),
            }
            if right.len() == 2 {
                break;
            }
        }
        if let (Side::Theirs, Some(best)) = (side, right.first()) {
            // Ours may be compared with it; what lies there now may be of one that is wrong.
            best.call.queue(self.set)?;
        }
        Ok(right)
    }

    /// Runs once into a poisoned output and looks at it.
    fn judge(
        &self,
        call: &dyn Call,
        output: &DeviceMemory,
        options: &Options,
        side: Side,
        row: &mut Row,
    ) -> Result<()> {
        let stream = self.session.gpu_stream();
        const POISON: u8 = 0xff;
        device::set(output.span(), POISON, stream)?;
        call.queue(self.set)?;
        stream.synchronize()?;
        let error = self.samples.error(output, stream)?;
        let place = if side == Side::Ours { &mut row.max_rel_err } else { &mut row.peer_rel_err };
        // The first right candidate's error stays.
        if place.is_nan() {
            *place = error;
        }
        let limit = limit_l2(self.work.dtype(), self.work.problem().accumulation_length());
        if error.is_nan() || error > limit {
            *place = f64::NAN;
            bail!("relative error {error:.2e} of the samples, limit {limit:.2e}");
        }
        if side == Side::Ours {
            row.verified = if options.quick {
                "samples".to_owned()
            } else {
                // The peer's output is right by its samples, or there is none.
                let theirs = row.peer_rel_err.is_finite().then_some(&self.set.theirs);
                whole(self.session, self.work, self.set, theirs, self.samples.rms())?
            };
        }
        Ok(())
    }
}

struct Sides<'a> {
    ours: &'a [Tried<'a>],
    heuristic: Option<&'a dyn Call>,
    theirs: &'a [Tried<'a>],
}

/// Time that a graph of calls should take at least, so that its launch does not count.
const GRAPH_US: f64 = 800.0;
/// Time that all turns of one problem should take together.
const TURNS_US: f64 = 250e3;
const TURNS_US_QUICK: f64 = 80e3;

fn time(session: &Session, sets: &[Set], sides: Sides<'_>, options: &Options, row: &mut Row) -> Result<()> {
    let (stream, clock) = (session.gpu_stream(), session.clock()?);
    let best = |tried: &[Tried<'_>]| tried.first().map_or(f64::INFINITY, |tried| tried.us);
    let fastest = best(sides.ours).min(best(sides.theirs)).max(1.0);
    if fastest.is_infinite() {
        return Ok(());
    }
    // Every set at least once, so that they pass the cache.
    let calls = ((GRAPH_US / fastest).ceil() as usize).clamp(4, 256).max(sets.len());
    let heuristic = sides.heuristic.filter(|call| sides.ours.iter().all(|ours| ours.call.name() != call.name()));
    let ours = sides.ours.iter().map(|tried| tried.call.as_ref());
    let theirs = sides.theirs.iter().map(|tried| tried.call.as_ref());
    let all: Vec<&dyn Call> = ours.chain(theirs).chain(heuristic).collect();
    if let Some(call) = heuristic {
        // What the search left out has not loaded its kernels yet.
        call.queue(&sets[0])?;
        stream.synchronize()?;
    }
    let graphs = all.iter().map(|call| record(*call, sets, calls, stream)).collect::<Result<Vec<_>>>()?;
    let mut turn_us = 0.0;
    for graph in &graphs {
        turn_us += clock.replay(graph)?;
    }
    let (wanted_us, least, most) = if options.quick { (TURNS_US_QUICK, 3, 7) } else { (TURNS_US, 7, 25) };
    let rounds = ((wanted_us / turn_us) as usize).clamp(least, most);
    let graphs: Vec<&oxidnn::driver::Graph> = graphs.iter().collect();
    let timings = clock.interleaved(&graphs, calls, rounds)?;
    let (our_timings, rest) = timings.split_at(sides.ours.len());
    let (their_timings, heuristic_timing) = rest.split_at(sides.theirs.len());
    if let Some((call, timing)) = least_of(sides.ours, our_timings) {
        row.ours_us = timing.us;
        row.ours_spread = timing.spread;
        row.algorithm = call.name();
        row.workspace_bytes = call.workspace_bytes();
        row.tflops = row.flops / timing.us / 1e6;
        row.gbps = row.bytes / timing.us / 1e3;
        row.fraction_of_copy = row.gbps / session.copy_gbps;
    }
    if let Some((call, timing)) = least_of(sides.theirs, their_timings) {
        row.peer_us = timing.us;
        row.peer_spread = timing.spread;
        row.peer_algorithm = call.name();
    }
    if let Some(call) = sides.heuristic {
        row.heuristic_algorithm = call.name();
        let among_best = sides.ours.iter().position(|ours| ours.call.name() == call.name());
        let timing = among_best.map(|i| our_timings[i]).or(heuristic_timing.first().copied());
        row.heuristic_us = timing.map_or(f64::NAN, |timing| timing.us);
    }
    Ok(())
}

fn least_of<'a>(tried: &'a [Tried<'_>], timings: &[Timing]) -> Option<(&'a dyn Call, Timing)> {
    let pairs = tried.iter().zip(timings).map(|(tried, timing)| (tried.call.as_ref(), *timing));
    pairs.min_by(|a, b| a.1.us.total_cmp(&b.1.us))
}
