//! What host and kernels agree on for `separable`: rows first, in shared memory, then columns, two of them a thread.

use super::{ResampleTableParams, TILE_ROWS};
use crate::division::Divisor;

/// The most neighbours of a position that are looked at.
pub const SEPARABLE_CANDIDATES: i64 = 12;

/// The most neighbours of a position that weigh something.
pub const SEPARABLE_NEIGHBOURS: i64 = 4;

/// The most columns of a tile.
pub const SEPARABLE_COLUMNS: i64 = 128;

/// Positions that a table has room for: a plane, rows and columns.
pub const SEPARABLE_POSITIONS: usize = 1 + TILE_ROWS as usize + SEPARABLE_COLUMNS as usize;

/// Sums of rows that there is room for.
pub const SEPARABLE_SUMS: i64 = 5120;

/// Columns that a thread computes.
pub const COLUMNS_AT_ONCE: i64 = 2;

/// Where a column's sum stands in its line: neighbouring threads read columns two, four or eight apart from different
/// banks.
#[inline(always)]
pub const fn place_in_line(column: u32) -> u32 {
    column + column / 32
}

crate::abi_struct! {
    /// Launch parameters of `separable`, both passes. An image is one channel here; lines are the rows of the tile of
    /// images that are computed at once.
    pub struct ResampleSeparableParams {
        /// Axes, tiles, tensors. `channels` counts the images that lie one distance apart, `groups` divides these, `planes`
        /// is 1.
        pub tables: ResampleTableParams,
        /// Lines at once.
        pub lines: u32,
        /// Images at once.
        pub images: u32,
        /// Elements of a line that are read at once: 16 bytes, or one.
        pub vector: u32,
        /// Of these, how many a line has at most.
        pub units: Divisor,
        /// How many it has with one element each.
        pub single_units: Divisor,
        /// Sums between lines: all of a line, and one that is 0 for neighbours that weigh nothing.
        pub pitch: u32,
        /// Pairs of columns of a tile.
        pub pairs: Divisor,
        /// 1 where pairs are whole and lie at multiples of their size.
        pub whole_pairs: u32,
    }
}
