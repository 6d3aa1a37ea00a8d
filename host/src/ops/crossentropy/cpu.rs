//! Cross-entropy on the CPU: rows in parallel, then their losses one after another.

use super::{CrossEntropyInput, CrossEntropyProblem, LossReduction};
use crate::cpu::{CpuCall, CpuKernel};
use crate::sum::sum;
use crate::tensor::{Element, Real};
use rayon::prelude::*;

/// One task an image; within it, rows one after another.
#[derive(Clone, Copy)]
pub(super) struct Rows;

impl CpuKernel<CrossEntropyProblem> for Rows {
    const NAME: &'static str = "cpu_rows";

    /// Loss, weight and lse of each row.
    fn scratch_elems(problem: &CrossEntropyProblem) -> u64 {
        if problem.dx().is_some() { 0 } else { 3 * problem.n_rows() as u64 }
    }

    fn slowness(_: &CrossEntropyProblem) -> f64 {
        8.0
    }

    fn compute<A: Real>(problem: &CrossEntropyProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, scratch, .. } = call;
        let (x, target, mut rest) = (inputs[0], inputs[1], inputs[2..].iter().copied());
        let mut take = |there: bool| if there { rest.next() } else { None };
        let weight = take(problem.weight().is_some());
        let rows =
            Matrix { problem, x, target, weight, inner: problem.x().dims()[2..].iter().product::<i64>() as usize };
        if problem.dx().is_none() {
            let found = &mut scratch[..3 * problem.n_rows() as usize];
            found.par_chunks_mut(3).enumerate().for_each(|(row, found)| found.copy_from_slice(&rows.forward(row)));
            return reduce(problem, found, &mut outputs);
        }
        let lse = take(problem.lse().is_some());
        let total = take(problem.total().is_some()).map(|total| total[0]);
        let dloss = take(true).unwrap_or_default();
        let g = |row: usize| match problem.reduction() {
            LossReduction::None => dloss[row],
            LossReduction::Sum => dloss[0],
            LossReduction::Mean => dloss[0] / total.unwrap_or(A::real(problem.n_rows() as f64)),
        };
        let image = problem.n_classes() as usize * rows.inner;
        outputs[0].par_chunks_mut(image).enumerate().for_each(|(image, dx)| {
            for inner in 0..rows.inner {
                let row = image * rows.inner + inner;
                rows.backward(row, lse.map_or(A::zero(), |lse| lse[row]), g(row), |c, value| {
                    dx[c * rows.inner + inner] = value;
                });
            }
        });
    }
}

/// Stores the rows' losses or their sum, and what the backward pass wants.
fn reduce<A: Real>(problem: &CrossEntropyProblem, found: &[A], outputs: &mut [&mut [A]]) {
    let column = |i: usize| found.iter().skip(i).step_by(3).copied();
    let sum = |i: usize| sum(column(i).map(Element::to_f64));
    match problem.reduction() {
        LossReduction::None => outputs[0].iter_mut().zip(column(0)).for_each(|(loss, row)| *loss = row),
        LossReduction::Sum => outputs[0][0] = A::real(sum(0)),
        LossReduction::Mean => outputs[0][0] = A::real(sum(0) / sum(1)),
    }
    let mut others = outputs[1..].iter_mut();
    if problem.lse().is_some()
        && let Some(lse) = others.next()
    {
        lse.iter_mut().zip(column(2)).for_each(|(lse, row)| *lse = row);
    }
    if let Some(total) = others.next() {
        total[0] = A::real(sum(1));
    }
}

/// The sum of a row's terms, rounded once.
fn total<A: Real>(terms: impl Iterator<Item = A>) -> A {
    A::real(sum(terms.map(Element::to_f64)))
}

/// What a row's target asks for.
enum Target {
    Nothing,
    /// A class that there is not.
    Illegal,
    Class(usize),
    Probabilities,
}

/// All rows.
struct Matrix<'a, A> {
    problem: &'a CrossEntropyProblem,
    x: &'a [A],
    target: &'a [A],
    weight: Option<&'a [A]>,
    /// Positions whose classes alternate.
    inner: usize,
}

impl<A: Real> Matrix<'_, A> {
    fn index(&self, row: usize, c: usize) -> usize {
        (row / self.inner * self.problem.n_classes() as usize + c) * self.inner + row % self.inner
    }

    fn target(&self, row: usize) -> Target {
        if !self.problem.has_classes() {
            return Target::Probabilities;
        }
        let class = Element::to_f64(self.target[row]);
        if self.problem.ignore_index().is_some_and(|ignored| ignored as f64 == class) {
            Target::Nothing
        } else if class < 0.0 || class >= self.problem.n_classes() as f64 {
            Target::Illegal
        } else {
            Target::Class(class as usize)
        }
    }

    fn class_weight(&self, c: usize) -> A {
        self.weight.map_or(A::one(), |weight| weight[c])
    }

    /// The factor of a class.
    fn coefficient(&self, row: usize, target: &Target, c: usize) -> A {
        let smoothing = self.problem.smoothing();
        let spread = A::real(smoothing / self.problem.n_classes() as f64);
        let named = match target {
            Target::Class(class) => {
                if *class == c {
                    A::one()
                } else {
                    A::zero()
                }
            }
            Target::Probabilities => self.target[self.index(row, c)],
            Target::Nothing => return A::zero(),
            Target::Illegal => return A::nan(),
        };
        self.class_weight(c) * (A::real(1.0 - smoothing) * named + spread)
    }

    /// Loss, weight and lse.
    fn forward(&self, row: usize) -> [A; 3] {
        let n_classes = self.problem.n_classes() as usize;
        let x = |c: usize| self.x[self.index(row, c)];
        let (max, ln_sum) = match self.problem.input() {
            CrossEntropyInput::LogProbs => (A::zero(), A::zero()),
            CrossEntropyInput::Logits => {
                // A NaN is lost here and found again in the sum.
                let max = (0..n_classes).map(x).fold(A::neg_infinity(), |max, x| if x > max { x } else { max });
                (max, total((0..n_classes).map(|c| (x(c) - max).exp())).ln())
            }
        };
        let target = self.target(row);
        let term = |c: usize| {
            let a = self.coefficient(row, &target, c);
            // What no coefficient asks for does not count, be it infinite.
            let apart = max - x(c);
            if a == A::zero() {
                a
            } else if apart.is_infinite() {
                // Numbers that are far apart have products that may not be.
                a * max - a * x(c)
            } else {
                a * (apart + ln_sum)
            }
        };
        let (loss, weight) = match target {
            Target::Nothing => (A::zero(), A::zero()),
            Target::Illegal => (A::nan(), A::nan()),
            Target::Class(class) if self.problem.smoothing() == 0.0 => (term(class), self.class_weight(class)),
            Target::Class(class) => (total((0..n_classes).map(term)), self.class_weight(class)),
            Target::Probabilities => (total((0..n_classes).map(term)), A::one()),
        };
        [loss, weight, max + ln_sum]
    }

    /// Gives every class' gradient, for the gradient `g` of the row's loss.
    fn backward(&self, row: usize, lse: A, g: A, mut give: impl FnMut(usize, A)) {
        let n_classes = self.problem.n_classes() as usize;
        let target = self.target(row);
        if let Target::Nothing = target {
            return (0..n_classes).for_each(|c| give(c, A::zero()));
        }
        let coefficient = |c: usize| self.coefficient(row, &target, c);
        let sum: A = match self.problem.input() {
            CrossEntropyInput::LogProbs => A::zero(),
            CrossEntropyInput::Logits => total((0..n_classes).map(coefficient)),
        };
        for c in 0..n_classes {
            let share = match self.problem.input() {
                CrossEntropyInput::LogProbs => A::zero(),
                CrossEntropyInput::Logits => (self.x[self.index(row, c)] - lse).exp() * sum,
            };
            give(c, g * (share - coefficient(c)));
        }
    }
}
