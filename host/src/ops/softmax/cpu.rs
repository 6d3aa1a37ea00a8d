//! Softmax on the CPU: one task an image.

use super::{SoftmaxKind, SoftmaxProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::sum::sum;
use crate::tensor::{Element, Real};
use rayon::prelude::*;

/// One task an image; within it, rows one after another.
#[derive(Clone, Copy)]
pub(super) struct Rows;

impl CpuKernel<SoftmaxProblem> for Rows {
    const NAME: &'static str = "cpu_rows";

    fn slowness(_: &SoftmaxProblem) -> f64 {
        8.0
    }

    fn compute<A: Real>(problem: &SoftmaxProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let rows = problem.rows();
        let (elems, inner) = (rows.row_elems as usize, rows.inner_rows as usize);
        let image = elems * inner;
        let kind = problem.kind();
        let out = outputs[0].par_chunks_mut(image).zip(inputs[0].par_chunks(image));
        match inputs.get(1) {
            None => out.for_each(|(y, x)| {
                for row in 0..inner {
                    forward(kind, x, y, || (0..elems).map(move |e| e * inner + row));
                }
            }),
            Some(dy) => out.zip(dy.par_chunks(image)).for_each(|((dx, y), dy)| {
                for row in 0..inner {
                    backward(kind, y, dy, dx, || (0..elems).map(move |e| e * inner + row));
                }
            }),
        }
    }
}

fn forward<A: Real, I: Iterator<Item = usize>>(kind: SoftmaxKind, x: &[A], y: &mut [A], row: impl Fn() -> I) {
    let max = match kind {
        SoftmaxKind::Fast => A::zero(),
        SoftmaxKind::Accurate | SoftmaxKind::Log => {
            // A NaN is lost here and found again in the sum.
            row().fold(A::neg_infinity(), |max, i| if x[i] > max { x[i] } else { max })
        }
    };
    let sum = A::real(sum(row().map(|i| Element::to_f64((x[i] - max).exp()))));
    let shift = sum.ln();
    row().for_each(|i| {
        y[i] = match kind {
            SoftmaxKind::Fast | SoftmaxKind::Accurate => (x[i] - max).exp() / sum,
            SoftmaxKind::Log => x[i] - max - shift,
        }
    });
}

fn backward<A: Real, I: Iterator<Item = usize>>(
    kind: SoftmaxKind,
    y: &[A],
    dy: &[A],
    dx: &mut [A],
    row: impl Fn() -> I,
) {
    match kind {
        SoftmaxKind::Fast | SoftmaxKind::Accurate => {
            let sum = A::real(sum(row().map(|i| Element::to_f64(y[i]) * Element::to_f64(dy[i]))));
            row().for_each(|i| dx[i] = y[i] * (dy[i] - sum));
        }
        SoftmaxKind::Log => {
            let sum = A::real(sum(row().map(|i| Element::to_f64(dy[i]))));
            row().for_each(|i| dx[i] = dy[i] - y[i].exp() * sum);
        }
    }
}
