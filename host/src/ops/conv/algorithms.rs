//! The ordered list of convolution algorithms.

use super::{
    ConvProblem, bf16x3_wgmma, cp_async_mma, cpu_direct, cpu_gemm, depthwise, ffma, grouped_mma, halo_wgmma,
    halo_wgmma_split, im2col_wgmma, kmajor_wgmma, naive, nchw_transposed, overlap_wgmma, packed_rows, padded_channels,
    pointwise_matmul, pointwise_strided, spread_columns, winograd,
};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::epilogue::SeparateEpilogue;
use crate::operators::Operation;
use crate::select::Algorithm;

#[allow(private_interfaces)]
impl Operation for ConvProblem {
    const PASSES: &'static [&'static str] = &["fprop", "dgrad", "wgrad"];
    const DTYPES: &'static [DType] = &DType::ALL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[
            &CpuAlgorithm(cpu_gemm::CpuGemm),
            &CpuAlgorithm(cpu_direct::CpuDirect),
            &grouped_mma::GroupedMma,
            &cp_async_mma::CpAsyncMma,
            &halo_wgmma::HaloWgmma,
            &halo_wgmma_split::HaloWgmmaSplit,
            &im2col_wgmma::Gather,
            &im2col_wgmma::Wgrad,
            &im2col_wgmma::Cluster,
            &kmajor_wgmma::KMajorWgmma,
            &bf16x3_wgmma::Gather,
            &bf16x3_wgmma::Wgrad,
            &winograd::Winograd,
            &depthwise::Depthwise,
            &overlap_wgmma::OverlapWgmma,
            &packed_rows::PackedRows,
            &padded_channels::PaddedChannels,
            &spread_columns::SpreadColumns,
            &pointwise_matmul::PointwiseMatmul,
            &pointwise_strided::PointwiseStrided,
            &nchw_transposed::NchwTransposed,
            &SeparateEpilogue,
            &ffma::Ffma,
            &naive::Naive,
        ]
    }
}
