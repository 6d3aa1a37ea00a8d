//! What launches of kernels share whose blocks stay and meet through the workspace.

use super::super::NormProblem;
use crate::plan::Call;
use kernel_abi::ops::norm::channelwise::ChannelwiseParams;

/// The most shared memory of a block of compute capability 9.0, but for what is left for the gap before the dynamic area.
pub(in crate::ops::norm) const SHARED_BYTES: u32 = 232_448 - 1024;
/// Vectors of the workspace begin at multiples of this.
const ALIGN: u64 = 256;

/// The workspace: mean and inverse standard deviation, the parts of blocks, their flags, and counters.
pub(in crate::ops::norm) struct Room {
    row_bytes: u64,
    /// Whether statistics lie there.
    keeps_statistics: bool,
    flags: u64,
    counters: u64,
    pub(in crate::ops::norm) total: u64,
}

impl Room {
    /// Room for so many parts of a channel, two numbers each, flags, and counters.
    pub(in crate::ops::norm) fn new(problem: &NormProblem, parts: u64, flags: u64, counters: u64) -> Self {
        let row_bytes = (4 * problem.sharing().n_rows() as u64).next_multiple_of(ALIGN);
        let flags_at = 2 * row_bytes + (8 * parts).next_multiple_of(ALIGN);
        let counters_at = flags_at + (8 * flags).next_multiple_of(ALIGN);
        Room {
            row_bytes,
            keeps_statistics: problem.operand("inv_std").is_none(),
            flags: flags_at,
            counters: counters_at,
            total: counters_at + 4 * counters,
        }
    }

    /// Says where parts are, and statistics where they are kept; gives the addresses of flags and counters.
    pub(in crate::ops::norm) fn put(&self, p: &mut ChannelwiseParams, call: &Call<'_>) -> (u64, u64) {
        let workspace = call.workspace_address();
        if self.keeps_statistics {
            (p.mean, p.inv_std) = (workspace, workspace + self.row_bytes);
        }
        p.partials = workspace + 2 * self.row_bytes;
        (workspace + self.flags, workspace + self.counters)
    }
}
