//! Launch parameters of the pooling kernels.

use super::PoolAxis;
use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of the naive pooling kernels, both passes. Spatial arrays are depth, height, width.
    pub struct PoolParams {
        /// Elements of the tensor that is written.
        pub n_elems: i64,
        /// C.
        pub c: i64,
        /// The spatial axes.
        pub axes: [PoolAxis; 3],
        /// A [`PoolMode`](super::PoolMode) as a number.
        pub mode: u32,
        /// A [`PoolNan`](super::PoolNan) as a number.
        pub nan: u32,
        /// Bytes of an element of `index`.
        pub index_bytes: u32,
        /// An [`IndexBase`](super::IndexBase) as a number.
        pub index_base: u32,
        /// 1 when neighbouring threads take neighbouring channels, 0 when they take neighbouring positions.
        pub channels_innermost: u32,
        /// Nothing.
        pub unused: u32,
        /// The exponent of `lp`.
        pub p: f64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// x as `[N, C, D, H, W]`; at address 0 where it is not read.
        pub x: TensorParam,
        /// y, or dy, as `[N, C, Z, P, Q]`.
        pub y: TensorParam,
        /// dx as `[N, C, D, H, W]`; not used forward.
        pub dx: TensorParam,
        /// index as `[N, C, Z, P, Q]`; at address 0 where there is none.
        pub index: TensorParam,
    }
}
