//! Launch parameters of the resampling kernels.

use super::{ResampleAxis, ResampleFilter};
use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of the naive resampling kernels, both passes. Spatial arrays are depth, height, width.
    pub struct ResampleParams {
        /// Elements of the tensor that is written.
        pub n_elems: i64,
        /// C.
        pub c: i64,
        /// The spatial axes.
        pub axes: [ResampleAxis; 3],
        /// The filter.
        pub filter: ResampleFilter,
        /// What outputs outside a cropped region become.
        pub extrapolation: f64,
        /// 1 when neighbouring threads take neighbouring channels, 0 when they take neighbouring positions.
        pub channels_innermost: u64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// x, or dx, as `[N, C, D, H, W]`.
        pub x: TensorParam,
        /// y, or dy, as `[N, C, Z, P, Q]`.
        pub y: TensorParam,
    }
}
