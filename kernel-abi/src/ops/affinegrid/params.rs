//! Launch parameters of the affine grid kernels.

use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of the affine grid kernels, both passes.
    pub struct AffineGridParams {
        /// Elements of the tensor that is written.
        pub n_elems: i64,
        /// Spatial dimensions: 2 or 3.
        pub n_axes: i64,
        /// Z, P, Q; an absent Z is 1.
        pub extents: [i64; 3],
        /// 1 where the outermost coordinates are those of centres.
        pub align_corners: u64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// theta, or dtheta, as `[N, rows, columns]`.
        pub theta: TensorParam,
        /// grid, or dgrid, as `[N, Z, P, Q, axes]`.
        pub grid: TensorParam,
    }
}
