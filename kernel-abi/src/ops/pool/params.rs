//! Launch parameters of the pooling kernels.

use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of the pooling kernels, both passes. Spatial arrays are depth, height, width; an absent axis
    /// has extent, window and stride 1 and no padding.
    pub struct PoolParams {
        /// Elements of the tensor that is written.
        pub n_elems: i64,
        /// C.
        pub c: i64,
        /// D, H, W.
        pub image: [i64; 3],
        /// Z, P, Q.
        pub output: [i64; 3],
        /// T, R, S.
        pub window: [i64; 3],
        /// Padding at the begin.
        pub padding: [i64; 3],
        /// Stride.
        pub stride: [i64; 3],
        /// A [`PoolMode`](super::PoolMode) as a number.
        pub mode: u32,
        /// 1 when neighbouring threads take neighbouring channels, 0 when they take neighbouring positions.
        pub channels_innermost: u32,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// x as `[N, C, D, H, W]`; not used by averages' backward pass.
        pub x: TensorParam,
        /// y, or dy, as `[N, C, Z, P, Q]`.
        pub y: TensorParam,
        /// dx as `[N, C, D, H, W]`; not used forward.
        pub dx: TensorParam,
    }
}
