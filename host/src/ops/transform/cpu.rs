//! Transform on the CPU: what surrounds every CPU algorithm already brings layouts and types together.

use super::TransformProblem;
use crate::DType;
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::Real;
use kernel_abi::Cast;

/// A copy between the packed forms.
#[derive(Clone, Copy)]
pub(super) struct Copy;

impl CpuKernel<TransformProblem> for Copy {
    const NAME: &'static str = "cpu_copy";

    fn compute<A: Real>(_: &TransformProblem, mut call: CpuCall<'_, A>) {
        call.outputs[0].copy_from_slice(call.inputs[0]);
    }

    fn is_integral(problem: &TransformProblem) -> bool {
        problem.accumulator() == DType::I64
    }

    fn compute_integers(_: &TransformProblem, mut call: CpuCall<'_, i64>) {
        call.outputs[0].copy_from_slice(call.inputs[0]);
    }

    fn cast(problem: &TransformProblem) -> Cast {
        problem.cast()
    }
}
