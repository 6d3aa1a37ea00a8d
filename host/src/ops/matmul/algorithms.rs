//! The ordered list of matmul algorithms.

use super::{MatmulProblem, bf16x3_wgmma, cp_async_mma, cpu, ffma, kmajor_wgmma, naive, tma_wgmma};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::epilogue::SeparateEpilogue;
use crate::operators::Operation;
use crate::select::Algorithm;

#[allow(private_interfaces)]
impl Operation for MatmulProblem {
    const PASSES: &'static [&'static str] = &["forward"];
    const DTYPES: &'static [DType] = &DType::ALL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[
            &CpuAlgorithm(cpu::Gemm),
            &tma_wgmma::TmaWgmma,
            &kmajor_wgmma::KMajorWgmma,
            &bf16x3_wgmma::Bf16x3Wgmma,
            &cp_async_mma::CpAsyncMma,
            &SeparateEpilogue,
            &ffma::Ffma,
            &naive::Naive,
        ]
    }
}
