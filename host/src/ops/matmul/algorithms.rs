//! The ordered list of matmul algorithms.

use super::{MatmulProblem, bf16x3_wgmma, cp_async_mma, cpu, ffma, kmajor_wgmma, naive, tma_wgmma};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::epilogue::SeparateEpilogue;
use crate::microbatch::{BatchSplit, Share};
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};

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
            &cp_async_mma::CP_ASYNC_MMA,
            &SeparateEpilogue,
            &ffma::FFMA,
            &naive::Naive,
        ]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        // Without batch dimensions, rows of a are the images of a layer.
        let rows = self.batch_dims().is_empty();
        let transposed = self.desc().transpose_a;
        BatchSplit::new(self, |operand| match operand.name {
            "bias" => Share::Whole,
            "b" if rows => Share::Whole,
            "a" if rows && transposed => Share::Along(1),
            _ => Share::Along(0),
        })
    }
}
