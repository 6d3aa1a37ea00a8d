//! Launch parameters of the bias kernels.

use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of the bias kernels.
    pub struct BiasParams {
        /// Elements of y forward, channels backward.
        pub n_elems: i64,
        /// Elements of dy for one channel; not used forward.
        pub channel_elems: i64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// x; not used backward.
        pub x: TensorParam,
        /// bias with x's dimensions, stride 0 in all but the channels; backward dbias as `[C]`, unused dimensions first.
        pub bias: TensorParam,
        /// y; backward dy without its channels, unused dimensions first.
        pub y: TensorParam,
        /// Distance of dy's channels; not used forward.
        pub channel_stride: i64,
    }
}
