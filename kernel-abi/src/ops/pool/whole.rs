//! What host and kernels agree on for `whole`.

use crate::division::Divisor;

/// Threads of a block.
pub const WHOLE_THREADS: u32 = 256;

/// Vectors of channels that a block takes where channels lie together.
pub const WHOLE_LANES: u32 = 8;

/// Planes that a block takes where positions lie together: a warp each.
pub const WHOLE_PLANES: u32 = WHOLE_THREADS / 32;

crate::abi_struct! {
    /// Launch parameters of `whole`: one result a channel.
    pub struct PoolWholeParams {
        /// Positions of a plane.
        pub positions: u32,
        /// Vectors of channels, or planes of all images.
        pub channels: u32,
        /// Channels of an image, to divide by, where positions lie together; else blocks along the channels.
        pub chunks: Divisor,
        /// 1 where a maximum ignores NaNs.
        pub ignore_nan: u32,
        /// What stands for elements that are not there: it changes no maximum, no sum.
        pub fill: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the prior value.
        pub beta: f32,
        /// Nothing.
        pub unused: u32,
        /// x.
        pub x: u64,
        /// y.
        pub y: u64,
        /// Elements between images, vectors of channels (or channels) and vectors of positions (or positions) of x.
        pub x_strides: [i64; 3],
        /// Elements between images and vectors of channels, or channels, of y.
        pub y_strides: [i64; 2],
    }
}
