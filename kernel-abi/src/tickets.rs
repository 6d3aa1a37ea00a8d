//! Work that blocks take when they are ready for it, by numbers that they draw.

/// Where the numbers come from.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct TicketsParam {
    /// [`BYTES`] of the workspace, whatever lies there: the number that is drawn next, how many blocks have drawn their
    /// last, and a flag of 8 bytes.
    pub counters: u64,
    /// What the flag says once the numbers before it are set: another number for each plan.
    pub tag: u64,
}

impl TicketsParam {
    /// Of kernels that draw nothing.
    pub const NONE: Self = TicketsParam { counters: 0, tag: 0 };
}

/// Bytes of the counters, a multiple of what they are aligned to.
pub const BYTES: u64 = 16;
/// Pieces of work that a block has without drawing: all blocks must have so many. Meanwhile the first numbers are drawn.
pub const GIVEN: u32 = 3;

/// Numbers that wait in shared memory for those who compute.
pub const QUEUE_SLOTS: u32 = 8;
/// Bytes of the queue: of each slot two barriers of 8 bytes, and the number.
pub const QUEUE_BYTES: u32 = QUEUE_SLOTS * (2 * 8 + 4);
