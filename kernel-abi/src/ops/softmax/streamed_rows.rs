//! What the kernels that stream rows through shared memory have in common with who launches them.

/// The most rows that a block has in shared memory, those of each input counted.
pub const MAX_SLOTS: usize = 64;

/// Threads that share a row without a barrier of the block.
pub const WARP: u32 = 32;
