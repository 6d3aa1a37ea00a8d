//! Launch parameters of the convolution kernels.

use crate::TensorParam;
use crate::epilogue::EpilogueParam;

crate::abi_struct! {
    /// Launch parameters of the naive convolution kernels, all passes. Spatial arrays are in the order depth, height,
    /// width; an absent axis has extent, stride and dilation 1 and no padding.
    pub struct ConvParams {
        /// Elements of the tensor that is written.
        pub n_elems: i64,
        /// N.
        pub n: i64,
        /// Input channels of a group, C / G.
        pub group_c: i64,
        /// Output channels of a group, K / G.
        pub group_k: i64,
        /// G.
        pub groups: i64,
        /// D, H, W.
        pub image: [i64; 3],
        /// T, R, S.
        pub filter: [i64; 3],
        /// Z, P, Q.
        pub output: [i64; 3],
        /// Padding at the begin.
        pub padding: [i64; 3],
        /// Stride.
        pub stride: [i64; 3],
        /// Dilation.
        pub dilation: [i64; 3],
        /// 1 for mode `convolution`, 0 for `cross_correlation`.
        pub flip: u32,
        /// 1 when neighbouring threads take neighbouring channels of the tensor that is written, 0 when they take
        /// neighbouring positions: whichever lies closer in memory.
        pub channels_innermost: u32,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// x or dx as `[N, C, D, H, W]`.
        pub x: TensorParam,
        /// w or dw as `[K, C / G, T, R, S]`.
        pub w: TensorParam,
        /// y or dy as `[N, K, Z, P, Q]`.
        pub y: TensorParam,
        /// The residual of `fprop`; address 0 for none.
        pub z: TensorParam,
        /// What becomes of the sums of `fprop`.
        pub epilogue: EpilogueParam,
    }
}
