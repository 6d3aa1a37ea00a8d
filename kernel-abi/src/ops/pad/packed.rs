//! What host and kernels agree on for `packed` and `packed_gradient`.

use super::{PadLine, ROW_LEVELS};
use crate::division::Divisor;

/// Bytes of a tile at most: what a block writes.
pub const PACKED_TILE_BYTES: usize = 1 << 14;
/// Rows that a tile touches at most.
pub const PACKED_ROWS: usize = 1024;
/// Threads of a block.
pub const PACKED_THREADS: u32 = 256;
/// Windows of a thread that are under way at once.
pub const PACKED_AT_ONCE: u32 = 4;

crate::abi_struct! {
    /// Launch parameters of `packed`, which writes y, or dx where it is a window of dy, and of `packed_gradient`, which writes dx.
    pub struct PadPackedParams {
        /// What stands outside where the mode is `constant`, as it is stored, repeated.
        pub value: u64,
        /// Device address of what is read.
        pub from: u64,
        /// Of what is written.
        pub to: u64,
        /// The dimensions around the rows, the innermost first.
        pub lines: [PadLine; ROW_LEVELS],
        /// The rows.
        pub row: PadLine,
        /// Extents of what is written along the dimensions around.
        pub extents: [Divisor; ROW_LEVELS],
        /// The same along a row.
        pub width: Divisor,
        /// Elements between neighbours of what is read along the dimensions around.
        pub strides: [i32; ROW_LEVELS],
        /// The first of the elements of a row that are read as they lie together.
        pub window: i32,
        /// How many they are.
        pub n_window: i32,
        /// Elements of a row that is read before the window's first, less those that are before it in a row that is written.
        pub shift: i32,
        /// A row's other elements, to divide by.
        pub others: Divisor,
        /// Their number, which may be 0.
        pub n_others: u32,
        /// Pieces of 16 bytes that the window of a row touches at most, and no more than a tile has.
        pub slots: Divisor,
        /// Elements of what is written.
        pub n: i32,
        /// Elements that what is read spans, less those of three pieces; at least 0.
        pub n_inside: i32,
        /// Elements of a tile, which are whole pieces.
        pub tile: u32,
        /// A [`PadMode`](super::PadMode) as a number.
        pub mode: u32,
        /// Elements of 16 bytes.
        pub elems: u32,
    }
}

impl PadPackedParams {
    /// Pieces that the window of a row touches, wherever the row begins in a tensor at this address, or above 16 bytes.
    #[cfg(not(target_arch = "nvptx64"))]
    pub fn slots_at(&self, address: u64) -> u32 {
        let (elems, window) = (u64::from(self.elems), self.window as u64);
        let first = (address % 16) * elems / 16;
        let begins = |row: u64| (first + row * u64::from(self.width.divisor) + window) % elems;
        // How rows begin comes again after as many as a piece has elements.
        let touched = (0..elems).map(|row| (begins(row) + self.n_window as u64).div_ceil(elems)).max();
        (touched.unwrap_or(0) as u32).clamp(1, self.tile.max(self.elems) / self.elems)
    }
}
