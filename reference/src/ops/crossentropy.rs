//! Cross-entropy, formula in [`kernel_abi::ops::crossentropy`].

use crate::Judge;
use crate::sum::{log_sum_exp, sum};
use kernel_abi::DType;
use kernel_abi::ops::crossentropy::{CrossEntropyInput, CrossEntropyProblem, LossReduction};

impl Judge for CrossEntropyProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let (x, target, mut rest) = (&operands[0], &operands[1], operands[2..].iter());
        let ones = vec![1.0; self.n_classes() as usize];
        let weight = if self.weight().is_some() { rest.next() } else { None }.unwrap_or(&ones);
        if self.dx().is_none() {
            let (loss, lse, total) = forward(self, x, target, weight);
            let (lse, total) = (self.lse().map(|_| lse), self.total().map(|_| vec![total]));
            return [Some(loss), lse, total].into_iter().flatten().collect();
        }
        let zeros = vec![0.0; self.n_rows() as usize];
        let lse = if self.lse().is_some() { rest.next() } else { None }.unwrap_or(&zeros);
        let total = if self.total().is_some() { rest.next().map(|total| total[0]) } else { None };
        vec![backward(self, x, target, weight, lse, total, rest.next().unwrap_or(&zeros))]
    }

    /// lse and total are not made of the loss.
    fn rounded_to(&self) -> Vec<DType> {
        crate::stored_types(self)
    }
}

/// Coefficients of a row and its weight.
fn coefficients(problem: &CrossEntropyProblem, target: &[f64], weight: &[f64], row: usize) -> (Vec<f64>, f64) {
    let (n_classes, s) = (problem.n_classes() as usize, problem.smoothing());
    let spread = |c: usize| s / n_classes as f64 * weight[c];
    if !problem.has_classes() {
        let t = |c: usize| target[index(problem, row, c)];
        return ((0..n_classes).map(|c| (1.0 - s) * weight[c] * t(c) + spread(c)).collect(), 1.0);
    }
    let class = target[row];
    if problem.ignore_index().is_some_and(|ignored| class == ignored as f64) {
        return (vec![0.0; n_classes], 0.0);
    }
    if class < 0.0 || class >= n_classes as f64 {
        return (vec![f64::NAN; n_classes], f64::NAN);
    }
    let w = weight[class as usize];
    ((0..n_classes).map(|c| (if c == class as usize { (1.0 - s) * w } else { 0.0 }) + spread(c)).collect(), w)
}

/// loss, lse and the sum of weights.
pub fn forward(problem: &CrossEntropyProblem, x: &[f64], target: &[f64], weight: &[f64]) -> (Vec<f64>, Vec<f64>, f64) {
    let (mut losses, mut all_lse, mut total) = (Vec::new(), Vec::new(), 0.0);
    for row in 0..problem.n_rows() as usize {
        let values: Vec<f64> = (0..problem.n_classes() as usize).map(|c| x[index(problem, row, c)]).collect();
        let lse = match problem.input() {
            CrossEntropyInput::LogProbs => 0.0,
            CrossEntropyInput::Logits => log_sum_exp(values.iter().copied()),
        };
        let (a, row_weight) = coefficients(problem, target, weight, row);
        // What no coefficient asks for does not count, be it infinite.
        losses.push(sum(values.iter().zip(a).map(|(x, a)| if a == 0.0 { 0.0 } else { a * (lse - x) })));
        all_lse.push(lse);
        total += row_weight;
    }
    let loss = match problem.reduction() {
        LossReduction::None => losses,
        LossReduction::Sum => vec![sum(losses)],
        LossReduction::Mean => vec![sum(losses) / total],
    };
    (loss, all_lse, total)
}

/// dx.
pub fn backward(
    problem: &CrossEntropyProblem,
    x: &[f64],
    target: &[f64],
    weight: &[f64],
    lse: &[f64],
    total: Option<f64>,
    dloss: &[f64],
) -> Vec<f64> {
    let mut dx = vec![0.0; x.len()];
    for row in 0..problem.n_rows() as usize {
        let (a, row_weight) = coefficients(problem, target, weight, row);
        if row_weight == 0.0 && problem.has_classes() && a.iter().all(|&a| a == 0.0) {
            continue;
        }
        let g = match problem.reduction() {
            LossReduction::None => dloss[row],
            LossReduction::Sum => dloss[0],
            LossReduction::Mean => dloss[0] / total.unwrap_or(problem.n_rows() as f64),
        };
        let whole = sum(a.iter().copied());
        for (c, a) in a.iter().enumerate() {
            let i = index(problem, row, c);
            let share = match problem.input() {
                CrossEntropyInput::LogProbs => 0.0,
                CrossEntropyInput::Logits => (x[i] - lse[row]).exp() * whole,
            };
            dx[i] = g * (share - a);
        }
    }
    dx
}

/// Of a class at a position, in x.
fn index(problem: &CrossEntropyProblem, row: usize, c: usize) -> usize {
    let inner = problem.x().dims()[2..].iter().product::<i64>() as usize;
    (row / inner * problem.n_classes() as usize + c) * inner + row % inner
}
