//! Connectionist temporal classification, formula in [`kernel_abi::ops::ctc`].

use crate::Judge;
use crate::sum::log_sum_exp;
use kernel_abi::ops::crossentropy::{CrossEntropyInput, LossReduction};
use kernel_abi::ops::ctc::CtcProblem;

impl Judge for CtcProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let [x, target, x_lengths, target_lengths] = [0, 1, 2, 3].map(|i| &operands[i]);
        let sequences = sequences(self, x, target, x_lengths, target_lengths);
        vec![if self.dx().is_none() { forward(self, &sequences) } else { backward(self, &sequences, &operands[4]) }]
    }
}

/// One sequence.
pub struct Sequence {
    /// Logarithms of probabilities, for each of its steps.
    log_p: Vec<Vec<f64>>,
    /// Labels with blanks around; nothing where a length or label is out of range.
    states: Option<Vec<usize>>,
}

/// The sequences of a batch.
pub fn sequences(
    problem: &CtcProblem,
    x: &[f64],
    target: &[f64],
    x_lengths: &[f64],
    target_lengths: &[f64],
) -> Vec<Sequence> {
    let [n_steps, n_sequences, n_classes] = problem.extents().map(|extent| extent as usize);
    let (n_labels, blank) = (problem.n_labels() as usize, problem.blank() as usize);
    let sequence = |n: usize| {
        let legal_steps = (0.0..=n_steps as f64).contains(&x_lengths[n]);
        let steps = if legal_steps { x_lengths[n] as usize } else { n_steps };
        let log_p = (0..steps).map(|t| {
            let row = &x[(t * n_sequences + n) * n_classes..][..n_classes];
            match problem.input() {
                CrossEntropyInput::LogProbs => row.to_vec(),
                CrossEntropyInput::Logits => {
                    let lse = log_sum_exp(row.iter().copied());
                    row.iter().map(|x| x - lse).collect()
                }
            }
        });
        let legal_labels = (0.0..=n_labels as f64).contains(&target_lengths[n]);
        let labels = &target[n * n_labels..][..if legal_labels { target_lengths[n] as usize } else { 0 }];
        let legal = legal_steps && legal_labels && labels.iter().all(|l| (0.0..n_classes as f64).contains(l));
        let around = labels.iter().flat_map(|&label| [label as usize, blank]);
        Sequence { log_p: log_p.collect(), states: legal.then(|| std::iter::once(blank).chain(around).collect()) }
    };
    (0..n_sequences).map(sequence).collect()
}

/// The logarithm of a sum of probabilities: of none, or of nothing but zeros, -∞.
fn log_sum(terms: impl Iterator<Item = f64> + Clone) -> f64 {
    if terms.clone().all(|term| term == f64::NEG_INFINITY) { f64::NEG_INFINITY } else { log_sum_exp(terms) }
}

impl Sequence {
    /// ln α of every state at every step, for labels and steps in this order or backward.
    fn chains(log_p: &[&Vec<f64>], states: &[usize]) -> Vec<Vec<f64>> {
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for p in log_p {
            let row = (0..states.len()).map(|s| {
                let from = match rows.last() {
                    None => {
                        if s < 2 {
                            0.0
                        } else {
                            f64::NEG_INFINITY
                        }
                    }
                    Some(before) => {
                        let skips = s >= 2 && states[s] != states[s - 2];
                        log_sum((s.saturating_sub(if skips { 2 } else { 1 })..=s).map(|from| before[from]))
                    }
                };
                from + p[states[s]]
            });
            let row = row.collect();
            rows.push(row);
        }
        rows
    }

    /// Its loss, before infinities count as 0.
    fn loss(&self) -> f64 {
        let Some(states) = &self.states else { return f64::NAN };
        let last = states.len() - 1;
        match Self::chains(&self.log_p.iter().collect::<Vec<_>>(), states).last() {
            Some(end) => -log_sum(end[last.saturating_sub(1)..].iter().copied()),
            None => {
                if last == 0 {
                    0.0
                } else {
                    f64::INFINITY
                }
            }
        }
    }
}

fn share(problem: &CtcProblem, sequences: &[Sequence], n: usize) -> f64 {
    match problem.reduction() {
        LossReduction::None | LossReduction::Sum => 1.0,
        LossReduction::Mean => {
            let n_labels = sequences[n].states.as_ref().map_or(0, |states| states.len() / 2);
            1.0 / (n_labels.max(1) * sequences.len()) as f64
        }
    }
}

/// loss.
pub fn forward(problem: &CtcProblem, sequences: &[Sequence]) -> Vec<f64> {
    let loss = |n: usize| match sequences[n].loss() {
        f64::INFINITY if problem.zero_infinity() => 0.0,
        loss => loss * share(problem, sequences, n),
    };
    let losses: Vec<f64> = (0..sequences.len()).map(loss).collect();
    if problem.reduction() == LossReduction::None { losses } else { vec![losses.iter().sum()] }
}

/// dx.
pub fn backward(problem: &CtcProblem, sequences: &[Sequence], dloss: &[f64]) -> Vec<f64> {
    let [n_steps, n_sequences, n_classes] = problem.extents().map(|extent| extent as usize);
    let mut dx = vec![0.0; n_steps * n_sequences * n_classes];
    for (n, sequence) in sequences.iter().enumerate() {
        let loss = sequence.loss();
        let g = share(problem, sequences, n) * if dloss.len() == 1 { dloss[0] } else { dloss[n] };
        let finite = sequence.states.as_ref().filter(|_| loss.is_finite());
        let (forward, backward) = match finite {
            None => (Vec::new(), Vec::new()),
            Some(states) => {
                let reversed: Vec<usize> = states.iter().rev().copied().collect();
                let log_p: Vec<_> = sequence.log_p.iter().collect();
                let reversed_p: Vec<_> = sequence.log_p.iter().rev().collect();
                (Sequence::chains(&log_p, states), Sequence::chains(&reversed_p, &reversed))
            }
        };
        for (t, log_p) in sequence.log_p.iter().enumerate() {
            for (c, &log_p) in log_p.iter().enumerate() {
                dx[(t * n_sequences + n) * n_classes + c] = match finite {
                    None if loss == f64::INFINITY && problem.zero_infinity() => 0.0,
                    None => f64::NAN,
                    Some(states) => {
                        let last = states.len() - 1;
                        let through = |s: usize| forward[t][s] + backward[sequence.log_p.len() - 1 - t][last - s];
                        let of_class = (0..=last).filter(|&s| states[s] == c && log_p != f64::NEG_INFINITY);
                        let occupied = log_sum(of_class.map(through)) - log_p + loss;
                        g * (log_p.exp() - if log_p == f64::NEG_INFINITY { 0.0 } else { occupied.exp() })
                    }
                };
            }
        }
    }
    dx
}
