//! Adam and AdamW, formula in [`kernel_abi::ops::adam`].

use crate::Judge;
use kernel_abi::ops::adam::{AdamMode, AdamProblem};

impl Judge for AdamProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        Judge::judge_scaled(self, operands, 1.0, 0.0)
    }

    fn judge_scaled(&self, operands: &[Vec<f64>], alpha: f64, _: f64) -> Vec<Vec<f64>> {
        let (mut operands, mut written) = (operands.iter(), Vec::new());
        let mut take = |there: bool| if there { operands.next() } else { None };
        let step = take(self.corrects_bias()).map(|step| step[0]);
        for tensors in self.tensors() {
            let [dw, m, v] = [(); 3].map(|()| take(true).expect("the problem lists dw, m and v"));
            let master = take(tensors.master.is_some());
            let w = take(true).expect("the problem lists w");
            let (new_m, new_v, new_w) = update(self, step, dw, m, v, master.unwrap_or(w), alpha);
            written.extend([new_m, new_v]);
            written.extend(master.map(|_| new_w.clone()));
            written.push(new_w);
        }
        written
    }
}

/// m, v and w after step number `step`, or one without bias correction.
pub fn update(
    problem: &AdamProblem,
    step: Option<f64>,
    dw: &[f64],
    m: &[f64],
    v: &[f64],
    w: &[f64],
    alpha: f64,
) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (beta1, beta2) = (problem.beta1(), problem.beta2());
    let correction = |beta: f64| step.map_or(1.0, |t| 1.0 - beta.powf(t));
    let (c1, c2) = (correction(beta1), correction(beta2));
    let (mut new_m, mut new_v, mut new_w) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..w.len() {
        let (g, w) = match problem.mode() {
            AdamMode::Adam => (dw[i] + problem.weight_decay() * w[i], w[i]),
            AdamMode::AdamW => (dw[i], w[i] - alpha * problem.weight_decay() * w[i]),
        };
        let m = beta1 * m[i] + (1.0 - beta1) * g;
        let v = beta2 * v[i] + (1.0 - beta2) * g * g;
        new_m.push(m);
        new_v.push(v);
        new_w.push(w - alpha * (m / c1) / ((v / c2).sqrt() + problem.eps()));
    }
    (new_m, new_v, new_w)
}
