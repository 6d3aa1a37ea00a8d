//! What both sides have in common: operands, calls, and the search for the fastest.

use crate::case::Work;
use crate::random::{Block, Filling};
use crate::timing::{Clock, rotation};
use anyhow::Result;
use oxidnn::driver::{DeviceMemory, GpuContext, GpuStream, Graph};
use oxidnn::{Operand, Role};

/// Operands of one call: the inputs, in the problem's order, and an output of each side.
pub(crate) struct Set {
    pub(crate) inputs: Vec<(DeviceMemory, Filling)>,
    pub(crate) ours: DeviceMemory,
    pub(crate) theirs: DeviceMemory,
}

impl Set {
    /// Addresses of the operands in the problem's order, with `output` in its place.
    pub(crate) fn addresses(&self, operands: &[Operand], output: &DeviceMemory) -> Vec<u64> {
        let mut inputs = self.inputs.iter();
        let address = |memory: &DeviceMemory| memory.span().address();
        operands
            .iter()
            .map(|operand| match operand.role {
                Role::Input => inputs.next().map_or(0, |(memory, _)| address(memory)),
                Role::Output | Role::Update | Role::Result => address(output),
            })
            .collect()
    }
}

/// As many sets as pass the cache.
pub(crate) fn sets(work: &Work, block: &Block, context: &GpuContext, stream: &GpuStream) -> Result<Vec<Set>> {
    let operands = work.problem().operands();
    let (free, _) = context.memory_info()?;
    let bytes: u64 = operands.iter().map(|operand| operand.desc.span_bytes()).sum();
    // A quarter of the memory is left for workspaces and what verification needs.
    let fits = (free as u64 / 4 * 3 / (2 * bytes)).max(1) as usize;
    let mut sets: Vec<Set> = Vec::new();
    for _ in 0..rotation(bytes).min(fits) {
        let mut inputs = Vec::new();
        let mut outputs = Vec::new();
        for operand in &operands {
            let alloc = || DeviceMemory::alloc(context, operand.desc.span_bytes() as usize);
            if operand.role == Role::Input {
                let memory = alloc()?;
                let filling = block.fill(&memory, 7 * sets.len() + inputs.len() + 1, stream)?;
                inputs.push((memory, filling));
            } else {
                outputs.extend([alloc()?, alloc()?]);
            }
        }
        let (Some(theirs), Some(ours)) = (outputs.pop(), outputs.pop()) else {
            anyhow::bail!("expected a problem with an output, given {}", work.problem().text());
        };
        sets.push(Set { inputs, ours, theirs });
    }
    stream.synchronize()?;
    Ok(sets)
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
    let calls = ((TRIAL_US / once.max(1.0)).ceil() as usize).clamp(2, 64);
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
