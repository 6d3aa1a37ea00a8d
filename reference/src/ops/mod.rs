//! The operators: one file each, or a folder where there are several passes of some length.

pub mod activation;
pub mod conv;
pub mod matmul;
pub mod pool;
pub mod softmax;

/// One row per operator.
pub(crate) fn rows() -> Vec<crate::Row> {
    vec![
        crate::row::<kernel_abi::ops::activation::ActivationProblem>(),
        crate::row::<kernel_abi::ops::conv::ConvProblem>(),
        crate::row::<kernel_abi::ops::matmul::MatmulProblem>(),
        crate::row::<kernel_abi::ops::pool::PoolProblem>(),
        crate::row::<kernel_abi::ops::softmax::SoftmaxProblem>(),
    ]
}
