//! What host and kernels agree on for `tiles`.

use super::GridSampleParams;
use crate::division::Divisor;

/// Threads of a block: one a position of a tile.
pub const TILE_THREADS: u32 = 256;

/// Rows and columns of a tile of dx, in one plane: a warp has a row.
pub const TILE: [i64; 2] = [8, 32];

/// Channels that a block computes.
pub const TILE_CHANNELS: usize = 8;

crate::abi_struct! {
    /// Launch parameters of `tiles`.
    pub struct GridSampleTileParams {
        /// Those of the naive kernel.
        pub sample: GridSampleParams,
        /// Groups of channels.
        pub groups: Divisor,
        /// Tiles of a row.
        pub tiles_along: Divisor,
        /// Tiles of a column.
        pub tiles_down: Divisor,
        /// Planes.
        pub planes: Divisor,
        /// Q.
        pub columns: Divisor,
        /// P.
        pub rows: Divisor,
        /// Outputs of an image: Z P Q.
        pub n_outputs: u32,
        /// Nothing.
        pub unused: u32,
    }
}
