//! Padding on the CPU, row by row of y.

use super::{PadPass, PadProblem};
use crate::DType;
use crate::cpu::{CpuCall, CpuKernel};
use crate::sum::{Integers, Reals, Scattered};
use crate::tensor::{Element, Real};
use kernel_abi::Cast;
use rayon::prelude::*;

/// One task a row forward; backward, rows add to dx one after the other.
#[derive(Clone, Copy)]
pub(super) struct Rows;

impl CpuKernel<PadProblem> for Rows {
    const NAME: &'static str = "cpu_rows";

    fn slowness(_: &PadProblem) -> f64 {
        4.0
    }

    fn compute<A: Real>(problem: &PadProblem, call: CpuCall<'_, A>) {
        compute::<A, Reals<A>>(problem, call, A::real(problem.filling()));
    }

    fn is_integral(problem: &PadProblem) -> bool {
        problem.computing() == DType::I64
    }

    fn compute_integers(problem: &PadProblem, call: CpuCall<'_, i64>) {
        compute::<i64, Integers>(problem, call, problem.filling() as i64);
    }

    fn cast(_: &PadProblem) -> Cast {
        Cast::PLAIN
    }
}

/// With sums `S`.
fn compute<A: Element, S: Scattered<A>>(problem: &PadProblem, call: CpuCall<'_, A>, filling: A) {
    {
        let CpuCall { inputs, mut outputs, .. } = call;
        let axes: Vec<_> = problem.axes().collect();
        let Some((last, outer)) = axes.split_last() else { return };
        let mode = problem.mode() as u32;
        // Where a row of y lies in x, unless it is outside.
        let row_of = |row: usize| {
            let (mut rest, mut at, mut stride) = (row as i64, 0, last.x);
            for axis in outer.iter().rev() {
                let source = axis.source(mode, rest % axis.y);
                if source < 0 {
                    return None;
                }
                at += source * stride;
                stride *= axis.x;
                rest /= axis.y;
            }
            Some(at)
        };
        let within = |i: usize| last.source(mode, i as i64);
        let width = last.y as usize;
        match problem.pad_pass() {
            PadPass::Forward => outputs[0].par_chunks_mut(width).enumerate().for_each(|(row, y)| {
                let from = row_of(row);
                for (i, y) in y.iter_mut().enumerate() {
                    let at = from.filter(|_| within(i) >= 0).map(|from| from + within(i));
                    *y = at.map_or_else(|| filling, |at| inputs[0][at as usize]);
                }
            }),
            PadPass::Backward => {
                let mut sums = S::new(outputs[0].len());
                for (row, dy) in inputs[0].chunks(width).enumerate() {
                    let Some(to) = row_of(row) else { continue };
                    for (i, &dy) in dy.iter().enumerate().filter(|(i, _)| within(*i) >= 0) {
                        sums.add((to + within(i)) as usize, dy);
                    }
                }
                sums.finish(outputs[0]);
            }
        }
    }
}
