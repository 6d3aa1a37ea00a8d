//! The ordered list of padding algorithms.

use super::{PadProblem, cpu, gradient, naive, packed, packed_gradient, rows};
use crate::DType;
use crate::cpu::CpuAlgorithm;
use crate::microbatch::BatchSplit;
use crate::operators::Operation;
use crate::select::{Algorithm, Refusal};

#[allow(private_interfaces)]
impl Operation for PadProblem {
    const PASSES: &'static [&'static str] = &["forward", "backward"];
    const DTYPES: &'static [DType] = &DType::ALL;

    fn algorithms() -> &'static [&'static dyn Algorithm<Self>] {
        &[
            &CpuAlgorithm(cpu::Rows),
            &rows::Rows,
            &packed::Packed,
            &gradient::Gradient,
            &packed_gradient::PackedGradient,
            &naive::Naive,
        ]
    }

    fn batch_split(&self) -> Result<BatchSplit, Refusal> {
        match self.axes().next() {
            Some(first) if first.before == 0 && first.step == 1 && self.x().dims()[0] == self.y().dims()[0] => {
                BatchSplit::along_first(self)
            }
            _ => Err(Refusal::new("moves the images of the batch themselves")),
        }
    }
}
