//! What the kernels that share a row among the blocks of a cluster have in common with who launches them.

/// Threads of a block.
pub const THREADS: u32 = 512;

/// The most blocks of a cluster.
pub const MAX_BLOCKS: u32 = 8;
