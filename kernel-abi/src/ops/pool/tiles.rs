//! What host and kernels agree on for `tiles`.

use super::WindowAxis;
use crate::ChannelTensor;
use crate::division::Divisor;

/// Threads of a block.
pub const TILE_THREADS: u32 = 256;

/// Vectors of channels that a block takes where channels lie together.
pub const TILE_LANES: u32 = 8;

crate::abi_struct! {
    /// Launch parameters of `tiles`. Spatial arrays are height, width; planes count as images.
    pub struct PoolTileParams {
        /// Vectors of channels, or channels.
        pub channels: u32,
        /// Of these, how many a block takes: a power of two.
        pub lanes: u32,
        /// Blocks along the channels.
        pub chunks: Divisor,
        /// Tiles of a row, and of a column.
        pub tiles: [Divisor; 2],
        /// Planes of an image.
        pub planes: Divisor,
        /// Rows and columns of a tile of dx.
        pub tile: [u32; 2],
        /// Columns of a tile, to divide by.
        pub tile_columns: Divisor,
        /// The most windows that a row of a tile meets.
        pub windows: Divisor,
        /// Both spatial axes.
        pub axes: [WindowAxis; 2],
        /// 1 where a maximum ignores NaNs.
        pub ignore_nan: u32,
        /// What stands for elements outside the window: it is no maximum.
        pub fill: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the prior value.
        pub beta: f32,
        /// Nothing.
        pub unused: u32,
        /// x.
        pub x: ChannelTensor,
        /// dy.
        pub dy: ChannelTensor,
        /// dx.
        pub dx: ChannelTensor,
    }
}
