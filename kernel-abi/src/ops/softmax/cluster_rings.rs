//! What the kernels whose clusters pass rows through rings have in common with who launches them.

/// Threads of a block.
pub const THREADS: u32 = 512;

/// The most blocks of a cluster.
pub const MAX_BLOCKS: u32 = 8;

/// The most rows that a ring holds.
pub const MAX_SLOTS: u32 = 8;

/// Turns whose numbers are kept apart: a warp is in the next turn but one at most while others still read a turn's, and
/// then tells what it has found out of the one behind that.
pub const TURNS: u32 = 4;
