//! What host and kernels agree on for `ranges`.

use super::{GatherSumParams, INDICES_AT_ONCE, ROWS_THREADS, RowIndices};
use crate::division::Divisor;

/// The most ranges of rows that indices are sorted into: each looks through all of them.
pub const MAX_RANGES: i64 = 32;

/// The most chunks that they are looked through in, each by a block.
pub const MAX_CHUNKS: i64 = 32;

/// Chunks are multiples of so many indices: what a block's threads look at between two barriers.
pub const CHUNK_STEP: i64 = ROWS_THREADS as i64 * INDICES_AT_ONCE as i64;

crate::abi_struct! {
    /// Launch parameters of the kernels that sort indices into ranges of rows, and in the workspace the lists that they make.
    pub struct GatherRangesParams {
        /// The indices.
        pub indices: RowIndices,
        /// Device address of the workspace: counts of each range and chunk; where each range's list begins, and the last
        /// one ends; the places of the indices; the rows that they mean, counted from their range's first.
        pub workspace: u64,
        /// Blocks of the sums that a range is.
        pub blocks: Divisor,
        /// Rows of a range.
        pub range_rows: u32,
        /// Ranges.
        pub n_ranges: u32,
        /// Chunks.
        pub n_chunks: u32,
        /// Indices of a chunk.
        pub chunk: u32,
        /// Nothing.
        pub unused: u32,
    }
}

impl GatherRangesParams {
    /// Words of 32 bits in the workspace.
    pub const fn workspace_words(&self) -> u64 {
        self.list() + 2 * self.indices.n as u64
    }

    /// The word that says where a range's list begins.
    #[inline(always)]
    pub const fn start(&self, range: u32) -> u64 {
        self.n_ranges as u64 * self.n_chunks as u64 + range as u64
    }

    /// The word with which the places of the indices begin; the rows follow behind.
    #[inline(always)]
    pub const fn list(&self) -> u64 {
        self.start(self.n_ranges) + 1
    }
}

crate::abi_struct! {
    /// Launch parameters of the sums of rows by those lists.
    pub struct GatherListedParams {
        /// As of the sums that look through all indices.
        pub sum: GatherSumParams,
        /// The lists.
        pub ranges: GatherRangesParams,
    }
}
