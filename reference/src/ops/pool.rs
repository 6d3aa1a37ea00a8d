//! Pooling, formula in [`kernel_abi::ops::pool`].

use crate::Judge;
use kernel_abi::ops::pool::{IndexBase, PoolAxis, PoolMode, PoolNan, PoolPass, PoolProblem};

impl Judge for PoolProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let reads_index = self.index().is_some();
        match (self.pool_pass(), self.mode()) {
            (PoolPass::Forward, _) if reads_index => vec![forward(self, &operands[0]), index(self, &operands[0])],
            (PoolPass::Forward, _) => vec![forward(self, &operands[0])],
            (PoolPass::Backward, _) if reads_index => vec![backward_from_index(self, &operands[0], &operands[1])],
            (PoolPass::Backward, PoolMode::Max) => {
                vec![backward_from_index(self, &index(self, &operands[0]), &operands[1])]
            }
            (PoolPass::Backward, PoolMode::Lp) => vec![backward_lp(self, &operands[0], &operands[1])],
            (PoolPass::Backward, _) => vec![backward_average(self, &operands[0])],
        }
    }

    /// Every index names an element of its window, or nothing.
    fn make_admissible(&self, operands: &mut [Vec<f64>]) {
        if self.pool_pass() == PoolPass::Backward && self.index().is_some() {
            let mut index = operands[0].iter_mut();
            for_each_window(self, |window| {
                if let Some(index) = index.next() {
                    let wanted = index.abs() as usize % (window.elements.len() + 1);
                    let element = window.elements.get(wanted);
                    *index = element.map_or(-1.0, |&i| (i - window.first_number(self)) as f64);
                }
            });
        }
    }
}

/// y = pool(x).
pub fn forward(problem: &PoolProblem, x: &[f64]) -> Vec<f64> {
    let mut y = Vec::new();
    for_each_window(problem, |window| {
        let elements = window.elements.iter().map(|&i| x[i]);
        y.push(match problem.mode() {
            PoolMode::Max => x[first_maximum(problem, x, &window.elements)],
            PoolMode::AverageIncludePadding => elements.sum::<f64>() / window.padded as f64,
            PoolMode::AverageExcludePadding => elements.sum::<f64>() / window.elements.len() as f64,
            PoolMode::Lp => norm(problem, x, &window.elements),
        });
    });
    y
}

/// Where the maxima are.
pub fn index(problem: &PoolProblem, x: &[f64]) -> Vec<f64> {
    let mut index = Vec::new();
    for_each_window(problem, |window| {
        index.push((first_maximum(problem, x, &window.elements) - window.first_number(problem)) as f64);
    });
    index
}

/// dx: each window's dy goes to the element that its index names.
pub fn backward_from_index(problem: &PoolProblem, index: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; problem.x().n_elems() as usize];
    let mut dy = index.iter().zip(dy);
    for_each_window(problem, |window| {
        let (index, dy) = dy.next().unwrap_or((&f64::NAN, &f64::NAN));
        let named = window.elements.iter().find(|&&i| (i - window.first_number(problem)) as f64 == *index);
        if let Some(&i) = named {
            dx[i] += dy;
        }
    });
    dx
}

/// dx: each window's dy is shared out.
pub fn backward_average(problem: &PoolProblem, dy: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; problem.x().n_elems() as usize];
    let mut dy = dy.iter();
    for_each_window(problem, |window| {
        let include = problem.mode() == PoolMode::AverageIncludePadding;
        let n = if include { window.padded } else { window.elements.len() };
        let share = dy.next().unwrap_or(&f64::NAN) / n as f64;
        window.elements.iter().for_each(|&i| dx[i] += share);
    });
    dx
}

/// dx: the gradient of each window's norm.
pub fn backward_lp(problem: &PoolProblem, x: &[f64], dy: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; x.len()];
    let mut dy = dy.iter();
    for_each_window(problem, |window| {
        let (y, dy) = (norm(problem, x, &window.elements), dy.next().unwrap_or(&f64::NAN));
        for &i in window.elements.iter().filter(|&&i| x[i] != 0.0) {
            dx[i] += dy * x[i].signum() * (x[i].abs() / y).powf(problem.exponent() - 1.0);
        }
    });
    dx
}

fn norm(problem: &PoolProblem, x: &[f64], elements: &[usize]) -> f64 {
    let p = problem.exponent();
    elements.iter().map(|&i| x[i].abs().powf(p)).sum::<f64>().powf(1.0 / p)
}

fn first_maximum(problem: &PoolProblem, x: &[f64], elements: &[usize]) -> usize {
    let mut first = elements[0];
    for &i in elements {
        let beside_nan = match problem.nan() {
            PoolNan::Propagate => x[i].is_nan() && !x[first].is_nan(),
            PoolNan::Ignore => !x[i].is_nan() && x[first].is_nan(),
        };
        if x[i] > x[first] || beside_nan {
            first = i;
        }
    }
    first
}

/// One output's window.
struct Window {
    /// Which image plane it lies in.
    plane: usize,
    /// Elements of such a plane.
    plane_elems: usize,
    /// Indices in x of its elements.
    elements: Vec<usize>,
    /// How many positions it has inside the padded image.
    padded: usize,
}

impl Window {
    /// The index in x whose number in `index` is 0.
    fn first_number(&self, problem: &PoolProblem) -> usize {
        match problem.index_base() {
            IndexBase::Plane => self.plane * self.plane_elems,
            IndexBase::Tensor => 0,
        }
    }
}

/// Positions of an output's window along an axis, padding included.
pub(super) fn positions(axis: &PoolAxis, output: i64) -> Vec<i64> {
    if axis.bins != 0 {
        let begin = output * axis.image / axis.output;
        let end = ((output + 1) * axis.image).div_euclid(axis.output);
        let end = if (output + 1) * axis.image % axis.output == 0 { end } else { end + 1 };
        return (begin..end).collect();
    }
    let all = (0..axis.window).map(|r| output * axis.stride - axis.padding + r * axis.dilation);
    all.filter(|&at| at < axis.image + axis.padding_end).collect()
}

/// Calls `body` with each output's window, in the order of y.
fn for_each_window(problem: &PoolProblem, mut body: impl FnMut(Window)) {
    let s = problem.shape();
    let [depth, height, width] = s.axes.map(|axis| axis.image);
    for plane in 0..s.n * s.c {
        for z in 0..s.axes[0].output {
            for p in 0..s.axes[1].output {
                for q in 0..s.axes[2].output {
                    let (mut elements, mut padded) = (Vec::new(), 0);
                    for d in positions(&s.axes[0], z) {
                        for h in positions(&s.axes[1], p) {
                            for w in positions(&s.axes[2], q) {
                                padded += 1;
                                let inside = |at: i64, extent: i64| (0..extent).contains(&at);
                                if inside(d, depth) && inside(h, height) && inside(w, width) {
                                    elements.push((((plane * depth + d) * height + h) * width + w) as usize);
                                }
                            }
                        }
                    }
                    let plane_elems = (depth * height * width) as usize;
                    body(Window { plane: plane as usize, plane_elems, elements, padded });
                }
            }
        }
    }
}
