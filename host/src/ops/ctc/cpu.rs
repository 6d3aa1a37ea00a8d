//! Connectionist temporal classification on the CPU: one task a sequence.

use super::CtcProblem;
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::{Element, Real};
use kernel_abi::ops::crossentropy::{CrossEntropyInput, LossReduction};
use rayon::prelude::*;

/// One task a sequence.
#[derive(Clone, Copy)]
pub(super) struct Sequences;

/// Scratch of a sequence: its gradients or its loss, the rows' lse, and ln α and ln β of all states at all steps.
fn scratch_of(problem: &CtcProblem) -> [u64; 3] {
    let [n_steps, _, n_classes] = problem.extents().map(|extent| extent as u64);
    let gradients = if problem.dx().is_some() { n_steps * n_classes } else { 1 };
    [gradients, n_steps, (problem.n_states() as u64).saturating_mul(n_steps)]
}

impl CpuKernel<CtcProblem> for Sequences {
    const NAME: &'static str = "cpu_sequences";

    fn scratch_elems(problem: &CtcProblem) -> u64 {
        let [gradients, lse, states] = scratch_of(problem);
        states.saturating_mul(2).saturating_add(gradients + lse).saturating_mul(problem.extents()[1] as u64)
    }

    fn slowness(_: &CtcProblem) -> f64 {
        8.0
    }

    fn compute<A: Real>(problem: &CtcProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, scratch, .. } = call;
        let [_, n_sequences, n_classes] = problem.extents().map(|extent| extent as usize);
        let [gradients, lse, states] = scratch_of(problem).map(|elems| elems as usize);
        let dloss = if problem.dx().is_some() { inputs.get(4).copied() } else { None };
        scratch.par_chunks_mut(gradients + lse + 2 * states).enumerate().for_each(|(n, scratch)| {
            let (result, rest) = scratch.split_at_mut(gradients);
            let (lse, rest) = rest.split_at_mut(lse);
            let (alphas, betas) = rest.split_at_mut(states);
            let sequence = Sequence::new(problem, &inputs, n);
            sequence.row_sums(lse);
            let loss = sequence.alphas(lse, alphas);
            match dloss {
                None => {
                    result[0] = if loss == A::infinity() && problem.zero_infinity() {
                        A::zero()
                    } else {
                        loss * sequence.share()
                    }
                }
                Some(dloss) => {
                    let g = dloss[if dloss.len() == 1 { 0 } else { n }] * sequence.share();
                    sequence.gradients(lse, loss, g, alphas, betas, result);
                }
            }
        });
        let stride = gradients + lse + 2 * states;
        if problem.dx().is_none() {
            let losses = scratch.iter().step_by(stride).take(n_sequences).copied();
            match problem.reduction() {
                LossReduction::None => outputs[0].iter_mut().zip(losses).for_each(|(to, loss)| *to = loss),
                LossReduction::Sum | LossReduction::Mean => {
                    outputs[0][0] = A::real(losses.map(Element::to_f64).sum());
                }
            }
            return;
        }
        outputs[0].par_chunks_mut(n_sequences * n_classes).enumerate().for_each(|(t, dx)| {
            for (n, dx) in dx.chunks_mut(n_classes).enumerate() {
                dx.copy_from_slice(&scratch[n * stride + t * n_classes..][..n_classes]);
            }
        });
    }
}

/// One sequence.
struct Sequence<'a, A> {
    problem: &'a CtcProblem,
    x: &'a [A],
    n: usize,
    labels: &'a [A],
    /// Steps that it has; all of them where their number is out of range.
    n_steps: usize,
    /// Whether lengths and labels are within their ranges.
    legal: bool,
}

impl<'a, A: Real> Sequence<'a, A> {
    fn new(problem: &'a CtcProblem, inputs: &[&'a [A]], n: usize) -> Self {
        let [n_steps, _, n_classes] = problem.extents();
        let n_labels = problem.n_labels();
        let within = |value: A, most: i64| (0.0..=most as f64).contains(&Element::to_f64(value));
        let (x_length, target_length) = (inputs[2][n], inputs[3][n]);
        let (legal_steps, legal_labels) = (within(x_length, n_steps), within(target_length, n_labels));
        let labels = if legal_labels { Element::to_f64(target_length) as usize } else { 0 };
        let labels = &inputs[1][n * n_labels as usize..][..labels];
        Sequence {
            problem,
            x: inputs[0],
            n,
            labels,
            n_steps: if legal_steps { Element::to_f64(x_length) as usize } else { n_steps as usize },
            legal: legal_steps && legal_labels && labels.iter().all(|&label| within(label, n_classes - 1)),
        }
    }

    fn n_states(&self) -> usize {
        2 * self.labels.len() + 1
    }

    /// The class of a state.
    fn class(&self, s: usize) -> usize {
        if s.is_multiple_of(2) { self.problem.blank() as usize } else { Element::to_f64(self.labels[s / 2]) as usize }
    }

    fn row(&self, t: usize) -> &[A] {
        let [_, n_sequences, n_classes] = self.problem.extents().map(|extent| extent as usize);
        &self.x[(t * n_sequences + self.n) * n_classes..][..n_classes]
    }

    /// The share of this sequence's loss in the result.
    fn share(&self) -> A {
        match self.problem.reduction() {
            LossReduction::None | LossReduction::Sum => A::one(),
            LossReduction::Mean => A::real(1.0 / (self.labels.len().max(1) as f64 * self.problem.extents()[1] as f64)),
        }
    }

    /// ln Σ eˣ of each row; 0 where x holds logarithms of probabilities.
    fn row_sums(&self, lse: &mut [A]) {
        for (t, lse) in lse.iter_mut().take(self.n_steps).enumerate() {
            *lse = match self.problem.input() {
                CrossEntropyInput::LogProbs => A::zero(),
                CrossEntropyInput::Logits => {
                    let row = self.row(t);
                    let max = row.iter().fold(A::neg_infinity(), |max, &x| if x > max { x } else { max });
                    max + row.iter().map(|&x| (x - max).exp()).sum::<A>().ln()
                }
            };
        }
    }

    /// ln α of all states at all steps, and the loss.
    fn alphas(&self, lse: &[A], alphas: &mut [A]) -> A {
        if !self.legal {
            return A::nan();
        }
        let n_states = self.n_states();
        if self.n_steps == 0 {
            return if n_states == 1 { A::zero() } else { A::infinity() };
        }
        for t in 0..self.n_steps {
            let (before, row) = alphas.split_at_mut(t * n_states);
            let before = if t == 0 { None } else { Some(&before[(t - 1) * n_states..]) };
            for s in 0..n_states {
                let from = match before {
                    None => {
                        if s < 2 {
                            A::zero()
                        } else {
                            A::neg_infinity()
                        }
                    }
                    Some(before) => {
                        let skips = s >= 2 && self.class(s) != self.class(s - 2);
                        log_sum(&before[s.saturating_sub(if skips { 2 } else { 1 })..=s])
                    }
                };
                row[s] = from + (self.row(t)[self.class(s)] - lse[t]);
            }
        }
        let end = &alphas[(self.n_steps - 1) * n_states..][..n_states];
        -log_sum(&end[n_states.saturating_sub(2)..])
    }

    /// The gradients of all steps and classes.
    fn gradients(&self, lse: &[A], loss: A, g: A, alphas: &[A], betas: &mut [A], dx: &mut [A]) {
        let n_classes = self.problem.extents()[2] as usize;
        let (steps, behind) = dx.split_at_mut(self.n_steps * n_classes);
        behind.fill(A::zero());
        if !loss.is_finite() {
            let zero = loss == A::infinity() && self.problem.zero_infinity();
            return steps.fill(if zero { A::zero() } else { A::nan() });
        }
        let n_states = self.n_states();
        for t in (0..self.n_steps).rev() {
            let (row, after) = betas[t * n_states..].split_at_mut(n_states);
            let log_p = |c: usize| self.row(t)[c] - lse[t];
            for s in 0..n_states {
                let from = if t + 1 == self.n_steps {
                    if s + 2 >= n_states { A::zero() } else { A::neg_infinity() }
                } else {
                    let skips = s + 2 < n_states && self.class(s) != self.class(s + 2);
                    log_sum(&after[s..(s + if skips { 3 } else { 2 }).min(n_states)])
                };
                row[s] = from + log_p(self.class(s));
            }
            let dx = &mut steps[t * n_classes..][..n_classes];
            (0..n_classes).for_each(|c| dx[c] = g * log_p(c).exp());
            for s in 0..n_states {
                let c = self.class(s);
                if log_p(c) != A::neg_infinity() {
                    dx[c] = dx[c] - g * (alphas[t * n_states + s] + row[s] - log_p(c) + loss).exp();
                }
            }
        }
    }
}

fn log_sum<A: Real>(terms: &[A]) -> A {
    let max = terms.iter().fold(A::neg_infinity(), |max, &term| if term > max { term } else { max });
    if max == A::neg_infinity() {
        // Of nothing, or of NaNs.
        return terms.iter().fold(max, |sum, &term| if term.is_nan() { term } else { sum });
    }
    max + terms.iter().map(|&term| (term - max).exp()).sum::<A>().ln()
}
