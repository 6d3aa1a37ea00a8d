//! Launch parameters of the adam kernels.

use crate::TensorParam;
use crate::tensor_list::TensorList;

crate::abi_struct! {
    /// Numbers of a step.
    pub struct AdamStep {
        /// Learning rate.
        pub alpha: f64,
        /// Share of the old first moment.
        pub beta1: f64,
        /// Share of the old second moment.
        pub beta2: f64,
        /// Natural logarithms of both.
        pub ln_betas: [f64; 2],
        /// What is added to the root.
        pub eps: f64,
        /// Pull of the gradient to w.
        pub gradient_decay: f64,
        /// Pull of the parameters to 0, at the learning rate.
        pub weight_decay: f64,
        /// The number of the step, an f32; 0 where the bias is not corrected.
        pub step: u64,
    }
}

crate::abi_struct! {
    /// Launch parameters of the naive kernels: one tensor.
    pub struct AdamParams {
        /// Number of elements.
        pub n_elems: i64,
        /// The step.
        pub step: AdamStep,
        /// Gradient.
        pub dw: TensorParam,
        /// First moment.
        pub m: TensorParam,
        /// Second moment.
        pub v: TensorParam,
        /// Parameters in f32; address 0 where there are none beside w.
        pub master: TensorParam,
        /// Parameters.
        pub w: TensorParam,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels for many tensors, whose parts are dw, m, v, master and w.
    pub struct AdamListParams {
        /// The step.
        pub step: AdamStep,
        /// The tensors.
        pub list: TensorList,
    }
}
