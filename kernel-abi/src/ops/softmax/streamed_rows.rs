//! What the kernels that stream rows through shared memory have in common with who launches them.

/// The most turns that the warps of a block have in shared memory, those of each input counted.
pub const MAX_SLOTS: usize = 128;

/// Threads that share a row without a barrier of the block.
pub const WARP: u32 = 32;
