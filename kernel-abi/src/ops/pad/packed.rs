//! What host and kernels agree on for `packed`.

use super::{PadLine, ROW_LEVELS};

crate::abi_struct! {
    /// Launch parameters of `packed`, which writes y; as dx, where it is a window of dy.
    pub struct PadPackedParams {
        /// What stands outside where the mode is `constant`, as it is stored, repeated.
        pub value: u64,
        /// Device address of what is read.
        pub x: u64,
        /// Bytes from there to its end.
        pub x_bytes: u64,
        /// Device address of what is written.
        pub y: u64,
        /// The dimensions around the rows, the innermost first.
        pub lines: [PadLine; ROW_LEVELS],
        /// The rows.
        pub row: PadLine,
        /// Elements between neighbours of x along the dimensions around.
        pub x_strides: [i32; ROW_LEVELS],
        /// Elements of y.
        pub n: i32,
        /// Pieces that it has, wherever it begins.
        pub n_pieces: u32,
        /// A [`PadMode`](super::PadMode) as a number.
        pub mode: u32,
    }
}
