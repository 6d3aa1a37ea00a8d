//! What host and kernels agree on for `whole`.

use crate::division::Divisor;

/// Threads of a block.
pub const WHOLE_THREADS: u32 = 256;

/// Vectors of channels that a block takes where channels lie together.
pub const WHOLE_LANES: u32 = 8;

crate::abi_struct! {
    /// Launch parameters of `whole`: one result a channel, or backward of it.
    pub struct PoolWholeParams {
        /// Positions of a plane.
        pub positions: u32,
        /// Vectors of channels, or planes of all images.
        pub channels: u32,
        /// Channels of an image, to divide by, where positions lie together; else blocks along the channels. Backward,
        /// positions of a plane.
        pub chunks: Divisor,
        /// 1 where a maximum ignores NaNs.
        pub ignore_nan: u32,
        /// What stands for elements that are not there: it changes no maximum, no sum.
        pub fill: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the prior value.
        pub beta: f32,
        /// Threads of a plane where positions lie together: a power of two up to 32.
        pub lanes: u32,
        /// x, or dx.
        pub x: u64,
        /// What lies behind it.
        pub x_end: u64,
        /// y, or dy.
        pub y: u64,
        /// Elements between images, vectors of channels (or channels) and vectors of positions (or positions) of x.
        pub x_strides: [i64; 3],
        /// Elements between images and vectors of channels, or channels, of y.
        pub y_strides: [i64; 2],
    }
}
