//! Stochastic gradient descent, formula in [`kernel_abi::ops::sgd`].

use crate::Judge;
use kernel_abi::ops::sgd::SgdProblem;

impl Judge for SgdProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        Judge::judge_scaled(self, operands, 1.0, 0.0)
    }

    fn judge_scaled(&self, operands: &[Vec<f64>], alpha: f64, _: f64) -> Vec<Vec<f64>> {
        let (v, w) = update(self, &operands[0], &operands[1], &operands[2], alpha);
        vec![v, w]
    }
}

/// v and w after a step.
pub fn update(problem: &SgdProblem, dw: &[f64], v: &[f64], w: &[f64], alpha: f64) -> (Vec<f64>, Vec<f64>) {
    let (mut new_v, mut new_w) = (Vec::new(), Vec::new());
    for ((dw, v), w) in dw.iter().zip(v).zip(w) {
        let g = dw + problem.weight_decay() * w;
        let v = problem.momentum() * v + g;
        let step = if problem.nesterov() { g + problem.momentum() * v } else { v };
        new_v.push(v);
        new_w.push(w - alpha * step);
    }
    (new_v, new_w)
}
