//! The ordered list of softmax algorithms.

use super::{
    SoftmaxProblem, cluster_rings, cluster_rows, columns, cpu, lanes, looped_rows, naive, pairs, register_rows,
    resident_rows, split_rows, streamed_rows,
};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::BatchSplit;
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};

#[allow(private_interfaces)]
impl Operation for SoftmaxProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[
            &CpuAlgorithm(cpu::Rows),
            &lanes::Lanes,
            &register_rows::RegisterRows,
            &cluster_rows::ClusterRows,
            &streamed_rows::StreamedRows,
            &resident_rows::ResidentRows,
            &cluster_rings::ClusterRings,
            &looped_rows::LoopedRows,
            &split_rows::SplitRows,
            &pairs::Pairs,
            &columns::Columns,
            &naive::Naive,
        ]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        BatchSplit::along_first(self)
    }
}
