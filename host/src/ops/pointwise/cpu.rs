//! Pointwise operations on the CPU: one task a few rows of the innermost dimension.

use super::{PointwisePass, PointwiseProblem};
use crate::TensorDesc;
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::Real;
use rayon::prelude::*;

/// Row by row, so that repetition of an input costs one index computation a row.
#[derive(Clone, Copy)]
pub(super) struct Rows;

/// Elements that are worth a task of their own.
const TASK_ELEMS: usize = 1 << 13;

impl CpuKernel<PointwiseProblem> for Rows {
    const NAME: &'static str = "cpu_rows";

    fn compute<A: Real>(problem: &PointwiseProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let width = problem.c().dims()[problem.c().rank() - 1] as usize;
        let mut strided = problem.inputs().map(|desc| problem.repeated(&desc.to_packed()));
        let descs = [strided.next(), strided.next()];
        let (alpha_a, alpha_b) = problem.alphas();
        let (alpha_a, alpha_b) = (A::real(alpha_a), A::real(alpha_b));
        let rows = TASK_ELEMS.div_ceil(width);
        outputs[0].par_chunks_mut(rows * width).enumerate().for_each(|(task, c)| {
            for (i, c) in c.chunks_mut(width).enumerate() {
                let first = ((task * rows + i) * width) as i64;
                let a = Row::new(&descs[0], inputs.first(), first);
                let b = Row::new(&descs[1], inputs.get(1), first);
                let (a, b) = (|j| alpha_a * a.at(j), |j| alpha_b * b.at(j));
                let set = |result: &dyn Fn(usize) -> A, c: &mut [A]| {
                    c.iter_mut().enumerate().for_each(|(j, c)| *c = result(j));
                };
                match problem.pointwise_pass() {
                    PointwisePass::Add => c.iter_mut().enumerate().for_each(|(j, c)| *c = a(j) + b(j)),
                    PointwisePass::Mul => c.iter_mut().enumerate().for_each(|(j, c)| *c = a(j) * b(j)),
                    PointwisePass::Scale => c.iter_mut().enumerate().for_each(|(j, c)| *c = a(j)),
                    PointwisePass::Min => set(&|j| smaller(a(j), b(j)), c),
                    PointwisePass::Max => set(&|j| -smaller(-a(j), -b(j)), c),
                    PointwisePass::Sqrt => set(&|j| a(j).sqrt(), c),
                    PointwisePass::Not => set(&|j| A::one() - a(j), c),
                    PointwisePass::Set => c.fill(A::real(problem.value())),
                }
            }
        });
    }
}

/// The smaller; NaN if either is.
fn smaller<A: Real>(a: A, b: A) -> A {
    if a < b || a.is_nan() { a } else { b }
}

/// A row of an input.
struct Row<'a, A> {
    data: &'a [A],
    stride: usize,
}

impl<'a, A: Real> Row<'a, A> {
    /// The row whose first element meets element `first` of the output; an empty one where there is no such input.
    fn new(desc: &Option<TensorDesc>, data: Option<&&'a [A]>, first: i64) -> Self {
        match (desc, data) {
            (Some(desc), Some(data)) => {
                let stride = desc.strides()[desc.rank() - 1] as usize;
                Row { data: &data[desc.offset_of(first) as usize..], stride }
            }
            _ => Row { data: &[], stride: 0 },
        }
    }

    fn at(&self, i: usize) -> A {
        self.data[i * self.stride]
    }
}
