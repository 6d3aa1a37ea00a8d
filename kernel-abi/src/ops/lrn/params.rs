//! Launch parameters of the local response normalization kernels.

use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of all passes. Tensors are `[N, C, D, H, W]`, at address 0 where they are not there.
    pub struct LrnParams {
        /// Elements of x.
        pub n_elems: i64,
        /// Neighbours before an element along C, D, H, W.
        pub behind: [i64; 4],
        /// Neighbours behind it.
        pub ahead: [i64; 4],
        /// alpha / m.
        pub alpha: f64,
        /// The power.
        pub beta: f64,
        /// What is added.
        pub k: f64,
        /// Factor of the result.
        pub result_factor: f64,
        /// Factor of the output's prior value.
        pub prior_factor: f64,
        /// 1 where neighbouring threads take neighbouring channels.
        pub channels_innermost: u32,
        /// Unused, keeps the next field aligned.
        pub reserved: u32,
        /// x.
        pub x: TensorParam,
        /// The means.
        pub means: TensorParam,
        /// y, dx.
        pub out: TensorParam,
        /// dy.
        pub dy: TensorParam,
        /// dmeans.
        pub dmeans: TensorParam,
        /// Of all elements of a packed x, s to the power of -beta, then q, in the accumulator's type. Backward.
        pub kept: u64,
    }
}
