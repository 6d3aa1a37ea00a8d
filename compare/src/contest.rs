//! One problem: both sides searched, checked and timed in turns.

use crate::case::{Case, Table, Work};
use crate::measure::{Call, Set, Tried, record, sets, settle, trial};
use crate::options::Options;
use crate::ours::{self, OurCall};
use crate::peers::{cublaslt, cudnn};
use crate::reference::{NaiveResult, reset, whole};
use crate::report::Row;
use crate::session::Session;
use crate::suites::Kind;
use crate::timing::{Timing, Turn, in_turns};
use crate::verify::{PEER_TOLERANCE, Samples, limit_l2};
use anyhow::{Context as _, Result, bail};
use oxidnn::driver::Graph;
use oxidnn::{Domain, TensorDesc};

/// A problem's operands and its best candidates, the best first.
pub(crate) struct Prepared<'a> {
    sets: Vec<Set>,
    ours: Vec<Tried<'a>>,
    heuristic: Option<OurCall<'a>>,
    theirs: Vec<Tried<'a>>,
}

/// Measures one problem. Whatever goes wrong stands in the row's note.
pub(crate) fn contest<'a>(
    session: &'a Session,
    table: &Table,
    case: &Case,
    options: &Options,
) -> (Row, Option<Prepared<'a>>) {
    let problem = case.work.problem();
    let mut row = Row {
        problem: problem.text(),
        peer: session.peer(table.kind),
        layer: case.layer.clone(),
        count: case.count,
        flops: problem.flops(),
        bytes: problem.bytes(),
        ..Row::of_table(table)
    };
    match &case.work {
        Work::Conv(_) => {}
        Work::Matmul(problem) => row.layout = problem.desc().to_string(),
        Work::Other(problem) => {
            let first = case.work.first();
            row.pass = problem.pass().to_owned();
            row.dtype = first.dtype().to_string();
            row.layout = layout_of(&first).to_owned();
        }
    }
    let prepared = prepare(session, &case.work, options, &mut row).and_then(|prepared| {
        time(session, &case.work, &prepared, options, &mut row)?;
        Ok(prepared)
    });
    match prepared {
        Ok(prepared) => (row, Some(prepared)),
        Err(e) => {
            row.remark(&format!("{e:#}"));
            (row, None)
        }
    }
}

/// What the order of a tensor's elements is called.
fn layout_of(desc: &TensorDesc) -> &'static str {
    match () {
        () if desc.is_packed() => "nchw",
        () if desc.is_channels_last() => "nhwc",
        () => "strided",
    }
}

fn prepare<'a>(session: &'a Session, work: &Work, options: &Options, row: &mut Row) -> Result<Prepared<'a>> {
    let sets = sets(work, session)?;
    let clock = session.clock()?;
    let (heuristic, mut our_candidates) =
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
    let known = session.earlier.peer_algorithm(&row.problem);
    let (mut their_candidates, notes) = match (work, &session.cudnn, &session.cublaslt) {
        (Work::Conv(problem), Some(cudnn), _) => cudnn::search(cudnn, problem, &sets, &clock, options, known),
        (Work::Other(problem), Some(cudnn), _) => {
            cudnn::operators::search(cudnn, problem.as_ref(), &sets, &clock, session.gpu())
        }
        (Work::Matmul(problem), _, Some(lt)) => cublaslt::search(lt, problem, &sets, &clock, known),
        _ => (Vec::new(), Vec::new()),
    };
    settle([&mut our_candidates, &mut their_candidates], &sets, &clock)?;
    // What the peer's candidates had to say matters to the row where none was left.
    for note in &notes {
        if their_candidates.is_empty() { row.remark(note) } else { eprintln!("    {note}") }
    }
    if options.verbose {
        for tried in our_candidates.iter().chain(&their_candidates) {
            let (name, bytes) = (tried.call.name(), tried.call.workspace_bytes());
            eprintln!("    {:>10.1} us {name}, workspace {bytes} bytes", tried.us);
        }
    }
    let checks = Checks::new(session, work, &sets[0])?;
    let theirs = checks.right(their_candidates, options, Side::Theirs, row)?;
    let ours = checks.right(our_candidates, options, Side::Ours, row)?;
    Ok(Prepared { sets, ours, heuristic, theirs })
}

/// All layers of a network one after the other, each as often as it stands there, as one graph: both sides with their
/// best candidates.
pub(crate) fn chain(session: &Session, table: &Table, layers: &[(&Row, Prepared<'_>)]) -> Row {
    let total = |value: fn(&Row) -> f64| layers.iter().map(|(row, _)| value(row) * f64::from(row.count)).sum();
    let count: u32 = layers.iter().map(|(row, _)| row.count).sum();
    let mut row = Row {
        problem: format!("chain of {count} convolutions"),
        peer: session.peer(table.kind),
        layer: "whole chain".to_owned(),
        count: 1,
        algorithm: "each layer's best".to_owned(),
        peer_algorithm: "each layer's best".to_owned(),
        flops: total(|row| row.flops),
        bytes: total(|row| row.bytes),
        ..Row::of_table(table)
    };
    if let Err(e) = time_chain(session, layers, &mut row) {
        row.remark(&format!("{e:#}"));
    }
    row
}

fn time_chain(session: &Session, layers: &[(&Row, Prepared<'_>)], row: &mut Row) -> Result<()> {
    const ROUNDS: usize = 25;
    let (stream, clock) = (session.gpu_stream(), session.clock()?);
    let graph = |side: for<'b> fn(&'b Prepared<'_>) -> &'b [Tried<'b>], whose: &str| -> Result<Graph> {
        Graph::capture(stream, || {
            for (row, prepared) in layers {
                let best = side(prepared).first().with_context(|| format!("{} has none of {whose}", row.layer))?;
                // Each occurrence has weights and images of its own.
                for set in prepared.sets.iter().cycle().take(row.count as usize) {
                    best.call.queue(set)?;
                }
            }
            Ok(())
        })
    };
    let ours = graph(|prepared| &prepared.ours, "ours")?;
    let theirs = graph(|prepared| &prepared.theirs, "the peer's");
    let graphs: Vec<(&Graph, usize)> =
        [Some(&ours), theirs.as_ref().ok()].into_iter().flatten().map(|graph| (graph, 1)).collect();
    let timings = clock.interleaved_replays(&graphs, ROUNDS)?;
    set_ours(row, timings[0], session.copy_gbps);
    if let Some(timing) = timings.get(1) {
        (row.peer_us, row.peer_spread) = (timing.us, timing.spread);
    }
    theirs.map(|_| ())
}

fn set_ours(row: &mut Row, timing: Timing, copy_gbps: f64) {
    row.ours_us = timing.us;
    row.ours_spread = timing.spread;
    row.tflops = row.flops / timing.us / 1e6;
    row.gbps = row.bytes / timing.us / 1e3;
    row.fraction_of_copy = row.gbps / copy_gbps;
}

/// Whose result.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Ours,
    Theirs,
}

/// A candidate this close to the best one is timed in turns with it: the search does so in short bursts, and what takes
/// less power may be faster where they are longer.
const CLOSE: f64 = 1.1;
/// So many of a side at most.
const FINALISTS: usize = 3;

/// The checks of one problem's results, on its first set.
struct Checks<'a> {
    session: &'a Session,
    work: &'a Work,
    set: &'a Set,
    standard: Standard,
}

/// What results are held against.
enum Standard {
    /// Sums in f64 of some elements.
    Samples(Samples),
    /// All that the naive kernel wrote.
    Naive(NaiveResult),
}

impl<'a> Checks<'a> {
    fn new(session: &'a Session, work: &'a Work, set: &'a Set) -> Result<Self> {
        let standard = if let Work::Other(problem) = work {
            Standard::Naive(NaiveResult::new(session, problem.as_ref(), set)?)
        } else {
            let block = session.block(work.first().dtype(), Domain::Real)?;
            let block = block.as_ref();
            let value = |operand: usize, offset: i64| block.value(set.inputs[operand].1, offset);
            Standard::Samples(Samples::new(work, &value))
        };
        Ok(Checks { session, work, set, standard })
    }

    /// The best candidate whose result is right, and the next ones if they are close.
    fn right<'c>(
        &self,
        candidates: Vec<Tried<'c>>,
        options: &Options,
        side: Side,
        row: &mut Row,
    ) -> Result<Vec<Tried<'c>>> {
        let mut right: Vec<Tried<'c>> = Vec::new();
        for tried in candidates {
            if right.first().is_some_and(|best| tried.us > CLOSE * best.us) {
                break;
            }
            match self.judge(tried.call.as_ref(), options, side, row) {
                Ok(()) => right.push(tried),
                Err(e) => row.remark(&format!("WRONG {}: {e:#}", tried.call.name())),
            }
            if right.len() == FINALISTS {
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
    fn judge(&self, call: &dyn Call, options: &Options, side: Side, row: &mut Row) -> Result<()> {
        let stream = self.session.gpu_stream();
        let outputs = if side == Side::Ours { &self.set.ours } else { &self.set.theirs };
        let problem = self.work.problem();
        reset(problem, outputs, self.session)?;
        call.queue(self.set)?;
        stream.synchronize()?;
        let (error, verified) = match &self.standard {
            Standard::Samples(samples) => {
                let error = samples.error(outputs[0].span(), stream)?;
                let tolerance = if side == Side::Ours { 1.0 } else { PEER_TOLERANCE };
                let (dtype, length) = (self.work.written_dtype(), problem.accumulation_length());
                let limit = tolerance * limit_l2(dtype, problem.precision(), length);
                if error.is_nan() || error > limit {
                    bail!("relative error {error:.2e} of the samples, limit {limit:.2e}");
                }
                // The peer's output is right by its samples, or there is none.
                let has_theirs = row.peer_rel_err.is_finite();
                let verified = if options.quick || side == Side::Theirs {
                    "samples".to_owned()
                } else {
                    whole(self.session, self.work, self.set, has_theirs, samples.rms())?
                };
                (error, verified)
            }
            Standard::Naive(naive) => {
                let tolerance = if side == Side::Ours { 1.0 } else { PEER_TOLERANCE };
                (naive.error(self.session, problem, outputs, tolerance)?, "naive".to_owned())
            }
        };
        if side == Side::Ours {
            row.verified = verified;
        }
        let place = if side == Side::Ours { &mut row.max_rel_err } else { &mut row.peer_rel_err };
        // The first right candidate's error stays.
        if place.is_nan() {
            *place = error;
        }
        Ok(())
    }
}

/// Time that a graph of calls should take at least, so that its launch does not count, and at most.
const GRAPH_US: f64 = 800.0;
const LONG_US: f64 = 50e3;
/// Time that all turns of one problem should take together, and how many there are: enough for medians at the limit of
/// power, where the same call takes 10 % more or less from one turn to the next.
const TURNS_US: f64 = 500e3;
const TURNS: [usize; 2] = [8, 25];
const TURNS_US_QUICK: f64 = 300e3;
const TURNS_QUICK: [usize; 2] = [6, 12];
/// Where one turn of all sides takes longer, few must do.
const SLOW_TURN_US: f64 = 300e3;
/// A heuristic's choice this many times slower than the best is not timed more closely.
const FAR_OFF: f64 = 3.0;

/// Calls of a graph: every set at least once, so that they pass the cache, unless that takes too long to matter; no fewer
/// than `judge_pytorch.py` records, since each call has its part of the graph's own launch.
fn calls_of(us: f64, sets: usize) -> usize {
    let enough = ((GRAPH_US / us).ceil() as usize).clamp(10, 256).max(sets);
    enough.min((LONG_US / us).ceil() as usize).max(1)
}

/// So many candidates of both sides, one of each in turn as long as both have some.
fn alternating(ours: usize, theirs: usize) -> Vec<(Side, usize)> {
    let pairs = (0..ours.max(theirs)).flat_map(|i| [(Side::Ours, i), (Side::Theirs, i)]);
    pairs.filter(|&(side, i)| i < if side == Side::Ours { ours } else { theirs }).collect()
}

fn time(session: &Session, work: &Work, prepared: &Prepared<'_>, options: &Options, row: &mut Row) -> Result<()> {
    let Prepared { sets, ours, heuristic, theirs } = prepared;
    let (stream, clock) = (session.gpu_stream(), session.clock()?);
    let copy_gbps = if matches!(work, Work::Other(_)) { session.copy_gbps_of(row.bytes)? } else { session.copy_gbps };
    let Some(fastest) = ours.iter().chain(theirs).map(|tried| tried.us).min_by(f64::total_cmp) else {
        return Ok(());
    };
    // One of theirs after each of ours, so that neither side runs at clocks that only its own calls before have left.
    let finalists = alternating(ours.len(), theirs.len());
    let of = |&(side, i): &(Side, usize)| if side == Side::Ours { &ours[i] } else { &theirs[i] };
    let mut all: Vec<(&dyn Call, f64)> =
        finalists.iter().map(of).map(|tried| (tried.call.as_ref(), tried.us)).collect();
    if let Some(call) = heuristic {
        row.heuristic_algorithm = call.name();
        if ours.iter().all(|ours| ours.call.name() != row.heuristic_algorithm) {
            row.heuristic_us = trial(call, sets, &clock, fastest)?;
            if row.heuristic_us < FAR_OFF * fastest {
                all.push((call, row.heuristic_us));
            }
        }
    }
    let calls: Vec<usize> = all.iter().map(|(_, us)| calls_of(us.max(1.0), sets.len())).collect();
    let graphs = all
        .iter()
        .zip(&calls)
        .map(|((call, _), calls)| record(*call, sets, *calls, stream))
        .collect::<Result<Vec<_>>>()?;
    let mut turn_us = 0.0;
    for graph in &graphs {
        turn_us += clock.replay(graph)?;
    }
    let (wanted_us, [least, most]) = match (options.quick, turn_us > SLOW_TURN_US) {
        (_, true) => (TURNS_US, [2, 2]),
        (true, _) => (TURNS_US_QUICK, TURNS_QUICK),
        (false, _) => (TURNS_US, TURNS),
    };
    let rounds = ((wanted_us / turn_us) as usize).clamp(least, most);
    let torch = session.torch.as_ref().filter(|torch| match torch.borrow_mut().prepare(&row.problem) {
        Ok(()) => true,
        Err(e) => {
            row.remark(&format!("PyTorch: {e:#}"));
            false
        }
    });
    let replays: Vec<_> =
        graphs.iter().zip(&calls).map(|(graph, calls)| || Ok(clock.replay(graph)? / *calls as f64)).collect();
    let torch_turn = || torch.map_or(Ok(f64::NAN), |torch| torch.borrow_mut().turn());
    let mut sides: Vec<Turn<'_>> = replays.iter().map(|replay| replay as Turn<'_>).collect();
    if torch.is_some() {
        sides.push(&torch_turn);
    }
    let timings = in_turns(&sides, rounds)?;
    let (finalists_timings, rest) = timings.split_at(finalists.len());
    let (heuristic_timing, torch_timing) = rest.split_at(graphs.len() - finalists.len());
    let of_side = |side| {
        let both = finalists.iter().zip(finalists_timings).filter(move |((of, _), _)| *of == side);
        both.map(|(_, timing)| *timing).collect::<Vec<_>>()
    };
    let (our_timings, their_timings) = (of_side(Side::Ours), of_side(Side::Theirs));
    if let Some((call, timing)) = least_of(ours, &our_timings) {
        set_ours(row, timing, copy_gbps);
        row.algorithm = call.name();
        row.workspace_bytes = call.workspace_bytes();
    }
    if let Some((call, timing)) = least_of(theirs, &their_timings) {
        row.peer_us = timing.us;
        row.peer_spread = timing.spread;
        row.peer_algorithm = call.name();
        if let (Work::Other(_), Some(cudnn)) = (work, &session.cudnn) {
            row.peer = cudnn.name();
        }
    }
    if let Some(timing) = torch_timing.first() {
        row.torch_us = timing.us;
        // The peer is whoever is faster.
        if row.peer_us.is_nan() || timing.us < row.peer_us {
            (row.peer_us, row.peer_spread) = (timing.us, timing.spread);
            row.peer = session.peer(Kind::Other);
            row.peer_algorithm = "its own".to_owned();
        }
    }
    let among_best = ours.iter().position(|ours| ours.call.name() == row.heuristic_algorithm);
    if let Some(timing) = among_best.map(|i| our_timings[i]).or(heuristic_timing.first().copied()) {
        row.heuristic_us = timing.us;
    }
    Ok(())
}

fn least_of<'a>(tried: &'a [Tried<'_>], timings: &[Timing]) -> Option<(&'a dyn Call, Timing)> {
    let pairs = tried.iter().zip(timings).map(|(tried, timing)| (tried.call.as_ref(), *timing));
    pairs.min_by(|a, b| a.1.us.total_cmp(&b.1.us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_are_neither_short_nor_endless() {
        assert_eq!(calls_of(2.0, 100), 256);
        assert_eq!(calls_of(50.0, 2), 16);
        assert_eq!(calls_of(100.0, 2), 10);
        assert_eq!(calls_of(100.0, 60), 60);
        assert_eq!(calls_of(2000.0, 2), 10);
        assert_eq!(calls_of(20e3, 2), 3);
        assert_eq!(calls_of(1e6, 2), 1);
    }

    #[test]
    fn sides_alternate_as_long_as_both_have_candidates() {
        let (ours, theirs) = (|i| (Side::Ours, i), |i| (Side::Theirs, i));
        assert_eq!(alternating(3, 2), [ours(0), theirs(0), ours(1), theirs(1), ours(2)]);
        assert_eq!(alternating(0, 1), [theirs(0)]);
        assert_eq!(alternating(1, 0), [ours(0)]);
    }
}
