//! Launch parameters of the gathering kernels.

use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of the gathering kernels, both passes. The dimensions of x and y but for the axis stand in
    /// `x` and `y`, unused ones first.
    pub struct GatherParams {
        /// Elements of what is written.
        pub n_elems: i64,
        /// Elements of a row: all dimensions but the axis.
        pub row_elems: i64,
        /// Rows of x.
        pub rows: i64,
        /// Indices.
        pub n_indices: i64,
        /// Between rows of x.
        pub x_stride: i64,
        /// Between rows of y.
        pub y_stride: i64,
        /// Between indices.
        pub index_stride: i64,
        /// The indices.
        pub indices: u64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// Element type of x and y, a [`DType`](crate::DType) as a number.
        pub dtype: u32,
        /// Bytes of an index.
        pub index_bytes: u32,
        /// x, or dx.
        pub x: TensorParam,
        /// y, or dy.
        pub y: TensorParam,
    }
}
