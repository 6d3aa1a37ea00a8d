//! Affine grids on the CPU: one task an image.

use super::{AffineGridPass, AffineGridProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::sum::{Reals, Scattered};
use crate::tensor::Real;
use kernel_abi::ops::affinegrid::coordinate;
use rayon::prelude::*;

/// One task an image.
#[derive(Clone, Copy)]
pub(super) struct Images;

impl CpuKernel<AffineGridProblem> for Images {
    const NAME: &'static str = "cpu_images";

    fn compute<A: Real>(problem: &AffineGridProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let n_axes = problem.theta().dims()[1] as usize;
        let (matrix, image) = (n_axes * (n_axes + 1), problem.extents().iter().product::<i64>() as usize * n_axes);
        match problem.grid_pass() {
            AffineGridPass::Forward => {
                outputs[0].par_chunks_mut(image).zip(inputs[0].par_chunks(matrix)).for_each(|(grid, theta)| {
                    for (position, place) in grid.chunks_mut(n_axes).enumerate() {
                        let e = coordinates::<A>(problem, position);
                        for (place, row) in place.iter_mut().zip(theta.chunks(n_axes + 1)) {
                            let sum = row[..n_axes].iter().zip(&e).map(|(theta, e)| *theta * *e).sum::<A>();
                            *place = sum + row[n_axes];
                        }
                    }
                });
            }
            AffineGridPass::Backward => {
                outputs[0].par_chunks_mut(matrix).zip(inputs[0].par_chunks(image)).for_each(|(dtheta, dgrid)| {
                    let mut sums = Reals::new(matrix);
                    for (position, dplace) in dgrid.chunks(n_axes).enumerate() {
                        let e = coordinates::<A>(problem, position);
                        for (row, dplace) in dplace.iter().enumerate().map(|(i, dplace)| (i * (n_axes + 1), *dplace)) {
                            (0..n_axes).for_each(|j| sums.add(row + j, dplace * e[j]));
                            sums.add(row + n_axes, dplace);
                        }
                    }
                    sums.finish(dtheta);
                });
            }
        }
    }
}

/// The normalized coordinates of a position, by its row-major number: column, row, plane.
fn coordinates<A: Real>(problem: &AffineGridProblem, position: usize) -> [A; 3] {
    let [depth, height, width] = problem.extents();
    let position = position as i64;
    let along = |at: i64, extent: i64| A::real(coordinate(at, extent, problem.align_corners()));
    [along(position % width, width), along(position / width % height, height), along(position / width / height, depth)]
}
