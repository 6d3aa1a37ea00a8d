//! What host and kernels agree on for `tables`: a tile of positions a block, whose neighbours stand in shared memory.

use super::{ResampleAxis, ResampleFilter};
use crate::ChannelTensor;
use crate::division::Divisor;

/// The most neighbours of a position along one axis: enough for the gradient of an enlargement to eight times the size.
pub const MAX_NEIGHBOURS: i64 = 20;

/// The most rows of a tile.
pub const TILE_ROWS: i64 = 16;

/// The most columns of a tile.
pub const TILE_COLUMNS: i64 = 64;

/// Positions that a table has room for: a plane, rows and columns.
pub const TABLE_POSITIONS: usize = 1 + TILE_ROWS as usize + TILE_COLUMNS as usize;

/// Channels that a thread computes at once where columns lie together.
pub const CHANNELS_AT_ONCE: usize = 4;

impl ResampleAxis {
    /// Positions `begin..end` of what is read, of which all that flow into position `at` of what is written are; those of x
    /// may lie outside of it and stand for the nearest inside.
    #[inline(always)]
    pub fn neighbours(&self, filter: &ResampleFilter, backward: bool, at: i64) -> (i64, i64) {
        if backward {
            return self.covering(filter, at);
        }
        let taps = self.taps(filter, at);
        (taps.begin, taps.end)
    }

    /// What position `from` of these weighs.
    #[inline(always)]
    pub fn weight_of(&self, filter: &ResampleFilter, backward: bool, at: i64, from: i64) -> f64 {
        if backward {
            return self.weight_at(filter, from, at);
        }
        self.weight(filter, &self.taps(filter, at), from)
    }
}

crate::abi_struct! {
    /// Launch parameters of `tables`, both passes. Spatial arrays are depth, height, width. Channels are counted in vectors
    /// where they lie together, else in [`CHANNELS_AT_ONCE`].
    pub struct ResampleTableParams {
        /// The spatial axes.
        pub axes: [ResampleAxis; 3],
        /// The filter.
        pub filter: ResampleFilter,
        /// 1 where dx is made of dy.
        pub backward: u32,
        /// Channels, or vectors of them.
        pub channels: u32,
        /// Tiles of a row.
        pub tiles_along: Divisor,
        /// Tiles of a column.
        pub tiles_down: Divisor,
        /// Planes.
        pub planes: Divisor,
        /// Groups of channels.
        pub groups: Divisor,
        /// Of channels, how many a group has.
        pub group: Divisor,
        /// Columns of a tile.
        pub tile_columns: Divisor,
        /// Rows of a tile.
        pub tile_rows: Divisor,
        /// Neighbours of each position that are looked at.
        pub candidates: Divisor,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
        /// What is read: x, or dy.
        pub from: ChannelTensor,
        /// What is written: y, or dx.
        pub to: ChannelTensor,
    }
}
