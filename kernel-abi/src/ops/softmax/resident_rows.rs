//! What the kernels that have a row in shared memory have in common with who launches them.

/// Threads of a block, at most.
pub const THREADS: u32 = 512;
