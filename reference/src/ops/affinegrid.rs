//! Affine grids, formula in [`kernel_abi::ops::affinegrid`].

use crate::Judge;
use kernel_abi::ops::affinegrid::{AffineGridPass, AffineGridProblem};

impl Judge for AffineGridProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        match self.grid_pass() {
            AffineGridPass::Forward => vec![forward(self, &operands[0])],
            AffineGridPass::Backward => vec![backward(self, &operands[0])],
        }
    }
}

/// grid from theta.
pub fn forward(problem: &AffineGridProblem, theta: &[f64]) -> Vec<f64> {
    let mut grid = vec![0.0; problem.grid().n_elems() as usize];
    for_each_term(problem, |g, t, e| grid[g] += theta[t] * e);
    grid
}

/// dtheta from dgrid.
pub fn backward(problem: &AffineGridProblem, dgrid: &[f64]) -> Vec<f64> {
    let mut dtheta = vec![0.0; problem.theta().n_elems() as usize];
    for_each_term(problem, |g, t, e| dtheta[t] += dgrid[g] * e);
    dtheta
}

/// Calls `body` with each pair of an element of grid and one of theta, and the factor between them.
fn for_each_term(problem: &AffineGridProblem, mut body: impl FnMut(usize, usize, f64)) {
    let (dims, rows) = (problem.grid().dims(), problem.theta().dims()[1] as usize);
    let spatial = &dims[1..dims.len() - 1];
    let n_positions: i64 = spatial.iter().product();
    for n in 0..dims[0] as usize {
        for position in 0..n_positions {
            // The innermost axis comes first in theta.
            let mut factors = Vec::new();
            let mut rest = position;
            for &extent in spatial.iter().rev() {
                let (at, extent) = ((rest % extent) as f64, extent as f64);
                rest /= extent as i64;
                factors.push(match problem.align_corners() {
                    true if extent == 1.0 => 0.0,
                    true => -1.0 + 2.0 * at / (extent - 1.0),
                    false => (2.0 * at + 1.0) / extent - 1.0,
                });
            }
            factors.push(1.0);
            for i in 0..rows {
                for (j, &factor) in factors.iter().enumerate() {
                    let g = (n * n_positions as usize + position as usize) * rows + i;
                    body(g, (n * rows + i) * (rows + 1) + j, factor);
                }
            }
        }
    }
}
