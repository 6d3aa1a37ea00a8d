//! Plans: a problem with its algorithm chosen, ready to run.

mod args;
mod list;
mod workspace;

pub use args::Args;
pub(crate) use args::{Bound, Call};
pub(crate) use list::List;
pub use workspace::Workspace;

use crate::select::Candidate;
use crate::{Context, Error, MicroBatch, Operand, Stream};
use std::fmt::Write as _;

/// A chosen algorithm with everything fixed that does not depend on pointers.
pub(crate) trait Launch: Send + Sync {
    /// Queues the work. Neither allocates device memory nor synchronizes.
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error>;
}

impl Launch for Box<dyn Launch> {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        (**self).launch(stream, call)
    }
}

/// A problem with its algorithm chosen. `Send + Sync`; run it any number of times, from any thread.
pub struct Plan {
    pub(crate) context: Context,
    pub(crate) op: &'static str,
    pub(crate) problem: String,
    pub(crate) operands: Vec<Operand>,
    pub(crate) in_place: bool,
    pub(crate) algorithm: &'static str,
    pub(crate) config: &'static str,
    pub(crate) workspace_bytes: u64,
    pub(crate) candidates: Vec<Candidate>,
    /// How the choice was made.
    pub(crate) chosen_by: String,
    pub(crate) launch: Box<dyn Launch>,
    /// The parts of the batch; empty where it is not divided.
    pub(crate) micro_batches: Vec<MicroBatch>,
}

impl Plan {
    /// The problem's text form.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// The device it runs on.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The tensors a run takes.
    pub fn operands(&self) -> &[Operand] {
        &self.operands
    }

    /// The chosen algorithm's name; `micro_batches` where each of these has its own.
    pub fn algorithm(&self) -> &'static str {
        self.algorithm
    }

    /// The chosen kernel's symbol, or what stands for it on the CPU.
    pub fn config(&self) -> &'static str {
        self.config
    }

    /// The parts in which the batch is computed, in their order; none where it is not divided.
    pub fn micro_batches(&self) -> &[MicroBatch] {
        &self.micro_batches
    }

    /// The workspace a run needs.
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes
    }

    /// Allocates the workspace a run needs.
    ///
    /// # Errors
    /// `OutOfMemory`, `Driver`.
    pub fn workspace(&self) -> Result<Workspace, Error> {
        Workspace::new(&self.context, self.workspace_bytes)
    }

    /// Every candidate that was considered, in the order of the registry.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Every candidate with its estimate, its measured time and when that was measured, or the reason of its refusal;
    /// the chosen one marked.
    pub fn explain(&self) -> String {
        let (device, bytes, chosen_by) = (&self.context.info().name, self.workspace_bytes, &self.chosen_by);
        let mut text = format!("{}\n  on {device}, workspace {bytes} bytes, chosen by {chosen_by}\n", self.problem);
        let mut begin = 0;
        for MicroBatch { batch, algorithm, config, time_us, workspace_bytes } in &self.micro_batches {
            let images = format!("images {begin} to {}", begin + batch - 1);
            begin += batch;
            let cost = format!("{time_us:.1} us, workspace {workspace_bytes} bytes");
            let _ = writeln!(text, "  * {images}: {algorithm} ({config}): {cost}");
        }
        if !self.micro_batches.is_empty() && !self.candidates.is_empty() {
            text.push_str("  undivided:\n");
        }
        for candidate in &self.candidates {
            let chosen = candidate.algorithm == self.algorithm && candidate.config == self.config;
            // Writing to a string does not fail.
            let _ = writeln!(text, "{} {candidate}", if chosen { "  *" } else { "   " });
        }
        text
    }

    /// Queues the computation on `stream` and returns.
    ///
    /// Neither allocates device memory, synchronizes nor logs, so it can be captured into a CUDA graph. On a GPU,
    /// operands and workspace must stay alive and unshared until the stream has done the work.
    ///
    /// # Errors
    /// `BadDescriptor` for a missing, surplus, misshapen, misaligned or overlapping operand, `WrongDevice`,
    /// `WorkspaceTooSmall`: nothing has been written then. `Launch`, `Driver`.
    pub fn run(&self, stream: &Stream, args: Args<'_>, workspace: &mut Workspace) -> Result<(), Error> {
        let bytes = workspace.len_bytes();
        self.run_at(stream, args, workspace, 0, bytes)
    }

    /// The same in `bytes` of the workspace from `offset` on, which it has.
    pub(crate) fn run_at(
        &self,
        stream: &Stream,
        args: Args<'_>,
        workspace: &mut Workspace,
        offset: u64,
        bytes: u64,
    ) -> Result<(), Error> {
        self.same_device("workspace", workspace.context())?;
        let mut call = self.bind(stream, args, workspace.region_mut().part(offset, offset + bytes))?;
        self.launch.launch(stream, &mut call)
    }
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.explain())
    }
}
