//! Launch parameters of the pointwise kernels.

use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of the pointwise kernels.
    pub struct PointwiseParams {
        /// Elements of c.
        pub n_elems: i64,
        /// Factor of a.
        pub alpha_a: f64,
        /// Factor of b.
        pub alpha_b: f64,
        /// What `set` sets.
        pub value: f64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// First input, stride 0 where it is repeated.
        pub a: TensorParam,
        /// Second input, stride 0 where it is repeated.
        pub b: TensorParam,
        /// Output.
        pub c: TensorParam,
    }
}
