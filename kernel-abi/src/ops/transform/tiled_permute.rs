//! What launcher and kernels of `tiled_permute` agree on.

use crate::division::Divisor;

/// Loops around the two dimensions that a tile lies in.
pub const PERMUTE_LEVELS: usize = 4;

/// Rows and columns of a tile.
pub const PERMUTE_TILE: u32 = 32;

crate::abi_struct! {
    /// Launch parameters: columns lie contiguous in what is read, rows in what is written. Distances are in elements.
    pub struct PermuteParams {
        /// The tensor that is read.
        pub from: u64,
        /// The tensor that is written.
        pub to: u64,
        /// Between rows that are read.
        pub from_row: i64,
        /// Between columns that are written.
        pub to_col: i64,
        /// Rows.
        pub rows: u32,
        /// Columns.
        pub cols: u32,
        /// Tiles along the rows.
        pub row_tiles: Divisor,
        /// Tiles along the columns.
        pub col_tiles: Divisor,
        /// Extents of the loops around them, innermost first.
        pub extents: [Divisor; PERMUTE_LEVELS],
        /// Between their items in what is read.
        pub from_strides: [i64; PERMUTE_LEVELS],
        /// Between their items in what is written.
        pub to_strides: [i64; PERMUTE_LEVELS],
    }
}
