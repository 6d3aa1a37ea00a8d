//! Pointwise operations on the CPU: one task a few rows of the innermost dimension, all steps for a piece of a row before
//! the next.

use super::cpu_operation::apply;
use super::{Argument, PointwisePass, PointwiseProblem, StepOp, cpu_integers};
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::{Element, Real};
use crate::{DType, TensorDesc};
use kernel_abi::Cast;
use rayon::prelude::*;

/// Row by row, so that repetition of an input costs one index computation a row.
#[derive(Clone, Copy)]
pub(super) struct Rows;

/// Elements that are worth a task of their own.
const TASK_ELEMS: usize = 1 << 13;

/// Elements that go through all steps at a time.
const PIECE: usize = 256;

impl CpuKernel<PointwiseProblem> for Rows {
    const NAME: &'static str = "cpu_rows";

    fn slowness(_: &PointwiseProblem) -> f64 {
        2.0
    }

    fn compute<A: Real>(problem: &PointwiseProblem, call: CpuCall<'_, A>) {
        compute(problem, call, A::real, |x, y| x * y, apply);
    }

    fn is_integral(problem: &PointwiseProblem) -> bool {
        problem.computing() == DType::I64
    }

    fn compute_integers(problem: &PointwiseProblem, call: CpuCall<'_, i64>) {
        compute(problem, call, |value| value as i64, i64::wrapping_mul, cpu_integers::apply);
    }

    fn cast(problem: &PointwiseProblem) -> Cast {
        problem.cast()
    }
}

/// With a number of the text, a product and the operation on slices.
fn compute<A: Element>(
    problem: &PointwiseProblem,
    call: CpuCall<'_, A>,
    real: impl Fn(f64) -> A + Sync,
    times: impl Fn(A, A) -> A + Sync,
    apply: impl Fn(&StepOp, bool, [&[A]; 3], &mut [A]) + Sync,
) {
    {
        let CpuCall { inputs, mut outputs, .. } = call;
        let width = problem.c().dims()[problem.c().rank() - 1] as usize;
        let strided: Vec<TensorDesc> =
            problem.inputs().iter().map(|desc| problem.repeated(&desc.to_packed())).collect();
        let rows = TASK_ELEMS.div_ceil(width);
        outputs[0].par_chunks_mut(rows * width).enumerate().for_each(|(task, c)| {
            for (i, c) in c.chunks_mut(width).enumerate() {
                let first = ((task * rows + i) * width) as i64;
                let row = |input: usize| Row {
                    data: &inputs[input][strided[input].offset_of(first) as usize..],
                    stride: strided[input].strides()[strided[input].rank() - 1] as usize,
                    factor: real(problem.factor(input)),
                    times: &times,
                };
                for (piece, c) in c.chunks_mut(PIECE).enumerate() {
                    compute_piece(problem, &row, first, piece * PIECE, c, &real, &apply);
                }
            }
        });
    }
}

/// The part of an output's row that begins at `start`; the row begins at element `first`.
fn compute_piece<'a, A: Element, M: Fn(A, A) -> A + 'a>(
    problem: &PointwiseProblem,
    row: &impl Fn(usize) -> Row<'a, A, M>,
    first: i64,
    start: usize,
    c: &mut [A],
    real: &impl Fn(f64) -> A,
    apply: &impl Fn(&StepOp, bool, [&[A]; 3], &mut [A]),
) {
    let mut arguments = [[A::from_f64(0.0); PIECE]; 3];
    let n = c.len();
    if !problem.inputs().is_empty() {
        row(0).read(start, c);
    }
    for step in problem.steps() {
        for (given, values) in step.arguments().iter().zip(&mut arguments) {
            match *given {
                Argument::Running => values[..n].copy_from_slice(c),
                Argument::Input(input) => row(input).read(start, &mut values[..n]),
                Argument::Number(number) => values[..n].fill(real(number.get())),
            }
        }
        let [x, y, z] = &arguments;
        match (step.op(), step.arguments()) {
            (StepOp::Pointwise(PointwisePass::GenIndex), [Argument::Number(axis)]) => {
                let (axis, dims) = (axis.get() as usize, problem.c().dims());
                let inner: i64 = dims[axis + 1..].iter().product();
                for (i, c) in c.iter_mut().enumerate() {
                    *c = real(((first + (start + i) as i64) / inner % dims[axis]) as f64);
                }
            }
            (op, _) => apply(op, problem.is_integral(), [&x[..n], &y[..n], &z[..n]], c),
        }
    }
}

/// A row of an input.
struct Row<'a, A, M> {
    data: &'a [A],
    stride: usize,
    factor: A,
    times: &'a M,
}

impl<A: Element, M: Fn(A, A) -> A> Row<'_, A, M> {
    /// Its elements from `start` on.
    fn read(&self, start: usize, values: &mut [A]) {
        for (i, value) in values.iter_mut().enumerate() {
            *value = (self.times)(self.factor, self.data[(start + i) * self.stride]);
        }
    }
}
