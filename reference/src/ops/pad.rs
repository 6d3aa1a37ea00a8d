//! Padding, formulas in [`kernel_abi::ops::pad`].

use crate::Judge;
use kernel_abi::ops::pad::{PadMode, PadPass, PadProblem};
use kernel_abi::{Cast, DType};

impl Judge for PadProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        vec![written(self, &operands[0], 0.0, self.filling(), |a, b| a + b)]
    }

    fn judge_integers(&self, operands: &[Vec<i128>]) -> Option<Vec<Vec<i128>>> {
        // The largest i64 is no f64.
        let filling = i128::from(self.filling() as i64);
        let written = || written(self, &operands[0], 0, filling, |a, b| a + b);
        (self.computing() == DType::I64).then(|| vec![written()])
    }

    fn cast(&self) -> Cast {
        Cast::PLAIN
    }
}

/// y, or dx.
fn written<T: Copy>(problem: &PadProblem, given: &[T], zero: T, filling: T, add: impl Fn(T, T) -> T) -> Vec<T> {
    let mut dx = vec![zero; problem.x().n_elems() as usize];
    let y: Vec<T> = (0..problem.y().n_elems())
        .map(|i| match source(problem, i) {
            Some(at) if problem.pad_pass() == PadPass::Forward => given[at],
            Some(at) => {
                dx[at] = add(dx[at], given[i as usize]);
                zero
            }
            None => filling,
        })
        .collect();
    if problem.pad_pass() == PadPass::Forward { y } else { dx }
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
