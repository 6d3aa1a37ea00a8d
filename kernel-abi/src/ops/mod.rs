//! The operators: one folder each.

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

/// Layout hashes of every launch-parameter struct, in a fixed order (see [`crate::abi_fingerprint`]).
pub const LAYOUT_HASHES: &[u64] = &[
    crate::epilogue::EpilogueSumsParams::LAYOUT_HASH,
    crate::epilogue::SeparateEpilogueParams::LAYOUT_HASH,
    activation::ActivationParams::LAYOUT_HASH,
    adam::AdamListParams::LAYOUT_HASH,
    adam::AdamParams::LAYOUT_HASH,
    adam::AdamStep::LAYOUT_HASH,
    affinegrid::AffineGridParams::LAYOUT_HASH,
    bias::BiasParams::LAYOUT_HASH,
    conv::ConvParams::LAYOUT_HASH,
    conv::ConvPackRowsParams::LAYOUT_HASH,
    conv::ConvPackSpreadParams::LAYOUT_HASH,
    conv::padded_channels::ConvPadParams::LAYOUT_HASH,
    conv::pointwise_lanes::ConvPointwiseLanesParams::LAYOUT_HASH,
    conv::ConvStridedPlanesParams::LAYOUT_HASH,
    conv::ConvWindowsParams::LAYOUT_HASH,
    conv::fft::ConvFftTilesParams::LAYOUT_HASH,
    conv::fft::ConvFftFilterParams::LAYOUT_HASH,
    conv::f32_wgmma::ConvPartsGatherParams::LAYOUT_HASH,
    conv::f32_wgmma::ConvFilterSource::LAYOUT_HASH,
    conv::f32_wgmma::ConvPartsDirectParams::LAYOUT_HASH,
    conv::f32_wgmma::ConvPartsWindowsParams::LAYOUT_HASH,
    conv::f32_wgmma::ConvFilterPartsParams::LAYOUT_HASH,
    conv::f32_wgmma::ConvPackF32Params::LAYOUT_HASH,
    conv::cp_async_mma::CpAsyncMmaParams::LAYOUT_HASH,
    conv::ffma::ConvFfmaParams::LAYOUT_HASH,
    conv::ffma::ConvFfmaWgradParams::LAYOUT_HASH,
    conv::depthwise_planes::ConvDepthwisePlanesParams::LAYOUT_HASH,
    conv::depthwise_tma::ConvDepthwiseTmaParams::LAYOUT_HASH,
    conv::diagonal_mma::ConvDiagonalParams::LAYOUT_HASH,
    conv::grouped_mma::GroupedMmaParams::LAYOUT_HASH,
    conv::grouped_mma::SplitReduceParams::LAYOUT_HASH,
    conv::grouped_tma::ConvGroupedTmaParams::LAYOUT_HASH,
    conv::halo_wgmma::ConvHaloParams::LAYOUT_HASH,
    conv::halo_wgmma_split::ConvHaloWgradParams::LAYOUT_HASH,
    conv::im2col_wgmma::ConvGatherParams::LAYOUT_HASH,
    conv::im2col_wgmma::ConvStreamKParams::LAYOUT_HASH,
    conv::im2col_wgmma::ConvWgradParams::LAYOUT_HASH,
    conv::im2col_wgmma::ConvWgradSumParams::LAYOUT_HASH,
    conv::im2col_wgmma::ConvWgradFixupParams::LAYOUT_HASH,
    conv::kmajor_wgmma::ConvKMajorParams::LAYOUT_HASH,
    conv::merged_groups::ConvMergeParams::LAYOUT_HASH,
    conv::overlap_wgmma::OverlapParams::LAYOUT_HASH,
    conv::winograd::WinogradImageParams::LAYOUT_HASH,
    conv::winograd::WinogradFilterParams::LAYOUT_HASH,
    conv::winograd::WinogradOutputParams::LAYOUT_HASH,
    conv::DepthwiseParams::LAYOUT_HASH,
    crossentropy::CrossEntropyParams::LAYOUT_HASH,
    crossentropy::CrossEntropySumParams::LAYOUT_HASH,
    ctc::CtcParams::LAYOUT_HASH,
    dropout::DropoutParams::LAYOUT_HASH,
    gather::GatherListedParams::LAYOUT_HASH,
    gather::GatherParams::LAYOUT_HASH,
    gather::GatherRangesParams::LAYOUT_HASH,
    gather::GatherRowsParams::LAYOUT_HASH,
    gather::GatherSumParams::LAYOUT_HASH,
    gather::RowIndices::LAYOUT_HASH,
    gather::RowsTensor::LAYOUT_HASH,
    gridsample::GridSampleParams::LAYOUT_HASH,
    gridsample::GridSampleTileParams::LAYOUT_HASH,
    gridsample::Sampler::LAYOUT_HASH,
    lrn::LrnParams::LAYOUT_HASH,
    lrn::register_windows::LrnWindowsParams::LAYOUT_HASH,
    matmul::MatmulBlockParams::LAYOUT_HASH,
    matmul::MatmulKMajorParams::LAYOUT_HASH,
    matmul::MatmulPackParams::LAYOUT_HASH,
    matmul::MatmulParams::LAYOUT_HASH,
    matmul::MatmulPartialsParams::LAYOUT_HASH,
    matmul::MatmulTmaParams::LAYOUT_HASH,
    norm::NormFinalizeParams::LAYOUT_HASH,
    norm::NormParams::LAYOUT_HASH,
    norm::channelwise::ChannelwiseParams::LAYOUT_HASH,
    norm::resident_channels::ResidentChannelsParams::LAYOUT_HASH,
    norm::resident_planes::ResidentPlanesParams::LAYOUT_HASH,
    norm::row_registers::NormRowsParams::LAYOUT_HASH,
    norm::row_registers::NormColumnSumsParams::LAYOUT_HASH,
    pad::PadGradientParams::LAYOUT_HASH,
    pad::PadPackedParams::LAYOUT_HASH,
    pad::PadParams::LAYOUT_HASH,
    pad::PadRowsParams::LAYOUT_HASH,
    pointwise::PointwiseParams::LAYOUT_HASH,
    pointwise::PointwiseSpecializedParams::LAYOUT_HASH,
    pointwise::PointwiseStreamParams::LAYOUT_HASH,
    pool::PoolAxis::LAYOUT_HASH,
    pool::PoolParams::LAYOUT_HASH,
    pool::PoolPlaneParams::LAYOUT_HASH,
    pool::PoolRingRowsParams::LAYOUT_HASH,
    pool::PoolRowsMmaParams::LAYOUT_HASH,
    pool::PoolStripParams::LAYOUT_HASH,
    pool::PoolTileParams::LAYOUT_HASH,
    pool::PoolWholeParams::LAYOUT_HASH,
    pool::WindowAxis::LAYOUT_HASH,
    reduce::ReduceParams::LAYOUT_HASH,
    reduce::ReducePartsParams::LAYOUT_HASH,
    resample::ResampleAxis::LAYOUT_HASH,
    resample::ResampleFilter::LAYOUT_HASH,
    resample::ResampleGivenParams::LAYOUT_HASH,
    resample::ResampleParams::LAYOUT_HASH,
    resample::ResampleSeparableParams::LAYOUT_HASH,
    resample::ResampleTableParams::LAYOUT_HASH,
    sgd::SgdListParams::LAYOUT_HASH,
    sgd::SgdParams::LAYOUT_HASH,
    sgd::SgdStep::LAYOUT_HASH,
    softmax::SoftmaxLanesParams::LAYOUT_HASH,
    softmax::SoftmaxParams::LAYOUT_HASH,
    softmax::SoftmaxRingsParams::LAYOUT_HASH,
    transform::PermuteParams::LAYOUT_HASH,
    transform::TransformParams::LAYOUT_HASH,
    transform::TransposeParams::LAYOUT_HASH,
    unpool::UnpoolParams::LAYOUT_HASH,
    crate::ChannelTensor::LAYOUT_HASH,
    crate::store::StoreParams::LAYOUT_HASH,
    crate::tensor_list::TensorList::LAYOUT_HASH,
];
