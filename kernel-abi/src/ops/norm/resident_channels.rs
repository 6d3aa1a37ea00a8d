//! What host and device agree on about channels whose elements stay on the chip between their sums and their results.
//!
//! Channels are cut into slices, positions into chunks. Block (s, b) of the grid has slice s, and of its chunks b,
//! b + [`blocks`](ResidentChannelsParams::blocks), ….

use super::channelwise::ChannelwiseParams;

/// Threads that compute.
pub const CONSUMERS: u32 = 512;
/// Threads of a block: one more warp brings chunks.
pub const THREADS: u32 = CONSUMERS + 32;
/// Bytes of a vector.
pub const VECTOR_BYTES: u32 = 16;
/// Maps of a launch.
pub const MAPS: usize = 3;
/// The most chunks in shared memory.
pub const MAX_STAGES: u32 = 32;
/// Stages begin at multiples of so many bytes.
pub const STAGE_ALIGN: u32 = 128;
/// Numbers a slice's blocks count with: places that were given away, and blocks that are done.
pub const COUNTERS: u32 = 2;

/// Positions of a chunk, where `lanes` threads stand beside each other along channels and each has `passes` vectors. The
/// last threads have none where rows do not come out even.
pub const fn chunk_rows(lanes: u32, passes: u32) -> u32 {
    CONSUMERS / lanes * passes
}

/// Numbers in shared memory with which sums are added up: two of each channel and warp, or one of each channel and row
/// where these are not parts of warps.
pub const fn sum_words(lanes: u32) -> u32 {
    // Vectors of 16 bits have most channels.
    2 * (CONSUMERS / 32) * lanes * 8
}

/// Shared memory of a block beside its stages: sums, four numbers of each channel, barriers and the numbers of chunks.
pub const fn fixed_bytes(lanes: u32) -> u32 {
    4 * sum_words(lanes) + 4 * 4 * lanes * 8 + (2 * 8 + 4) * MAX_STAGES
}

crate::abi_struct! {
    /// Launch parameters of these kernels.
    pub struct ResidentChannelsParams {
        /// Maps of x, and backward of dy and y, `[channels, positions]`, fastest first, whose box is a slice's chunk. Where
        /// channels stand there several times, so many positions are one.
        pub maps: [[u64; 16]; MAPS],
        /// Tensors, parameters and statistics, as the kernels of `channelwise` take them; parts are
        /// `[slice][block][channel]`, two numbers each: mean and sum of squared deviations, or Σ g and Σ g (x - mean).
        pub channels: ChannelwiseParams,
        /// A flag for each block, `[slice][block]`.
        pub flags: u64,
        /// What a flag is when the block's part is there.
        pub tag: u64,
        /// [`COUNTERS`] for each slice.
        pub counters: u64,
        /// How results are kept in the second-level cache: a policy of `cuda_std::tma`.
        pub policy: u64,
        /// Channels of a slice; the last one may have fewer.
        pub slice_channels: u32,
        /// How many of them are different ones of the tensor.
        pub own_channels: u32,
        /// How many times these stand in the slice, if it is the only one, for as many positions that follow one another.
        pub times: u32,
        /// Blocks of a slice.
        pub blocks: u32,
        /// Chunks of a slice.
        pub n_chunks: u32,
        /// Chunks that every block has, and how many blocks, the first ones, have one more.
        pub even: u32,
        /// See `even`.
        pub more: u32,
        /// Chunks in shared memory.
        pub n_stages: u32,
        /// Chunks of a block before these that the second-level cache is asked to keep.
        pub window: u32,
        /// Chunks that are brought ahead when results are written.
        pub ahead: u32,
        /// Chunks that each block fetches to the second-level cache while blocks meet.
        pub fetched: u32,
        /// Unused, keeps the struct's size a multiple of its alignment.
        pub reserved: u32,
    }
}

impl ResidentChannelsParams {
    /// The tensor's positions of a block, whose chunks have so many rows.
    #[inline(always)]
    pub const fn positions_of(&self, block: u32, chunk_rows: u32) -> u32 {
        let all = (self.even + (block < self.more) as u32) * chunk_rows;
        let last = if self.more == 0 { self.blocks } else { self.more } - 1;
        let beyond = if block == last { self.n_chunks * chunk_rows - self.channels.share.positions } else { 0 };
        (all - beyond) * self.times
    }

    /// Chunks of a slice, the first ones, that any of its blocks may write the results of.
    #[inline(always)]
    pub const fn shared_chunks(&self) -> u32 {
        self.n_chunks.saturating_sub((self.n_stages + self.window) * self.blocks)
    }
}
