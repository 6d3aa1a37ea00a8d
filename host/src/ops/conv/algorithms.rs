//! The ordered list of convolution algorithms.

use super::{
    ConvPass, ConvProblem, cp_async_mma, cpu_direct, cpu_gemm, depthwise, depthwise_planes, depthwise_tma,
    diagonal_mma, explicit_gemm, f32_wgmma, ffma, fft, grouped_mma, grouped_tma, halo_wgmma, halo_wgmma_split,
    im2col_wgmma, kmajor_wgmma, merged_groups, naive, nchw_transposed, overlap_wgmma, packed_rows, padded_channels,
    pointwise_lanes, pointwise_matmul, pointwise_strided, provided, spread_columns, tf32x3_mma, winograd,
};
use crate::cpu::CpuAlgorithm;
use crate::epilogue::SeparateEpilogue;
use crate::microbatch::{BatchSplit, Share};
use crate::operators::Operation;
use crate::select::{Algorithm, Config, Refusal, Spread};
use crate::{Context, DType, Problem};

#[allow(private_interfaces)]
impl Operation for ConvProblem {
    const PASSES: &'static [&'static str] = &["fprop", "dgrad", "wgrad"];
    const DTYPES: &'static [DType] = &DType::ALL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[
            &CpuAlgorithm(cpu_gemm::CpuGemm),
            &CpuAlgorithm(cpu_direct::CpuDirect),
            &grouped_mma::GroupedMma,
            &grouped_tma::GroupedTma,
            &cp_async_mma::CpAsyncMma,
            &halo_wgmma::HaloWgmma,
            &halo_wgmma_split::HaloWgmmaSplit,
            &im2col_wgmma::Gather,
            &im2col_wgmma::Wgrad,
            &im2col_wgmma::Cluster,
            &im2col_wgmma::StreamK,
            &kmajor_wgmma::KMajorWgmma,
            &f32_wgmma::Gather,
            &f32_wgmma::Wgrad,
            &f32_wgmma::Direct,
            &f32_wgmma::Cluster,
            &winograd::Winograd(winograd::Tile::F4),
            &winograd::Winograd(winograd::Tile::F2),
            &depthwise::Depthwise,
            &depthwise_planes::DepthwisePlanes,
            &depthwise_tma::DepthwiseTma,
            &diagonal_mma::DiagonalMma,
            &overlap_wgmma::OverlapWgmma,
            &packed_rows::PackedRows,
            &padded_channels::PaddedChannels,
            &merged_groups::MergedGroups,
            &spread_columns::SpreadColumns,
            &pointwise_lanes::PointwiseLanes,
            &pointwise_matmul::PointwiseMatmul,
            &pointwise_strided::PointwiseStrided,
            &nchw_transposed::NchwTransposed,
            &SeparateEpilogue,
            &fft::Fft(fft::Cut::Tiles),
            &fft::Fft(fft::Cut::Whole),
            &explicit_gemm::ExplicitGemm,
            &tf32x3_mma::Tf32x3Mma,
            &ffma::Ffma,
            &provided::Provided,
            &naive::Naive,
        ]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        BatchSplit::new(self, |operand| match operand.name {
            "w" | "bias" => Share::Whole,
            // Channel sums are no sums of parts: they are stored as they are.
            "dw" | "sum" | "sum_squares" => Share::Sum,
            _ => Share::Along(0),
        })
    }
}

/// The spread of kernels that multiply zeros where a window lies over the padding, or in `dgrad` between positions of dy.
pub(super) fn padding_spread(problem: &ConvProblem) -> Spread {
    let shape = problem.shape();
    let meets_zeros = shape.axes.iter().zip(shape.filter).any(|(axis, taps)| {
        let padded = axis.padding != 0 || axis.padding_end != 0;
        match problem.conv_pass() {
            ConvPass::Fprop | ConvPass::Wgrad => padded,
            ConvPass::Dgrad => padded || axis.stride != 1 || taps != 1,
        }
    });
    if meets_zeros { Spread::Window } else { Spread::None }
}

/// The algorithm for channels-last tensors whose kernel a config names, for those that multiply through others.
pub(super) fn owner(config: Config) -> &'static dyn Algorithm<ConvProblem> {
    let names = |symbol: &str| symbol == config.0;
    if halo_wgmma::KERNELS.iter().any(|row| names(row.symbol)) {
        &halo_wgmma::HaloWgmma
    } else if halo_wgmma_split::KERNELS.iter().any(|row| names(row.0)) {
        &halo_wgmma_split::HaloWgmmaSplit
    } else if im2col_wgmma::KERNELS.iter().any(|row| names(row.symbol)) {
        &im2col_wgmma::Gather
    } else if im2col_wgmma::wgrad_row(config).is_some() {
        &im2col_wgmma::Wgrad
    } else {
        &im2col_wgmma::Cluster
    }
}

/// The configs of all these algorithms, or why there is none.
pub(super) fn configs_of(
    algorithms: &[&dyn Algorithm<ConvProblem>],
    problem: &ConvProblem,
    context: &Context,
) -> Result<Vec<Config>, Refusal> {
    let (mut found, mut reasons) = (Vec::new(), Vec::new());
    for algorithm in algorithms {
        if problem.epilogue().is_some() && !algorithm.takes_epilogues() {
            continue;
        }
        match algorithm.configs(problem, context) {
            Ok(configs) => found.extend(configs),
            Err(Refusal(reason)) => reasons.push(format!("{}: {reason}", algorithm.name())),
        }
    }
    if found.is_empty() { Err(Refusal(reasons.join("; "))) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configs_lead_to_the_algorithm_with_their_kernel() {
        assert_eq!(owner(Config(halo_wgmma::KERNELS[0].symbol)).name(), "halo_wgmma");
        assert_eq!(owner(Config(halo_wgmma_split::KERNELS[0].0)).name(), "halo_wgmma_split");
        assert_eq!(owner(Config(im2col_wgmma::KERNELS[0].symbol)).name(), "im2col_wgmma");
        assert_eq!(owner(Config(im2col_wgmma::WGRAD_KERNELS[0].symbol)).name(), "im2col_wgmma_split");
        assert_eq!(owner(Config("wgrad_im2col_wgmma_bf16_128x64_sm90+half")).name(), "im2col_wgmma_split");
        assert_eq!(owner(Config("convcluster_fprop_wgmma_bf16_64x64_sm90+cluster2")).name(), "im2col_wgmma_cluster");
    }
}
