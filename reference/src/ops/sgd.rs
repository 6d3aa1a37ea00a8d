//! Stochastic gradient descent, formula in [`kernel_abi::ops::sgd`].

use crate::Judge;
use kernel_abi::ops::sgd::SgdProblem;

impl Judge for SgdProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        Judge::judge_scaled(self, operands, 1.0, 0.0)
    }

    fn judge_scaled(&self, operands: &[Vec<f64>], alpha: f64, _: f64) -> Vec<Vec<f64>> {
        let (mut operands, mut written) = (operands.iter(), Vec::new());
        let mut take = |there: bool| if there { operands.next() } else { None };
        for tensors in self.tensors() {
            let dw = take(true).expect("the problem lists dw");
            let (v, master) = (take(tensors.v.is_some()), take(tensors.master.is_some()));
            let w = take(true).expect("the problem lists w");
            let zeros = vec![0.0; w.len()];
            let (new_v, new_w) = update(self, dw, v.unwrap_or(&zeros), master.unwrap_or(w), alpha);
            written.extend(v.map(|_| new_v));
            written.extend(master.map(|_| new_w.clone()));
            written.push(new_w);
        }
        written
    }
}

/// v and w after a step.
pub fn update(problem: &SgdProblem, dw: &[f64], v: &[f64], w: &[f64], alpha: f64) -> (Vec<f64>, Vec<f64>) {
    let (mut new_v, mut new_w) = (Vec::new(), Vec::new());
    for ((dw, v), w) in dw.iter().zip(v).zip(w) {
        let g = dw + problem.weight_decay() * w;
        let v = problem.momentum() * v + problem.gain() * g;
        let step = if problem.nesterov() { g + problem.momentum() * v } else { v };
        new_v.push(v);
        new_w.push(w - alpha * step);
    }
    (new_v, new_w)
}
