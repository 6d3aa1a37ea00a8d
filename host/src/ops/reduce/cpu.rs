//! Reduction on the CPU: one task some results.

use super::{ReducePass, ReduceProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::Real;
use kernel_abi::desc::collapse_dims;
use kernel_abi::{MAX_RANK, TensorParam};
use rayon::prelude::*;

/// Each result by itself, in the order of its elements.
#[derive(Clone, Copy)]
pub(super) struct Outputs;

impl CpuKernel<ReduceProblem> for Outputs {
    const NAME: &'static str = "cpu_outputs";

    fn slowness(_: &ReduceProblem) -> f64 {
        4.0
    }

    fn compute<A: Real>(problem: &ReduceProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let x = problem.x().to_packed();
        let (kept, reduced) = problem.split_dims();
        // Row-major over the kept dimensions, which is y's own order, and over the reduced ones.
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
        let (n, x_values) = (problem.n_reduced(), inputs[0]);
        // Runs of neighbours: the innermost loop needs no arithmetic for its places.
        let (run, step) = (within.dims[MAX_RANK - 1], within.strides[MAX_RANK - 1].max(1) as usize);
        let value = |output: usize| {
            let first = offset(&first, output as i64);
            let run_at = |i: i64| &x_values[first + offset(&within, i * run)..];
            let elements = || (0..n / run).flat_map(|i| run_at(i).iter().step_by(step).take(run as usize).copied());
            reduce(problem.reduce_pass(), n, elements)
        };
        match &mut outputs[..] {
            [y] => y.par_iter_mut().enumerate().for_each(|(i, y)| *y = value(i).0),
            [y, indices] => y.par_iter_mut().zip(indices.par_iter_mut()).enumerate().for_each(|(i, (y, index))| {
                let (result, at) = value(i);
                *y = result;
                *index = A::real(at as f64);
            }),
            _ => {}
        }
    }
}

/// The result of `n` elements, and the index of it where it is one of them.
fn reduce<A: Real, I: Iterator<Item = A>>(pass: ReducePass, n: i64, elements: impl Fn() -> I) -> (A, i64) {
    let (zero, one) = (A::zero(), A::one());
    let sum = |term: &dyn Fn(A) -> A| elements().fold(zero, |sum, x| sum + term(x));
    let result = match pass {
        ReducePass::Add => sum(&|x| x),
        ReducePass::Avg => sum(&|x| x) / A::real(n as f64),
        ReducePass::Norm1 => sum(&|x| x.abs()),
        ReducePass::Norm2 => sum(&|x| x * x).sqrt(),
        ReducePass::SumSquare => sum(&|x| x * x),
        ReducePass::LogSum => sum(&|x| x).ln(),
        ReducePass::LogSumExp => {
            let largest = elements().fold(A::neg_infinity(), |a, b| if b > a || b.is_nan() { b } else { a });
            // Of nothing but -∞, and where one is ∞, the difference would be no number.
            let shift = if largest.is_infinite() { zero } else { largest };
            sum(&|x| (x - shift).exp()).ln() + shift
        }
        ReducePass::Mul => elements().fold(one, |product, x| product * x),
        ReducePass::MulNoZeros => elements().fold(one, |product, x| if x == zero { product } else { product * x }),
        ReducePass::Min => return first_of(elements(), |a, b| b < a),
        ReducePass::Max => return first_of(elements(), |a, b| b > a),
        ReducePass::Amax => return first_of(elements().map(|x| x.abs()), |a, b| b > a),
    };
    (result, 0)
}

/// The first element that none is ahead of, or the first NaN.
fn first_of<A: Real>(elements: impl Iterator<Item = A>, ahead: impl Fn(A, A) -> bool) -> (A, i64) {
    let mut best: Option<(A, i64)> = None;
    for (x, i) in elements.zip(0..) {
        match best {
            Some((a, _)) if a.is_nan() || !(x.is_nan() || ahead(a, x)) => {}
            _ => best = Some((x, i)),
        }
    }
    best.unwrap_or((A::nan(), 0))
}
