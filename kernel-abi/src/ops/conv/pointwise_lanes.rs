//! What launcher and kernels of `pointwise_lanes` agree on: filters of one tap between tensors of which one has few
//! channels.
//!
//! A position's channels of the other, wide tensor are read or written by a *team* of neighbouring lanes, 16 bytes each.

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Lanes of a warp: the largest team.
pub const LANES: u32 = 32;
/// Bytes that a lane has of a position.
pub const VECTOR_BYTES: u32 = 16;
/// Positions that a team has under way at a time.
pub const AT_ONCE: u32 = 4;
/// The most channels of the narrow tensor.
pub const MAX_FEW: u32 = 8;

crate::abi_struct! {
    /// Launch parameters.
    pub struct ConvPointwiseLanesParams {
        /// The tensor with many channels, which are contiguous, at a multiple of 16 bytes.
        pub wide: u64,
        /// The tensor with few channels.
        pub few: u64,
        /// The filter.
        pub w: u64,
        /// Elements between positions of the wide tensor, multiples of 16 bytes.
        pub wide_pitch: i64,
        /// Elements between positions of the other tensor.
        pub few_pitch: i64,
        /// Elements between channels of the other tensor.
        pub few_stride: i64,
        /// Elements of the filter from a channel of the narrow tensor to the next.
        pub w_few_stride: i64,
        /// Elements of the filter from a channel of the wide tensor to the next.
        pub w_wide_stride: i64,
        /// Positions.
        pub n_positions: u32,
        /// Channels of the wide tensor, whole vectors.
        pub n_wide: u32,
        /// Channels of the narrow tensor, at most those of the kernel.
        pub n_few: u32,
        /// The logarithm of the lanes of a team, which hold all channels of a position.
        pub team_log2: u32,
        /// How often a team goes on with [`AT_ONCE`] positions.
        pub rounds: u32,
        /// Factor of the sums.
        pub alpha: f32,
        /// Factor of what was there.
        pub beta: f32,
        /// Nothing: the struct's end.
        pub reserved: u32,
    }
}

impl ConvPointwiseLanesParams {
    /// Positions of a block.
    #[inline(always)]
    pub const fn block_positions(&self) -> u32 {
        (THREADS >> self.team_log2) * AT_ONCE * self.rounds
    }
}
