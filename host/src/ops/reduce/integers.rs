//! Reduction of integers on the CPU, exact and wrapping: one task some results.

use super::{ReducePass, ReduceProblem};
use crate::cpu::CpuCall;
use kernel_abi::cast::quotient;
use kernel_abi::desc::collapse_dims;
use kernel_abi::{MAX_RANK, TensorParam};
use rayon::prelude::*;

/// y, and the indices, from x.
pub(super) fn compute(problem: &ReduceProblem, call: CpuCall<'_, i64>) {
    let CpuCall { inputs, mut outputs, .. } = call;
    let x = problem.x().to_packed();
    let (kept, reduced) = problem.split_dims();
    let [_, first] = collapse_dims([&problem.y().to_packed(), &x], &kept);
    let [within] = collapse_dims([&x], &reduced);
    let offset = |param: &TensorParam, linear: i64| {
        let (mut rest, mut offset) = (linear, 0);
        for (dim, stride) in param.dims.iter().zip(&param.strides).rev() {
            offset += rest % dim * stride;
            rest /= dim;
        }
        offset as usize
    };
    let (n, values) = (problem.n_reduced(), inputs[0]);
    let (run, step) = (within.dims[MAX_RANK - 1], within.strides[MAX_RANK - 1].max(1) as usize);
    let value = |output: usize| {
        let first = offset(&first, output as i64);
        let run_at = |i: i64| &values[first + offset(&within, i * run)..];
        let elements = (0..n / run).flat_map(|i| run_at(i).iter().step_by(step).take(run as usize).copied());
        reduce(problem.reduce_pass(), n, elements)
    };
    match &mut outputs[..] {
        [y] => y.par_iter_mut().enumerate().for_each(|(i, y)| *y = value(i).0),
        [y, indices] => y.par_iter_mut().zip(indices.par_iter_mut()).enumerate().for_each(|(i, (y, index))| {
            (*y, *index) = value(i);
        }),
        _ => {}
    }
}

/// The result of `n` elements, and the index of it where it is one of them.
fn reduce(pass: ReducePass, n: i64, elements: impl Iterator<Item = i64>) -> (i64, i64) {
    let result = match pass {
        ReducePass::Norm1 => elements.fold(0, |sum: i64, x| sum.wrapping_add(x.wrapping_abs())),
        ReducePass::SumSquare => elements.fold(0, |sum: i64, x| sum.wrapping_add(x.wrapping_mul(x))),
        ReducePass::Mul => elements.fold(1, i64::wrapping_mul),
        ReducePass::MulNoZeros => elements.filter(|&x| x != 0).fold(1, i64::wrapping_mul),
        // Towards 0.
        ReducePass::Avg => quotient(elements.fold(0, i64::wrapping_add), n),
        ReducePass::Min => return first_of(elements, |a, b| b < a),
        ReducePass::Max => return first_of(elements, |a, b| b > a),
        // The magnitude of the smallest number is beyond the largest: as one without a sign it is in order.
        ReducePass::Amax => return first_of(elements.map(i64::wrapping_abs), |a, b| b as u64 > a as u64),
        ReducePass::Add | ReducePass::Norm2 | ReducePass::LogSum | ReducePass::LogSumExp => {
            elements.fold(0, i64::wrapping_add)
        }
    };
    (result, 0)
}

/// The first element that none is ahead of.
fn first_of(elements: impl Iterator<Item = i64>, ahead: impl Fn(i64, i64) -> bool) -> (i64, i64) {
    let first = |best: (i64, i64), next: (i64, i64)| if ahead(best.0, next.0) { next } else { best };
    elements.zip(0..).reduce(first).unwrap_or((0, 0))
}
