//! Padding, formulas in [`kernel_abi::ops::pad`].

use crate::Judge;
use kernel_abi::ops::pad::{PadMode, PadPass, PadProblem};

impl Judge for PadProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let given = &operands[0];
        let mut dx = vec![0.0; self.x().n_elems() as usize];
        let y: Vec<f64> = (0..self.y().n_elems())
            .map(|i| match source(self, i) {
                Some(at) if self.pad_pass() == PadPass::Forward => given[at],
                Some(at) => {
                    dx[at] += given[i as usize];
                    0.0
                }
                None => self.value(),
            })
            .collect();
        vec![if self.pad_pass() == PadPass::Forward { y } else { dx }]
    }
}

/// The element of x that element `i` of y is, both row-major.
fn source(problem: &PadProblem, mut i: i64) -> Option<usize> {
    let (mut at, mut stride) = (0, 1);
    let axes: Vec<_> = problem.axes().collect();
    for axis in axes.iter().rev() {
        let mut p = i % axis.y * axis.step - axis.before;
        match problem.mode() {
            PadMode::Constant if !(0..axis.x).contains(&p) => return None,
            PadMode::Constant => {}
            PadMode::Edge => p = p.clamp(0, axis.x - 1),
            PadMode::Wrap => p = p.rem_euclid(axis.x),
            // Mirrored until it is inside.
            PadMode::Reflect => {
                while axis.x > 1 && !(0..axis.x).contains(&p) {
                    p = if p < 0 { -p } else { 2 * (axis.x - 1) - p };
                }
                p = p.clamp(0, axis.x - 1);
            }
        }
        at += p * stride;
        stride *= axis.x;
        i /= axis.y;
    }
    Some(at as usize)
}
