//! Launch parameters of the transform kernels.

use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of the transform kernels.
    pub struct TransformParams {
        /// Number of elements; of 16-byte words for the vectorized copy.
        pub n_elems: i64,
        /// Bytes behind the last whole word, for the vectorized copy.
        pub tail_bytes: i64,
        /// Factor of x.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// Element type of x, a [`DType`](crate::DType) as a number.
        pub x_dtype: u32,
        /// Element type of y.
        pub y_dtype: u32,
        /// How numbers become integers: [`Cast::bits`](crate::Cast::bits).
        pub cast: u32,
        /// Unused, keeps the next field aligned.
        pub reserved: u32,
        /// Input.
        pub x: TensorParam,
        /// Output.
        pub y: TensorParam,
    }
}
