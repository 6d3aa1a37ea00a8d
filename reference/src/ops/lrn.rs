//! Local response normalization, formula in [`kernel_abi::ops::lrn`].

use crate::Judge;
use kernel_abi::ops::lrn::{LrnProblem, LrnRegion};

impl Judge for LrnProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let means = self.means().map(|_| &operands[1][..]);
        match self.dy() {
            None => vec![forward(self, &operands[0], means)],
            Some(_) => {
                let dy = &operands[1 + usize::from(means.is_some())];
                let (dx, dmeans) = backward(self, &operands[0], means, dy);
                [dx].into_iter().chain(self.dmeans().map(|_| dmeans)).collect()
            }
        }
    }

    /// Both summands of dx with one sign.
    fn judge_magnitudes(&self, operands: &[Vec<f64>], alpha: f64, beta: f64) -> Vec<Vec<f64>> {
        let mut results = Judge::judge_scaled(self, operands, alpha, beta);
        if self.dy().is_some() {
            let means = self.means().map(|_| &operands[1][..]);
            let dy = &operands[1 + usize::from(means.is_some())];
            let (_, dmeans) = backward(self, &operands[0], means, dy);
            let parts = results[0].iter().zip(&dmeans).map(|(dx, part)| (dx + part).abs() + part.abs());
            results[0] = parts.collect();
        }
        results
    }
}

/// y = x s^-beta.
pub fn forward(problem: &LrnProblem, x: &[f64], means: Option<&[f64]>) -> Vec<f64> {
    let s = scales(problem, x, means);
    x.iter().zip(s).map(|(x, s)| x * s.powf(-problem.beta())).collect()
}

/// dx and dmeans.
pub fn backward(problem: &LrnProblem, x: &[f64], means: Option<&[f64]>, dy: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let s = scales(problem, x, means);
    let mut sums = vec![0.0; x.len()];
    for i in 0..x.len() {
        let q = dy[i] * x[i] * s[i].powf(-problem.beta() - 1.0);
        for j in window(problem, i) {
            sums[j] += q;
        }
    }
    let factor = 2.0 * problem.alpha() * problem.beta() / problem.window_elems();
    let dmeans: Vec<f64> = (0..x.len()).map(|j| factor * centred(x, means, j) * sums[j]).collect();
    let dx = (0..x.len()).map(|j| dy[j] * s[j].powf(-problem.beta()) - dmeans[j]).collect();
    (dx, dmeans)
}

fn centred(x: &[f64], means: Option<&[f64]>, i: usize) -> f64 {
    x[i] - means.map_or(0.0, |means| means[i])
}

/// s of every element.
fn scales(problem: &LrnProblem, x: &[f64], means: Option<&[f64]>) -> Vec<f64> {
    let square = |j: usize| centred(x, means, j) * centred(x, means, j);
    (0..x.len())
        .map(|i| {
            let sum: f64 = window(problem, i).into_iter().map(square).sum();
            problem.k() + problem.alpha() / problem.window_elems() * sum
        })
        .collect()
}

/// The elements of W(i).
fn window(problem: &LrnProblem, i: usize) -> Vec<usize> {
    let dims = problem.x().dims();
    let (behind, ahead) = ((problem.n() - 1) / 2, problem.n() / 2);
    let mut index = vec![0; dims.len()];
    let mut rest = i as i64;
    for d in (0..dims.len()).rev() {
        index[d] = rest % dims[d];
        rest /= dims[d];
    }
    let mut elements = vec![0];
    for d in 0..dims.len() {
        let along = match problem.region() {
            LrnRegion::AcrossChannels => d == 1,
            LrnRegion::WithinChannel => d >= 2,
        };
        let (low, high) = if along {
            ((index[d] - behind).max(0), (index[d] + ahead).min(dims[d] - 1))
        } else {
            (index[d], index[d])
        };
        elements = elements.iter().flat_map(|&e| (low..=high).map(move |at| e * dims[d] + at)).collect();
    }
    elements.into_iter().map(|e| e as usize).collect()
}
