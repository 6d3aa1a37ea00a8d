//! Gathering on the CPU: what lies before the axis is shared out over threads.

use super::{GatherPass, GatherProblem};
use crate::DType;
use crate::cpu::{CpuCall, CpuKernel};
use crate::sum::{Integers, Reals, Scattered};
use crate::tensor::{Element, Real};
use kernel_abi::Cast;
use kernel_abi::ops::gather::row_of;
use rayon::prelude::*;

/// Copies rows; backward, adds them in the order of the indices.
#[derive(Clone, Copy)]
pub(super) struct Rows;

impl CpuKernel<GatherProblem> for Rows {
    const NAME: &'static str = "cpu_rows";

    fn compute<A: Real>(problem: &GatherProblem, call: CpuCall<'_, A>) {
        compute::<A, Reals<A>>(problem, call);
    }

    fn is_integral(problem: &GatherProblem) -> bool {
        problem.computing() == DType::I64
    }

    fn compute_integers(problem: &GatherProblem, call: CpuCall<'_, i64>) {
        compute::<i64, Integers>(problem, call);
    }

    fn cast(_: &GatherProblem) -> Cast {
        Cast::PLAIN
    }
}

/// With sums `S`.
fn compute<A: Element, S: Scattered<A>>(problem: &GatherProblem, call: CpuCall<'_, A>) {
    {
        let CpuCall { inputs, mut outputs, .. } = call;
        let forward = problem.gather_pass() == GatherPass::Forward;
        let (rows, axis) = (problem.x().dims()[problem.axis()], problem.axis());
        let width = problem.x().dims()[axis + 1..].iter().product::<i64>() as usize;
        let (indices, given) = if forward { (inputs[1], inputs[0]) } else { (inputs[0], inputs[1]) };
        let [x_slab, y_slab] = [rows as usize, indices.len()].map(|rows| rows * width);
        // Indices are integers.
        let row = |index: &A| usize::try_from(row_of(index.to_integer(), rows)).ok();
        if forward {
            outputs[0].par_chunks_mut(y_slab).zip(given.par_chunks(x_slab)).for_each(|(y, x)| {
                for (y, index) in y.chunks_mut(width).zip(indices) {
                    match row(index) {
                        Some(row) => y.copy_from_slice(&x[row * width..][..width]),
                        None => y.fill(A::from_f64(0.0)),
                    }
                }
            });
        } else {
            outputs[0].par_chunks_mut(x_slab).zip(given.par_chunks(y_slab)).for_each(|(dx, dy)| {
                let mut sums = S::new(dx.len());
                for (dy, index) in dy.chunks(width).zip(indices) {
                    let Some(row) = row(index) else { continue };
                    dy.iter().enumerate().for_each(|(i, &dy)| sums.add(row * width + i, dy));
                }
                sums.finish(dx);
            });
        }
    }
}
