//! Pooling, formula in [`kernel_abi::ops::pool`].

use crate::Judge;
use kernel_abi::ops::pool::{PoolMode, PoolPass, PoolProblem};

impl Judge for PoolProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        match (self.pool_pass(), self.mode()) {
            (PoolPass::Forward, _) => vec![forward(self, &operands[0])],
            (PoolPass::Backward, PoolMode::Max) => vec![backward_max(self, &operands[0], &operands[1])],
            (PoolPass::Backward, _) => vec![backward_average(self, &operands[0])],
        }
    }
}

/// y = pool(x).
pub fn forward(problem: &PoolProblem, x: &[f64]) -> Vec<f64> {
    let mut y = Vec::new();
    for_each_window(problem, |elements, size| {
        y.push(match problem.mode() {
            PoolMode::Max => x[first_maximum(x, elements)],
            PoolMode::AverageIncludePadding => elements.iter().map(|&i| x[i]).sum::<f64>() / size as f64,
            PoolMode::AverageExcludePadding => elements.iter().map(|&i| x[i]).sum::<f64>() / elements.len() as f64,
        });
    });
    y
}

/// dx: each window's dy goes to its first maximum.
pub fn backward_max(problem: &PoolProblem, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; x.len()];
    let mut dy = dy.iter();
    for_each_window(problem, |elements, _| dx[first_maximum(x, elements)] += dy.next().unwrap_or(&f64::NAN));
    dx
}

/// dx: each window's dy is shared out.
pub fn backward_average(problem: &PoolProblem, dy: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; problem.x().n_elems() as usize];
    let mut dy = dy.iter();
    for_each_window(problem, |elements, size| {
        let n = if problem.mode() == PoolMode::AverageIncludePadding { size } else { elements.len() };
        let share = dy.next().unwrap_or(&f64::NAN) / n as f64;
        elements.iter().for_each(|&i| dx[i] += share);
    });
    dx
}

fn first_maximum(x: &[f64], elements: &[usize]) -> usize {
    let mut first = elements[0];
    for &i in elements {
        if x[i] > x[first] || (x[i].is_nan() && !x[first].is_nan()) {
            first = i;
        }
    }
    first
}

/// Calls `body` with the indices of each window's elements inside the image, and the window's size, in the order of y.
fn for_each_window(problem: &PoolProblem, mut body: impl FnMut(&[usize], usize)) {
    let s = problem.shape();
    let size = s.window.iter().product::<i64>() as usize;
    for plane in 0..s.n * s.c {
        for z in 0..s.output[0] {
            for p in 0..s.output[1] {
                for q in 0..s.output[2] {
                    let mut elements = Vec::new();
                    for t in 0..s.window[0] {
                        for r in 0..s.window[1] {
                            for w in 0..s.window[2] {
                                let at = [
                                    z * s.stride[0] - s.padding[0] + t,
                                    p * s.stride[1] - s.padding[1] + r,
                                    q * s.stride[2] - s.padding[2] + w,
                                ];
                                if (0..3).all(|axis| (0..s.image[axis]).contains(&at[axis])) {
                                    let row = (plane * s.image[0] + at[0]) * s.image[1] + at[1];
                                    elements.push((row * s.image[2] + at[2]) as usize);
                                }
                            }
                        }
                    }
                    body(&elements, size);
                }
            }
        }
    }
}
