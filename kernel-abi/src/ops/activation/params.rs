//! Launch parameters of the activation kernels.

use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of the activation kernels, both passes.
    pub struct ActivationParams {
        /// Number of elements.
        pub n_elems: i64,
        /// An [`ActivationMode`](super::ActivationMode) as a number.
        pub mode: u32,
        /// Unused, keeps the next field aligned.
        pub reserved: u32,
        /// The mode's parameters.
        pub parameters: [f64; 3],
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// Input.
        pub x: TensorParam,
        /// Gradient of the output; the forward pass ignores it.
        pub dy: TensorParam,
        /// `y` forward, `dx` backward.
        pub out: TensorParam,
    }
}
