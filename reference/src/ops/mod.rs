//! The operators: one file each, or a folder where there are several passes of some length.

pub mod activation;
pub mod adam;
pub mod affinegrid;
pub mod bias;
pub mod conv;
pub mod crossentropy;
pub mod ctc;
pub mod dropout;
pub mod gather;
pub mod gridsample;
pub mod lrn;
pub mod matmul;
pub mod norm;
pub mod pad;
pub mod pointwise;
pub mod pool;
pub mod reduce;
pub mod resample;
pub mod sgd;
pub mod softmax;
pub mod transform;
pub mod unpool;

/// One row per operator.
pub(crate) fn rows() -> Vec<crate::Row> {
    vec![
        crate::row::<kernel_abi::ops::activation::ActivationProblem>(),
        crate::row::<kernel_abi::ops::adam::AdamProblem>(),
        crate::row::<kernel_abi::ops::affinegrid::AffineGridProblem>(),
        crate::row::<kernel_abi::ops::bias::BiasProblem>(),
        crate::row::<kernel_abi::ops::conv::ConvProblem>(),
        crate::row::<kernel_abi::ops::crossentropy::CrossEntropyProblem>(),
        crate::row::<kernel_abi::ops::ctc::CtcProblem>(),
        crate::row::<kernel_abi::ops::dropout::DropoutProblem>(),
        crate::row::<kernel_abi::ops::gather::GatherProblem>(),
        crate::row::<kernel_abi::ops::gridsample::GridSampleProblem>(),
        crate::row::<kernel_abi::ops::lrn::LrnProblem>(),
        crate::row::<kernel_abi::ops::matmul::MatmulProblem>(),
        crate::row::<kernel_abi::ops::norm::NormProblem>(),
        crate::row::<kernel_abi::ops::pad::PadProblem>(),
        crate::row::<kernel_abi::ops::pointwise::PointwiseProblem>(),
        crate::row::<kernel_abi::ops::pool::PoolProblem>(),
        crate::row::<kernel_abi::ops::reduce::ReduceProblem>(),
        crate::row::<kernel_abi::ops::resample::ResampleProblem>(),
        crate::row::<kernel_abi::ops::sgd::SgdProblem>(),
        crate::row::<kernel_abi::ops::softmax::SoftmaxProblem>(),
        crate::row::<kernel_abi::ops::transform::TransformProblem>(),
        crate::row::<kernel_abi::ops::unpool::UnpoolProblem>(),
    ]
}
