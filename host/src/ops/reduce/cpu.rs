//! Reduction on the CPU: one task some results, or some blocks of a long one's elements.

use super::{ReducePass, ReduceProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::sum::{Lanes, for_each_run, over_blocks, power_of_two_below};
use crate::tensor::{Element, Real};
use kernel_abi::desc::collapse_dims;
use kernel_abi::{MAX_RANK, TensorParam};
use rayon::prelude::*;

/// Each result by itself; its elements in blocks.
#[derive(Clone, Copy)]
pub(super) struct Outputs;

impl CpuKernel<ReduceProblem> for Outputs {
    const NAME: &'static str = "cpu_outputs";

    fn slowness(_: &ReduceProblem) -> f64 {
        4.0
    }

    fn is_integral(problem: &ReduceProblem) -> bool {
        problem.computing() == crate::DType::I64
    }

    fn compute_integers(problem: &ReduceProblem, call: CpuCall<'_, i64>) {
        super::integers::compute(problem, call);
    }

    fn cast(_: &ReduceProblem) -> kernel_abi::Cast {
        kernel_abi::Cast::PLAIN
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
        // Runs of neighbours: the innermost loop needs no arithmetic for its places.
        let (run, step) = (within.dims[MAX_RANK - 1], within.strides[MAX_RANK - 1].max(1) as usize);
        let value = |output: usize| {
            let x = &inputs[0][offset(&first, output as i64)..];
            let run_at = |i: usize| offset(&within, i as i64 * run);
            reduce(
                problem.reduce_pass(),
                &Elements { x, run_at, run: run as usize, step, n: problem.n_reduced() as usize },
            )
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

/// The elements of a result, in runs.
struct Elements<'a, A, P> {
    x: &'a [A],
    /// Where a run begins.
    run_at: P,
    run: usize,
    /// From one element of a run to the next.
    step: usize,
    n: usize,
}

impl<A: Real, P: Fn(usize) -> usize + Sync> Elements<'_, A, P> {
    /// All elements' terms, combined in an order that depends on their number alone.
    fn fold(
        &self,
        start: f64,
        term: impl Fn(A) -> f64 + Sync + Copy,
        join: impl Fn(f64, f64) -> f64 + Sync + Copy,
    ) -> f64 {
        let block = |range| {
            let mut lanes = Lanes::new(start, join);
            for_each_run(range, self.run, |i, within| {
                let x = &self.x[(self.run_at)(i)..];
                match self.step {
                    1 => lanes.push_slice(&x[within], term),
                    step => within.for_each(|j| lanes.push(term(x[j * step]))),
                }
            });
            lanes.finish()
        };
        over_blocks(self.n, &block, &join)
    }

    fn sum(&self, term: impl Fn(A) -> f64 + Sync + Copy) -> f64 {
        self.fold(0.0, term, |a, b| a + b)
    }

    fn largest(&self, term: impl Fn(A) -> f64 + Sync + Copy) -> f64 {
        self.fold(f64::NEG_INFINITY, term, |a, b| if b > a || b.is_nan() { b } else { a })
    }

    /// The sum as a number and the power of two that it is to be multiplied by, which is 1 but where finite terms
    /// overflow on the way.
    fn scaled_sum(&self, term: impl Fn(A) -> f64 + Sync + Copy) -> (f64, i32) {
        let sum = self.sum(term);
        if sum.is_finite() || !self.largest(|x| term(x).abs()).is_finite() {
            return (sum, 0);
        }
        let exponent = (self.n as f64).log2().ceil() as i32 + 1;
        let scale = 2f64.powi(-exponent);
        (self.sum(|x| term(x) * scale), exponent)
    }

    /// The root of the sum of squares, of which neither the sum nor a square leaves the range.
    fn norm2(&self) -> f64 {
        let squares = self.sum(|x| square(Element::to_f64(x)));
        // Below, squares of elements that count may have lost digits.
        if squares.is_nan() || (squares.is_finite() && squares >= 2f64.powi(-900)) {
            return squares.sqrt();
        }
        let largest = self.largest(|x| Element::to_f64(x).abs());
        if largest == 0.0 || !largest.is_finite() {
            return largest;
        }
        let unit = power_of_two_below(largest);
        self.sum(|x| square(Element::to_f64(x) / unit)).sqrt() * unit
    }

    /// The first element that none is ahead of, or the first NaN.
    fn first(&self, term: impl Fn(A) -> A + Sync, ahead: impl Fn(A, A) -> bool + Sync) -> (A, i64) {
        let better = |a: A, b: A| !a.is_nan() && (b.is_nan() || ahead(a, b));
        let block = |range: std::ops::Range<usize>| {
            let (mut best, mut number) = (None, range.start as i64);
            for_each_run(range, self.run, |i, within| {
                let x = &self.x[(self.run_at)(i)..];
                for j in within {
                    let x = term(x[j * self.step]);
                    if best.is_none_or(|(a, _)| better(a, x)) {
                        best = Some((x, number));
                    }
                    number += 1;
                }
            });
            best
        };
        // Of equal ones, the first half's.
        let join = |a: Option<(A, i64)>, b: Option<(A, i64)>| match (a, b) {
            (Some((x, _)), Some((y, _))) => {
                if better(x, y) {
                    b
                } else {
                    a
                }
            }
            _ => a.or(b),
        };
        over_blocks(self.n, &block, &join).unwrap_or((A::nan(), 0))
    }
}

fn square(x: f64) -> f64 {
    x * x
}

/// The result, and the index of it where it is one of the elements.
fn reduce<A: Real, P: Fn(usize) -> usize + Sync>(pass: ReducePass, x: &Elements<'_, A, P>) -> (A, i64) {
    let wide = |x: A| Element::to_f64(x);
    let product = |a: f64, b: f64| a * b;
    let result = match pass {
        ReducePass::Add => {
            let (sum, exponent) = x.scaled_sum(wide);
            sum * 2f64.powi(exponent)
        }
        ReducePass::Avg => {
            let (sum, exponent) = x.scaled_sum(wide);
            sum / (x.n as f64 * 2f64.powi(-exponent))
        }
        ReducePass::Norm1 => x.sum(|x| wide(x).abs()),
        ReducePass::Norm2 => x.norm2(),
        ReducePass::SumSquare => x.sum(|x| square(wide(x))),
        ReducePass::LogSum => {
            let (sum, exponent) = x.scaled_sum(wide);
            sum.ln() + f64::from(exponent) * std::f64::consts::LN_2
        }
        ReducePass::LogSumExp => {
            let largest = x.largest(wide);
            // Of nothing but -∞, and where one is ∞, the difference would be no number.
            let shift = A::real(if largest.is_infinite() { 0.0 } else { largest });
            x.sum(|x| wide((x - shift).exp())).ln() + wide(shift)
        }
        ReducePass::Mul => x.fold(1.0, wide, product),
        ReducePass::MulNoZeros => x.fold(1.0, |x| if x == A::zero() { 1.0 } else { wide(x) }, product),
        ReducePass::Min => return x.first(|x| x, |a, b| b < a),
        ReducePass::Max => return x.first(|x| x, |a, b| b > a),
        ReducePass::Amax => return x.first(|x| x.abs(), |a, b| b > a),
    };
    (A::real(result), 0)
}
