//! The ordered list of normalization algorithms.

use super::{
    NormProblem, channelwise, cpu, looped_rows, naive, resident_channels, resident_planes, ring_rows, row_registers,
};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::{BatchSplit, Share};
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};
use kernel_abi::ops::norm::{NormMode, NormPass};

#[allow(private_interfaces)]
impl Operation for NormProblem {
    const PASSES: &'static [&'static str] = &["forward", "inference", "backward", "finalize"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[
            &CpuAlgorithm(cpu::Rows),
            &row_registers::RowRegisters,
            &ring_rows::RingRows,
            &looped_rows::LoopedRows,
            &channelwise::Channelwise,
            &resident_channels::ResidentChannels,
            &resident_planes::ResidentPlanes,
            &naive::Naive,
        ]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        let across = matches!(self.mode(), NormMode::Batch | NormMode::PerActivation);
        match self.norm_pass() {
            NormPass::Finalize => return Err(Refusal::new("has no batch: its tensors are sums over one")),
            NormPass::Forward | NormPass::Backward if across => {
                let reason =
                    format!("takes statistics of all {} images in mode {}", self.x().dims()[0], self.mode().name());
                return Err(Refusal(reason));
            }
            _ => {}
        }
        if let NormMode::Layer { axis: 0 } | NormMode::Rms { axis: 0 } = self.mode() {
            return Err(Refusal::new("takes statistics of all dimensions, the first one too"));
        }
        BatchSplit::new(self, |operand| match operand.name {
            "scale" | "bias" | "running_mean" | "running_var" => Share::Whole,
            "dscale" | "dbias" => Share::Sum,
            _ => Share::Along(0),
        })
    }
}
