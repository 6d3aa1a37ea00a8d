//! The ordered list of convolution algorithms.

use super::{
    ConvProblem, bf16x3_wgmma, cp_async_mma, cpu_direct, cpu_gemm, depthwise, ffma, grouped_mma, im2col_wgmma, naive,
    packed_rows, spread_columns,
};
use crate::DType;
use crate::cpu::CpuAlgorithm;
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
            &im2col_wgmma::Gather,
            &im2col_wgmma::Wgrad,
            &bf16x3_wgmma::Gather,
            &bf16x3_wgmma::Wgrad,
            &depthwise::Depthwise,
            &packed_rows::PackedRows,
            &spread_columns::SpreadColumns,
            &ffma::Ffma,
            &naive::Naive,
        ]
    }
}
