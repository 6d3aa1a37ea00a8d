//! Max unpooling on the CPU: one task a channel of an image.

use super::{UnpoolPass, UnpoolProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::Real;
use kernel_abi::ops::pool::{PoolAxis, first_place, place};
use rayon::prelude::*;

/// One task a channel of an image.
#[derive(Clone, Copy)]
pub(super) struct Planes;

impl CpuKernel<UnpoolProblem> for Planes {
    const NAME: &'static str = "cpu_planes";

    fn compute<A: Real>(problem: &UnpoolProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let shape = problem.shape();
        let axes = &shape.axes;
        let base = |plane: usize| {
            let (n, c) = (plane as i64 / shape.c, plane as i64 % shape.c);
            first_place(axes, problem.index_base() as u32, shape.c, n, c)
        };
        let pixels = axes.iter().map(|axis| axis.image as usize).product();
        let positions = axes.iter().map(|axis| axis.output as usize).product();
        match problem.unpool_pass() {
            UnpoolPass::Forward => outputs[0]
                .par_chunks_mut(pixels)
                .zip(inputs[0].par_chunks(positions))
                .zip(inputs[1].par_chunks(positions))
                .enumerate()
                .for_each(|(plane, ((y, x), index))| {
                    y.fill(A::zero());
                    for_each_named(axes, index, base(plane), |o, at| {
                        if let Some(at) = at {
                            y[at] = x[o];
                        }
                    });
                }),
            UnpoolPass::Backward => outputs[0]
                .par_chunks_mut(positions)
                .zip(inputs[0].par_chunks(pixels))
                .zip(inputs[1].par_chunks(positions))
                .enumerate()
                .for_each(|(plane, ((dx, dy), index))| {
                    for_each_named(axes, index, base(plane), |o, at| dx[o] = at.map_or(A::zero(), |at| dy[at]));
                }),
        }
    }
}

/// Calls `body` with each output's number and the place in the plane that its index names, if its window holds it.
fn for_each_named<A: Real>(axes: &[PoolAxis; 3], index: &[A], base: i64, mut body: impl FnMut(usize, Option<usize>)) {
    let mut o = 0;
    for z in 0..axes[0].output {
        for p in 0..axes[1].output {
            for q in 0..axes[2].output {
                let output = [z, p, q];
                // Integers of 64 bits come as f64, which has all that number an element of a tensor.
                let number = index[o].to_i64().unwrap_or(-1).wrapping_sub(base);
                let at = [
                    number.div_euclid(axes[1].image * axes[2].image),
                    number.div_euclid(axes[2].image).rem_euclid(axes[1].image),
                    number.rem_euclid(axes[2].image),
                ];
                let held = (0..3).all(|a| {
                    let (begin, end) = axes[a].window(output[a]);
                    (begin..end).contains(&at[a]) && axes[a].holds(output[a], at[a])
                });
                body(o, held.then(|| place(axes, at) as usize));
                o += 1;
            }
        }
    }
}
