//! Launch parameters of the sgd kernels.

use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of the sgd kernels.
    pub struct SgdParams {
        /// Number of elements.
        pub n_elems: i64,
        /// 1 for Nesterov's form.
        pub nesterov: u32,
        /// Unused, keeps the next field aligned.
        pub reserved: u32,
        /// Learning rate.
        pub alpha: f64,
        /// Share of the old velocity.
        pub momentum: f64,
        /// Pull of the parameters to 0.
        pub weight_decay: f64,
        /// Gradient.
        pub dw: TensorParam,
        /// Velocity.
        pub v: TensorParam,
        /// Parameters.
        pub w: TensorParam,
    }
}
