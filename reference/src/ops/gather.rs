//! Gathering rows, formulas in [`kernel_abi::ops::gather`].

use crate::Judge;
use kernel_abi::ops::gather::{GatherPass, GatherProblem};

impl Judge for GatherProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let (rows, n_indices) = (self.x().dims()[self.axis()], self.y().dims()[self.axis()]);
        let inner: i64 = self.x().dims()[self.axis() + 1..].iter().product();
        let forward = self.gather_pass() == GatherPass::Forward;
        let (indices, given) = if forward { (&operands[1], &operands[0]) } else { (&operands[0], &operands[1]) };
        let mut written = vec![0.0; if forward { self.y() } else { self.x() }.n_elems() as usize];
        for i in 0..self.y().n_elems() {
            let (outer, n, within) = (i / inner / n_indices, i / inner % n_indices, i % inner);
            let index = indices[n as usize] as i64;
            let row = if index < 0 { index + rows } else { index };
            if (0..rows).contains(&row) {
                let at = (outer * rows + row) * inner + within;
                if forward {
                    written[i as usize] = given[at as usize];
                } else {
                    written[at as usize] += given[i as usize];
                }
            }
        }
        vec![written]
    }

    /// Magnitudes of indices would be other indices: all rows are as large as what is given.
    fn judge_magnitudes(&self, operands: &[Vec<f64>], _: f64, _: f64) -> Vec<Vec<f64>> {
        let forward = self.gather_pass() == GatherPass::Forward;
        vec![operands[if forward { 0 } else { 1 }].clone()]
    }
}
