//! Launch parameters of the grid sampling kernels.

use super::Sampler;
use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of the grid sampling kernels, all passes. Spatial arrays are depth, height, width.
    pub struct GridSampleParams {
        /// Threads: elements of y or dx, positions of dgrid.
        pub n_threads: i64,
        /// C.
        pub c: i64,
        /// Spatial dimensions: 1 to 3.
        pub n_axes: i64,
        /// D, H, W.
        pub image: [i64; 3],
        /// Z, P, Q.
        pub output: [i64; 3],
        /// How the image is read.
        pub sampler: Sampler,
        /// 1 where grid and dgrid are f32 whatever x is.
        pub grid_is_f32: u32,
        /// 1 when neighbouring threads take neighbouring channels, 0 when they take neighbouring positions.
        pub channels_innermost: u32,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// x, or dx, as `[N, C, D, H, W]`.
        pub x: TensorParam,
        /// y, or dy, as `[N, C, Z, P, Q]`.
        pub y: TensorParam,
        /// grid as `[N, Z, P, Q, axes]`.
        pub grid: TensorParam,
        /// dgrid likewise; used by its own pass only.
        pub dgrid: TensorParam,
    }
}
