//! Softmax, formula in [`kernel_abi::ops::softmax`].

use crate::Judge;
use crate::sum::sum;
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxProblem, SoftmaxRows};

impl Judge for SoftmaxProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        match self.dy() {
            None => vec![forward(self, &operands[0])],
            Some(_) => vec![backward(self, &operands[0], &operands[1])],
        }
    }
}

/// y = softmax(x).
pub fn forward(problem: &SoftmaxProblem, x: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; x.len()];
    for row in rows(problem.rows()) {
        let max = row.iter().map(|&i| x[i]).fold(f64::NEG_INFINITY, f64::max);
        let whole = sum(row.iter().map(|&i| (x[i] - max).exp()));
        for i in row {
            y[i] = match problem.kind() {
                // Mathematically the same; overflow is what `fast` is allowed, and f64 has room to spare.
                SoftmaxKind::Fast | SoftmaxKind::Accurate => (x[i] - max).exp() / whole,
                SoftmaxKind::Log => x[i] - max - whole.ln(),
            };
        }
    }
    y
}

/// dx from y and dy.
pub fn backward(problem: &SoftmaxProblem, y: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; y.len()];
    for row in rows(problem.rows()) {
        let sum: f64 = match problem.kind() {
            SoftmaxKind::Fast | SoftmaxKind::Accurate => row.iter().map(|&i| y[i] * dy[i]).sum(),
            SoftmaxKind::Log => row.iter().map(|&i| dy[i]).sum(),
        };
        for i in row {
            dx[i] = match problem.kind() {
                SoftmaxKind::Fast | SoftmaxKind::Accurate => y[i] * (dy[i] - sum),
                SoftmaxKind::Log => dy[i] - y[i].exp() * sum,
            };
        }
    }
    dx
}

/// Indices of each row's elements.
fn rows(rows: SoftmaxRows) -> Vec<Vec<usize>> {
    let mut list = Vec::new();
    for outer in 0..rows.outer_rows {
        for inner in 0..rows.inner_rows {
            let index = |e| ((outer * rows.row_elems + e) * rows.inner_rows + inner) as usize;
            list.push((0..rows.row_elems).map(index).collect());
        }
    }
    list
}
