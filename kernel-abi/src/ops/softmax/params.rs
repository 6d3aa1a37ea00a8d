//! Launch parameters of the softmax kernels.

use crate::TensorParam;

/// Threads of a block whose lanes have an element each.
pub const LANES_BLOCK: u32 = 128;

/// The longest rows that a thread holds alone.
pub const PAIR_ELEMS: i64 = 24;

crate::abi_struct! {
    /// Launch parameters of the softmax kernels, both passes. Each tensor stands twice: with the dimensions that
    /// number the rows, and with those within a row, unused dimensions first.
    pub struct SoftmaxParams {
        /// Rows.
        pub n_rows: i64,
        /// Elements of a row.
        pub row_elems: i64,
        /// A [`SoftmaxKind`](super::SoftmaxKind) as a number.
        pub kind: u32,
        /// Parts that a row is cut into, where several blocks share it.
        pub n_parts: u32,
        /// Pieces of 16 bytes in a part.
        pub part_pieces: u32,
        /// Unused, keeps the next field aligned.
        pub reserved: u32,
        /// What parts leave: two numbers each.
        pub partials: u64,
        /// Rows side by side, where neighbouring threads take neighbouring rows.
        pub inner: i64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// Rows of what is written.
        pub out_rows: TensorParam,
        /// Rows of x, or of y backward.
        pub in_rows: TensorParam,
        /// Rows of dy; not used forward.
        pub dy_rows: TensorParam,
        /// Within a row of what is written.
        pub out_row: TensorParam,
        /// Within a row of x, or of y backward.
        pub in_row: TensorParam,
        /// Within a row of dy.
        pub dy_row: TensorParam,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels whose lanes have an element each: few, since those rows are launched and little else.
    /// Rows are contiguous, and at one distance from the next, counted in elements.
    pub struct SoftmaxLanesParams {
        /// x, or y backward.
        pub input: u64,
        /// Between rows of it.
        pub in_pitch: i64,
        /// dy; not used forward.
        pub dy: u64,
        /// Between rows of it.
        pub dy_pitch: i64,
        /// Rows.
        pub n_rows: u32,
        /// Elements of a row.
        pub row_elems: u32,
        /// A [`SoftmaxKind`](super::SoftmaxKind) as a number.
        pub kind: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// What is written.
        pub out: u64,
        /// Between rows of it.
        pub out_pitch: i64,
        /// Factor of the output's prior value.
        pub beta: f32,
        /// Unused, keeps the struct's size a multiple of its alignment.
        pub reserved: u32,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels whose clusters pass rows through rings.
    pub struct SoftmaxRingsParams {
        /// The tensors.
        pub rows: SoftmaxLanesParams,
        /// Pieces of a row that a warp has.
        pub run_pieces: u32,
        /// Rows that a ring holds.
        pub n_slots: u32,
        /// The bits of an address that rows are cut at multiples of: lines of the cache, or pieces where rows are whole
        /// pieces.
        pub cut: u32,
        /// Nothing.
        pub unused: u32,
    }
}
