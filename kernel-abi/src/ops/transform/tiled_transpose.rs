//! What launcher and kernels of `tiled_transpose` agree on.

use crate::division::Divisor;

crate::abi_struct! {
    /// Launch parameters: matrices `[rows][cols]` with contiguous columns become `[cols][rows]` with contiguous rows.
    ///
    /// A block has a tile of one matrix. Distances are in elements.
    pub struct TransposeParams {
        /// The tensor that is read.
        pub from: u64,
        /// Behind its last element.
        pub from_end: u64,
        /// The tensor that is written.
        pub to: u64,
        /// Between matrices that are read.
        pub from_matrix: i64,
        /// Between matrices that are written.
        pub to_matrix: i64,
        /// Between rows that are read.
        pub from_pitch: i64,
        /// Between columns that are written.
        pub to_pitch: i64,
        /// Rows of a matrix.
        pub rows: u32,
        /// Columns of a matrix.
        pub cols: u32,
        /// Rows of a tile: a multiple of 32; all of them with [`STORE_RUN`] and [`STORE_STAGED`]; with
        /// [`STORE_GATHERED`] a multiple of 16 bytes of a column.
        pub tile_rows: u32,
        /// Columns of a tile, a multiple of 16 bytes of them; with [`STORE_GATHERED`] all.
        pub tile_cols: u32,
        /// Tiles along the rows.
        pub row_tiles: Divisor,
        /// Tiles along the columns.
        pub col_tiles: Divisor,
        /// Reads of 16 bytes that any tile's row takes at most; of 8 bytes with [`STORE_MATRICES_NARROW`].
        pub row_chunks: Divisor,
        /// Writes of 16 bytes that any tile's column takes at most; with [`STORE_RUN`] the rows, with [`STORE_STAGED`]
        /// the eights of rows, with [`STORE_GATHERED`] the columns.
        pub col_chunks: Divisor,
        /// How a tile is written: one of the `STORE_` constants.
        pub store: u32,
        /// Bytes from row to row of shared memory, a multiple of 16 but with [`STORE_GATHERED`].
        pub shared_pitch: u32,
        /// Unused, keeps the struct's size a multiple of its alignment.
        pub reserved: u32,
        /// Not 0 where the kernel before is one of these too, neither writes what is read nor uses what is written, and
        /// all before it were done when it began: this one then works beside it, and waits for it at the end (Hopper).
        pub beside: u32,
    }
}

/// Column after column, whatever their alignment.
pub const STORE_COLUMNS: u32 = 0;
/// A tile has all rows, which are written without gaps: its columns are one run.
pub const STORE_RUN: u32 = 1;
/// Elements are of 2 bytes; rows, columns and the distances between them are multiples of 16 bytes, and so are the
/// addresses.
pub const STORE_MATRICES: u32 = 2;

/// The same, but what is read lies at multiples of 8 bytes, and rows may be of any number of columns.
pub const STORE_MATRICES_NARROW: u32 = 3;

/// A tile has all rows, which are written without gaps, as with [`STORE_RUN`], but the run begins at a multiple of 16
/// bytes, elements are of 2, there is a multiple of 4 of rows, and those that are read begin at multiples of 16: the run is made in shared memory, of
/// matrices, and goes from there to where it shall lie.
pub const STORE_STAGED: u32 = 4;

/// A tile has all columns, which are read without gaps: its rows are one run, which begins at a multiple of 16 bytes, and
/// come to shared memory as they lie. Rows that are written are multiples of 16 bytes, and so are the distances between
/// them and the addresses.
pub const STORE_GATHERED: u32 = 5;

/// Threads of a block.
pub const TRANSPOSE_THREADS: u32 = 256;

impl TransposeParams {
    /// Where a row lies in shared memory, but with [`STORE_GATHERED`]. Every eighth is shifted by 16 bytes, so that eight
    /// runs of eight rows, which neighbouring threads read at a time, lie in different banks.
    #[inline(always)]
    pub const fn shared_row(&self, row: u32) -> u32 {
        row * self.shared_pitch + row / 8 * 16
    }

    /// Where the run is made in shared memory, with [`STORE_STAGED`]: behind the rows, whose last eight are there in any
    /// case, since matrices are read of them.
    #[inline(always)]
    pub const fn staged_at(&self) -> u32 {
        self.shared_row(self.tile_rows.next_multiple_of(8))
    }

    /// Shared memory of a block.
    pub const fn shared_bytes(&self) -> u32 {
        match self.store {
            STORE_STAGED => self.staged_at() + self.tile_cols * self.tile_rows * 2,
            STORE_GATHERED => self.tile_rows * self.shared_pitch,
            _ => self.shared_row(self.tile_rows),
        }
    }
}
