//! Gathering rows, formulas in [`kernel_abi::ops::gather`].

use crate::Judge;
use kernel_abi::ops::gather::{GatherPass, GatherProblem};
use kernel_abi::{Cast, DType};

impl Judge for GatherProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let indices: Vec<i128> = operands[indices_at(self)].iter().map(|&index| index as i128).collect();
        vec![written(self, &indices, &operands[1 - indices_at(self)], 0.0, |a, b| a + b)]
    }

    fn judge_integers(&self, operands: &[Vec<i128>]) -> Option<Vec<Vec<i128>>> {
        let at = indices_at(self);
        let written = || written(self, &operands[at], &operands[1 - at], 0, |a, b| a + b);
        (self.computing() == DType::I64).then(|| vec![written()])
    }

    fn cast(&self) -> Cast {
        Cast::PLAIN
    }

    /// Magnitudes of indices would be other indices: all rows are as large as what is given.
    fn judge_magnitudes(&self, operands: &[Vec<f64>], _: f64, _: f64) -> Vec<Vec<f64>> {
        let forward = self.gather_pass() == GatherPass::Forward;
        vec![operands[if forward { 0 } else { 1 }].clone()]
    }
}

/// Which operand the indices are.
fn indices_at(problem: &GatherProblem) -> usize {
    usize::from(problem.gather_pass() == GatherPass::Forward)
}

/// y, or dx.
fn written<T: Copy>(
    problem: &GatherProblem,
    indices: &[i128],
    given: &[T],
    zero: T,
    add: impl Fn(T, T) -> T,
) -> Vec<T> {
    let (rows, n_indices) = (problem.x().dims()[problem.axis()], problem.y().dims()[problem.axis()]);
    let inner: i64 = problem.x().dims()[problem.axis() + 1..].iter().product();
    let forward = problem.gather_pass() == GatherPass::Forward;
    let mut written = vec![zero; if forward { problem.y() } else { problem.x() }.n_elems() as usize];
    for i in 0..problem.y().n_elems() {
        let (outer, n, within) = (i / inner / n_indices, i / inner % n_indices, i % inner);
        let index = indices[n as usize] as i64;
        let row = if index < 0 { index + rows } else { index };
        if (0..rows).contains(&row) {
            let at = (outer * rows + row) * inner + within;
            if forward {
                written[i as usize] = given[at as usize];
            } else {
                written[at as usize] = add(written[at as usize], given[i as usize]);
            }
        }
    }
    written
}
