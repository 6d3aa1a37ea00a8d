//! The ordered list of resampling algorithms.

use super::{ResampleProblem, channel_vectors, cpu, given_tables, naive, separable, tables};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::BatchSplit;
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};

#[allow(private_interfaces)]
impl Operation for ResampleProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward"];
    const DTYPES: &'static [DType] = &DType::GENERAL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[
            &CpuAlgorithm(cpu::Planes),
            &separable::Separable,
            &given_tables::GivenTables,
            &channel_vectors::ChannelVectors,
            &tables::Tables,
            &naive::Naive,
        ]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        BatchSplit::along_first(self)
    }
}
