//! Max unpooling, formula in [`kernel_abi::ops::unpool`].

use super::pool::positions;
use crate::Judge;
use kernel_abi::ops::pool::IndexBase;
use kernel_abi::ops::unpool::{UnpoolPass, UnpoolProblem};

impl Judge for UnpoolProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        match self.unpool_pass() {
            UnpoolPass::Forward => vec![forward(self, &operands[0], &operands[1])],
            UnpoolPass::Backward => vec![backward(self, &operands[0], &operands[1])],
        }
    }

    /// Every index names an element of its window, or nothing.
    fn make_admissible(&self, operands: &mut [Vec<f64>]) {
        let mut index = operands[1].iter_mut();
        for_each_window(self, |first, elements| {
            if let Some(index) = index.next() {
                let wanted = index.abs() as usize % (elements.len() + 1);
                *index = elements.get(wanted).map_or(-1.0, |&i| i as f64 - first as f64);
            }
        });
    }
}

/// y from x and index.
pub fn forward(problem: &UnpoolProblem, x: &[f64], index: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; problem.image().n_elems() as usize];
    let mut outputs = x.iter().zip(index);
    for_each_window(problem, |first, elements| {
        let (x, index) = outputs.next().unwrap_or((&f64::NAN, &f64::NAN));
        if let Some(&i) = elements.iter().find(|&&i| i as f64 - first as f64 == *index) {
            y[i] = *x;
        }
    });
    y
}

/// dx from dy and index.
pub fn backward(problem: &UnpoolProblem, dy: &[f64], index: &[f64]) -> Vec<f64> {
    let (mut dx, mut index) = (Vec::new(), index.iter());
    for_each_window(problem, |first, elements| {
        let index = index.next().unwrap_or(&f64::NAN);
        let named = elements.iter().find(|&&i| i as f64 - first as f64 == *index);
        dx.push(named.map_or(0.0, |&i| dy[i]));
    });
    dx
}

/// Calls `body` with the element of y that has number 0, and the elements of y in the window of each element of x, in the
/// order of x.
fn for_each_window(problem: &UnpoolProblem, mut body: impl FnMut(usize, &[usize])) {
    let s = problem.shape();
    let [depth, height, width] = s.axes.map(|axis| axis.image);
    for plane in 0..s.n * s.c {
        let begin = plane * depth * height * width;
        let first = if problem.index_base() == IndexBase::Plane { begin } else { 0 };
        for z in 0..s.axes[0].output {
            for p in 0..s.axes[1].output {
                for q in 0..s.axes[2].output {
                    let inside = |a: usize, o: i64| {
                        let image = s.axes[a].image;
                        positions(&s.axes[a], o).into_iter().filter(move |at| (0..image).contains(at))
                    };
                    let mut elements = Vec::new();
                    for d in inside(0, z) {
                        for h in inside(1, p) {
                            inside(2, q).for_each(|w| elements.push((begin + (d * height + h) * width + w) as usize));
                        }
                    }
                    body(first as usize, &elements);
                }
            }
        }
    }
}
