//! Reduction, formulas in [`kernel_abi::ops::reduce`].

use crate::Judge;
use crate::integers::low_bits;
use crate::sum::{log_sum_exp, sum};
use kernel_abi::ops::reduce::{ReducePass, ReduceProblem};
use kernel_abi::{Cast, DType};

impl Judge for ReduceProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let (y, indices) = reduce(self, &operands[0]);
        if self.indices().is_some() { vec![y, indices] } else { vec![y] }
    }

    fn judge_integers(&self, operands: &[Vec<i128>]) -> Option<Vec<Vec<i128>>> {
        if self.computing() != DType::I64 {
            return None;
        }
        let groups = groups(self, &operands[0]);
        let (y, indices) = groups.iter().map(|elements| of_integers(self.reduce_pass(), elements)).unzip();
        Some(if self.indices().is_some() { vec![y, indices] } else { vec![y] })
    }

    fn cast(&self) -> Cast {
        Cast::PLAIN
    }

    /// Indices are not made of y.
    fn rounded_to(&self) -> Vec<DType> {
        crate::stored_types(self)
    }
}

/// y and the indices.
pub fn reduce(problem: &ReduceProblem, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    groups(problem, x).iter().map(|elements| of(problem.reduce_pass(), elements)).unzip()
}

/// The elements of each result.
fn groups<T: Copy>(problem: &ReduceProblem, x: &[T]) -> Vec<Vec<T>> {
    let mut elements = vec![Vec::new(); problem.y().n_elems() as usize];
    // Row-major, so that the elements of each result stand in the order of their indices.
    for (i, &x) in x.iter().enumerate() {
        let (mut rest, mut output, mut stride) = (i as i64, 0, 1);
        for (&x_dim, &y_dim) in problem.x().dims().iter().zip(problem.y().dims()).rev() {
            output += if y_dim == x_dim { rest % x_dim * stride } else { 0 };
            stride *= y_dim;
            rest /= x_dim;
        }
        elements[output as usize].push(x);
    }
    elements
}

/// Of integers, modulo 2⁶⁴; the mean is that of the sum.
fn of_integers(pass: ReducePass, x: &[i128]) -> (i128, i128) {
    let wrapped = |value: i128| low_bits(DType::I64, value);
    let product = |x: &mut dyn Iterator<Item = &i128>| x.fold(1, |product, x| wrapped(product * x));
    let sum = |term: &dyn Fn(i128) -> i128| x.iter().fold(0, |sum, &x| wrapped(sum + term(x)));
    let first = |key: &dyn Fn(i128) -> i128| {
        let best = (0..x.len()).fold(0, |best, i| if key(x[i]) > key(x[best]) { i } else { best });
        (x[best], best as i128)
    };
    let result = match pass {
        ReducePass::Norm1 => sum(&i128::abs),
        ReducePass::SumSquare => sum(&|x| x * x),
        ReducePass::Avg => sum(&|x| x) / x.len() as i128,
        ReducePass::Mul => product(&mut x.iter()),
        ReducePass::MulNoZeros => product(&mut x.iter().filter(|&&x| x != 0)),
        ReducePass::Min => return first(&|x| -x),
        ReducePass::Max => return first(&|x| x),
        ReducePass::Amax => {
            let (result, index) = first(&i128::abs);
            return (result.abs(), index);
        }
        ReducePass::Add | ReducePass::Norm2 | ReducePass::LogSum | ReducePass::LogSumExp => sum(&|x| x),
    };
    (result, 0)
}

fn of(pass: ReducePass, x: &[f64]) -> (f64, f64) {
    let n = x.len() as f64;
    let all = || sum(x.iter().copied());
    let squares = || sum(x.iter().map(|x| x * x));
    // The power of two of the largest: what is divided by it neither overflows nor vanishes beside it.
    let largest = x.iter().fold(0.0, |a: f64, x| if x.abs() > a { x.abs() } else { a });
    let unit =
        if largest.is_finite() && largest > 0.0 { 2f64.powi((largest.log2() as i32).clamp(-1000, 1000)) } else { 1.0 };
    let scaled = || sum(x.iter().map(|x| x / unit));
    let result = match pass {
        ReducePass::Add if all().is_finite() => all(),
        ReducePass::Add => scaled() * unit,
        ReducePass::Avg if all().is_finite() => all() / n,
        ReducePass::Avg => scaled() / n * unit,
        ReducePass::Mul => x.iter().product(),
        ReducePass::MulNoZeros => x.iter().filter(|&&x| x != 0.0).product(),
        ReducePass::Norm1 => sum(x.iter().map(|x| x.abs())),
        ReducePass::Norm2 => sum(x.iter().map(|x| (x / unit) * (x / unit))).sqrt() * unit,
        ReducePass::SumSquare => squares(),
        ReducePass::LogSum if all().is_finite() => all().ln(),
        ReducePass::LogSum => scaled().ln() + unit.ln(),
        ReducePass::LogSumExp => match log_sum_exp(x.iter().copied()) {
            // Where the largest is infinite, it needs no difference.
            lse if lse.is_nan() => sum(x.iter().map(|x| x.exp())).ln(),
            lse => lse,
        },
        ReducePass::Min => return first(x, |x| -x),
        ReducePass::Max => return first(x, |x| x),
        ReducePass::Amax => {
            let (result, index) = first(x, f64::abs);
            return (result.abs(), index);
        }
    };
    (result, 0.0)
}

/// The first element of the largest key, or the first NaN.
fn first(x: &[f64], key: impl Fn(f64) -> f64) -> (f64, f64) {
    let mut best = 0;
    for (i, &value) in x.iter().enumerate() {
        if !x[best].is_nan() && (value.is_nan() || key(value) > key(x[best])) {
            best = i;
        }
    }
    (x[best], best as f64)
}
