//! Launch parameters of the max unpooling kernels.

use crate::TensorParam;
use crate::ops::pool::PoolAxis;

crate::abi_struct! {
    /// Launch parameters of the max unpooling kernels, both passes. Spatial arrays are depth, height, width.
    pub struct UnpoolParams {
        /// Elements of the tensor that is written.
        pub n_elems: i64,
        /// C.
        pub c: i64,
        /// The axes of the pooling.
        pub axes: [PoolAxis; 3],
        /// Bytes of an element of `index`.
        pub index_bytes: u32,
        /// An [`IndexBase`](crate::ops::pool::IndexBase) as a number.
        pub index_base: u32,
        /// 1 when neighbouring threads take neighbouring channels, 0 when they take neighbouring positions.
        pub channels_innermost: u64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// x, or dx, as `[N, C, Z, P, Q]`.
        pub pooled: TensorParam,
        /// index likewise.
        pub index: TensorParam,
        /// y, or dy, as `[N, C, D, H, W]`.
        pub image: TensorParam,
    }
}
