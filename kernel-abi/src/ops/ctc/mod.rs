//! Connectionist temporal classification: the loss of a sequence of labels of which it is not known when each occurs.
//!
//! x is `[T, N, C]`: at each step t, for each sequence n, a row of C classes, as logits or as logarithms of probabilities;
//! p_t is its softmax. The labels l of a sequence, of which there may be as few as none, are `target[n][0 .. L]` with
//! L = `target_lengths[n]`; the sequence has `x_lengths[n]` steps. With blanks before, between and behind the labels, l'
//! has 2 L + 1 states, and
//!
//! ```text
//! α_t(s) = p_t(l'_s) (α_t-1(s) + α_t-1(s - 1) + α_t-1(s - 2) if l'_s ≠ l'_s-2)   forward, β likewise backward
//! loss_n = -ln (α_end(2 L) + α_end(2 L - 1))
//! γ_t(c) = Σ over s with l'_s = c of α_t(s) β_t(s) / p_t(c) e^loss_n
//! dx_t(c) = g (p_t(c) - γ_t(c)),   0 behind the sequence's end
//! none: loss = loss_n    sum: loss = Σ loss_n    mean: loss = 1/N Σ loss_n / max(L_n, 1)
//! ```
//!
//! with g the gradient of the loss, shared out as the reduction does. All of it is computed with logarithms. Where x
//! holds logarithms of probabilities, dx is the gradient by what they are the log-softmax of, as PyTorch's is. A sequence
//! that is too short for its labels has an infinite loss and a gradient of NaN; with `zero_infinity` both are 0. A length
//! or a label that is out of range makes loss and gradient of its sequence NaN, so that it does not go unnoticed.
//! `loss = alpha · loss + beta · loss`, likewise dx. loss has x's type or its accumulator type; labels and lengths are i32
//! or i64. Losses are summed in f64, and the result is rounded to the loss's type.
//! Graves, Fernández, Gomez, Schmidhuber, "Connectionist temporal classification", 2006; the conventions are those of
//! PyTorch's `ctc_loss` and of cuDNN's deterministic algorithm. Deterministic.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::CtcParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{CtcDesc, CtcProblem};

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CtcPass {
    /// `x` and labels to `loss`.
    Forward,
    /// `dloss` to `dx`.
    Backward,
}

crate::text_enum!(CtcPass { Forward = "forward", Backward = "backward" });
