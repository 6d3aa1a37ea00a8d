//! Reduction, formulas in [`kernel_abi::ops::reduce`].

use crate::Judge;
use crate::sum::{log_sum_exp, sum};
use kernel_abi::DType;
use kernel_abi::ops::reduce::{ReducePass, ReduceProblem};

impl Judge for ReduceProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let (y, indices) = reduce(self, &operands[0]);
        if self.indices().is_some() { vec![y, indices] } else { vec![y] }
    }

    /// Each is rounded to its own type: indices are not made of y.
    fn rounded_to(&self) -> Vec<DType> {
        [Some(self.y()), self.indices()].into_iter().flatten().map(|desc| desc.dtype()).collect()
    }
}

/// y and the indices.
pub fn reduce(problem: &ReduceProblem, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
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
    elements.iter().map(|elements| of(problem.reduce_pass(), elements)).unzip()
}

fn of(pass: ReducePass, x: &[f64]) -> (f64, f64) {
    let n = x.len() as f64;
    let all = || sum(x.iter().copied());
    let squares = || sum(x.iter().map(|x| x * x));
    let result = match pass {
        ReducePass::Add => all(),
        ReducePass::Avg => all() / n,
        ReducePass::Mul => x.iter().product(),
        ReducePass::MulNoZeros => x.iter().filter(|&&x| x != 0.0).product(),
        ReducePass::Norm1 => sum(x.iter().map(|x| x.abs())),
        ReducePass::Norm2 => squares().sqrt(),
        ReducePass::SumSquare => squares(),
        ReducePass::LogSum => all().ln(),
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
