//! Cross-entropy: the loss of classification, from logits or from logarithms of probabilities.
//!
//! x is `[N, C, …]` with a row of C classes at each position (n, …). With lse = ln Σ eˣ over the row (0 where x holds
//! logarithms of probabilities already), a target names a class t of the row, or gives a probability t_c of each class:
//!
//! | target | coefficients a_c of a row | weight of a row |
//! | --- | --- | --- |
//! | class t | (1 - s) w_t [c = t] + s / C w_c | w_t |
//! | probabilities t_c | w_c ((1 - s) t_c + s / C) | 1 |
//!
//! ```text
//! row loss = Σ a_c (lse - x_c)
//! none: loss = row loss      sum: loss = Σ row loss      mean: loss = Σ row loss / Σ weight
//! dx_c = g (e^(x_c - lse) Σ a - a_c)      dx_c = -g a_c of logarithms      g = dloss, over Σ weight for mean
//! ```
//!
//! s is the label smoothing and w_c the weight of a class (1 unless given). A class that is `ignore_index` makes loss,
//! weight and gradient of its row 0; another one outside of 0 to C - 1 makes them NaN, so that it does not go
//! unnoticed. `loss = alpha · loss + beta · loss`, likewise dx; `lse` and `total` (Σ weight, for mean with classes)
//! are what the backward pass needs and are stored as they are. Probabilities have x's type, lse and total its accumulator
//! type, loss and weights each either. Losses are summed in f64, and the result is rounded to the loss's type. The
//! formulas are those of PyTorch's `cross_entropy` and `nll_loss`, and of ONNX's `SoftmaxCrossEntropyLoss` and
//! `NegativeLogLikelihoodLoss`. Deterministic: sums over rows have a fixed order.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::{CrossEntropyParams, CrossEntropySumParams};
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{CrossEntropyDesc, CrossEntropyProblem};

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrossEntropyPass {
    /// `x` and `target` to `loss`.
    Forward,
    /// `dloss` to `dx`.
    Backward,
}

crate::text_enum!(CrossEntropyPass { Forward = "forward", Backward = "backward" });

/// What x holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CrossEntropyInput {
    /// Any numbers, whose softmax is the probability.
    #[default]
    Logits,
    /// Logarithms of probabilities, as log-softmax gives them.
    LogProbs,
}

crate::text_enum!(CrossEntropyInput { Logits = "logits", LogProbs = "log_probs" });

/// What becomes of the rows' losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum LossReduction {
    /// They are stored.
    None = 0,
    /// Their sum over the sum of the rows' weights.
    #[default]
    Mean = 1,
    /// Their sum.
    Sum = 2,
}

crate::text_enum!(LossReduction { None = "none", Mean = "mean", Sum = "sum" });

/// Classes from which rows are cut at lines of the cache, and not at the first multiple of 16 bytes.
pub const LINES_FROM: i64 = 8192;

/// Numbers for the kinds of target in launch parameters.
pub mod target {
    /// A probability a class.
    pub const PROBABILITIES: u32 = 0;
    /// A class, `i32`.
    pub const I32: u32 = 1;
    /// A class, `i64`.
    pub const I64: u32 = 2;
}
