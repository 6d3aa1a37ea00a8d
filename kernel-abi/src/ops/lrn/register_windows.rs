//! Parameters and kernels of windows across channels that lie in registers.

use crate::division::Divisor;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Positions, or vectors of them, that a block has beside one another where threads go along planes.
pub const BLOCK_POSITIONS: u32 = 32;

/// Channels of a thread that has a vector of positions, forward and backward.
pub const PLANE_CHANNELS: [u32; 2] = [8, 4];

/// Channels of a thread that has a single position.
pub const SINGLE_CHANNELS: u32 = 8;

/// Elements from image to image, channel to channel, and position to position.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Strides {
    /// Of images.
    pub image: i64,
    /// Of channels.
    pub channel: i64,
    /// Of positions.
    pub position: i64,
}

crate::abi_struct! {
    /// Launch parameters of both passes. Addresses are 0 for what is not there.
    pub struct LrnWindowsParams {
        /// x.
        pub x: u64,
        /// dy.
        pub dy: u64,
        /// y, dx.
        pub out: u64,
        /// Those of x.
        pub x_strides: Strides,
        /// Those of dy.
        pub dy_strides: Strides,
        /// Those of y, or dx.
        pub out_strides: Strides,
        /// N.
        pub images: u32,
        /// C.
        pub channels: u32,
        /// Positions of an image, or vectors of them.
        pub positions: u32,
        /// Threads that have something to do, where they go along channels.
        pub n_threads: u32,
        /// Vectors of channels at a position.
        pub vectors: Divisor,
        /// Positions of an image.
        pub image: Divisor,
        /// alpha / n.
        pub alpha: f32,
        /// The power.
        pub beta: f32,
        /// What is added.
        pub k: f32,
        /// 2 alpha beta / n.
        pub factor: f32,
        /// Factor of the result.
        pub result_factor: f32,
        /// Factor of the output's prior value.
        pub prior_factor: f32,
    }
}
