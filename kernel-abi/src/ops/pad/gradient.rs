//! What host and kernels agree on for `gradient`.

use super::{PadLine, ROW_LEVELS};
use crate::division::Divisor;

crate::abi_struct! {
    /// Launch parameters of `gradient`, which writes dx.
    pub struct PadGradientParams {
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of dx's prior value.
        pub beta: f64,
        /// Device address of dy.
        pub dy: u64,
        /// Bytes from there to its end.
        pub dy_bytes: u64,
        /// Device address of dx.
        pub dx: u64,
        /// Bytes between elements of dx along the dimensions around the rows, the innermost first.
        pub dx_strides: [i64; ROW_LEVELS],
        /// Elements between those of dy.
        pub dy_strides: [i32; ROW_LEVELS],
        /// These dimensions.
        pub lines: [PadLine; ROW_LEVELS],
        /// The rows.
        pub row: PadLine,
        /// Extents of dx along the dimensions around, to divide by.
        pub extents: [Divisor; ROW_LEVELS],
        /// Pieces of a row, wherever it begins.
        pub pieces: Divisor,
        /// Pieces of all rows.
        pub n_pieces: u32,
        /// A [`PadMode`](super::PadMode) as a number.
        pub mode: u32,
        /// Pieces of a thread, up to [`PIECES_AT_ONCE`](super::PIECES_AT_ONCE).
        pub at_once: u32,
    }
}
