//! Gathering on the CPU: what lies before the axis is shared out over threads.

use super::{GatherPass, GatherProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::{Element, Real};
use kernel_abi::ops::gather::row_of;
use rayon::prelude::*;

/// Copies rows; backward, adds them one after the other.
#[derive(Clone, Copy)]
pub(super) struct Rows;

impl CpuKernel<GatherProblem> for Rows {
    const NAME: &'static str = "cpu_rows";

    fn compute<A: Real>(problem: &GatherProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let forward = problem.gather_pass() == GatherPass::Forward;
        let (rows, axis) = (problem.x().dims()[problem.axis()], problem.axis());
        let width = problem.x().dims()[axis + 1..].iter().product::<i64>() as usize;
        let (indices, given) = if forward { (inputs[1], inputs[0]) } else { (inputs[0], inputs[1]) };
        let [x_slab, y_slab] = [rows as usize, indices.len()].map(|rows| rows * width);
        // Indices are integers, which are computed with in f64: exact.
        let row = |index: &A| usize::try_from(row_of(Element::to_f64(*index) as i64, rows)).ok();
        if forward {
            outputs[0].par_chunks_mut(y_slab).zip(given.par_chunks(x_slab)).for_each(|(y, x)| {
                for (y, index) in y.chunks_mut(width).zip(indices) {
                    match row(index) {
                        Some(row) => y.copy_from_slice(&x[row * width..][..width]),
                        None => y.fill(A::zero()),
                    }
                }
            });
        } else {
            outputs[0].par_chunks_mut(x_slab).zip(given.par_chunks(y_slab)).for_each(|(dx, dy)| {
                dx.fill(A::zero());
                for (dy, index) in dy.chunks(width).zip(indices) {
                    let Some(row) = row(index) else { continue };
                    dx[row * width..][..width].iter_mut().zip(dy).for_each(|(dx, &dy)| *dx = *dx + dy);
                }
            });
        }
    }
}
