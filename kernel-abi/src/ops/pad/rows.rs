//! What host and kernels agree on for `rows`.

use super::PadLine;
use crate::division::Divisor;

/// Dimensions around the rows.
pub const ROW_LEVELS: usize = 3;

/// Pieces of 16 bytes that a thread of `rows` and of `gradient` has under way at most.
pub const PIECES_AT_ONCE: u32 = 4;
/// Threads of a block of theirs.
pub const PIECES_THREADS: u32 = 256;

crate::abi_struct! {
    /// Launch parameters of `rows`, which writes y; as dx, where it is a window of dy.
    pub struct PadRowsParams {
        /// What stands outside where the mode is `constant`, as it is stored, repeated.
        pub value: u64,
        /// Device address of what is read.
        pub x: u64,
        /// Of what is written.
        pub y: u64,
        /// Bytes between elements of x along the dimensions around the rows, the innermost first.
        pub x_strides: [i64; ROW_LEVELS],
        /// The same of y.
        pub y_strides: [i64; ROW_LEVELS],
        /// These dimensions.
        pub lines: [PadLine; ROW_LEVELS],
        /// The rows.
        pub row: PadLine,
        /// Accesses to a row, wherever it begins.
        pub accesses: Divisor,
        /// Accesses to all rows.
        pub n_accesses: u32,
        /// A [`PadMode`](super::PadMode) as a number.
        pub mode: u32,
        /// Accesses of a thread, up to [`PIECES_AT_ONCE`].
        pub at_once: u32,
    }
}
