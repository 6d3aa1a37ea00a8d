//! Launch parameters of the sgd kernels.

use crate::TensorParam;
use crate::tensor_list::TensorList;

crate::abi_struct! {
    /// Numbers of a step.
    pub struct SgdStep {
        /// Learning rate.
        pub alpha: f64,
        /// Share of the old velocity.
        pub momentum: f64,
        /// 1 - dampening.
        pub gain: f64,
        /// Pull of the parameters to 0.
        pub weight_decay: f64,
        /// 1 for Nesterov's form.
        pub nesterov: u32,
        /// Unused, keeps the size a multiple of 8.
        pub reserved: u32,
    }
}

crate::abi_struct! {
    /// Launch parameters of the naive kernels: one tensor.
    pub struct SgdParams {
        /// Number of elements.
        pub n_elems: i64,
        /// The step.
        pub step: SgdStep,
        /// Gradient.
        pub dw: TensorParam,
        /// Velocity; address 0 where it is not kept.
        pub v: TensorParam,
        /// Parameters in f32; address 0 where there are none beside w.
        pub master: TensorParam,
        /// Parameters.
        pub w: TensorParam,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels for many tensors, whose parts are dw, v, master and w.
    pub struct SgdListParams {
        /// The step.
        pub step: SgdStep,
        /// The tensors.
        pub list: TensorList,
    }
}
