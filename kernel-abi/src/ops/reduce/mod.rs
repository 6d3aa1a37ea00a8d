//! Reduction: one number for all elements along some dimensions, as cuDNN's ReduceTensor and ONNX's Reduce operators.
//!
//! `y = alpha · r + beta · y`, where r is, over the elements of x that lie above the same element of y:
//!
//! | pass | r | | pass | r |
//! | --- | --- | --- | --- | --- |
//! | `add`, `avg` | Σ x, Σ x / n | | `mul`, `mul_no_zeros` | Π x, Π of those that are not 0 |
//! | `min`, `max`, `amax` | NaN where an element is | | `norm1`, `norm2` | Σ abs x, √(Σ x²) |
//! | `sum_square` | Σ x² | | `log_sum`, `log_sum_exp` | ln Σ x, ln Σ eˣ |
//!
//! x and y have one rank; dimensions in which y has extent 1 are reduced. Strides are free, and so are both element
//! types: computed in `f64` where one of them is `f64` or an integer, else in `f32`, in an order that depends on the
//! problem and the device only, and rounded once.
//!
//! `min`, `max` and `amax` also give `indices`, an i32 or i64 tensor of y's extents, where it is asked for: which of the
//! n elements it was, counted row-major over the reduced dimensions; the first of equal ones, the first NaN before all
//! others. That is argmin and argmax. alpha and beta do not apply to it.
//!
//! The gradient of `add` is dy with an extent of 1 that repeats (`pointwise:scale`); others are chains with it.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::{FINISH_LOADS, FIRST_LOADS, MAX_LEVELS, MOST_TERMS, ReduceParams, ReducePartsParams};
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::ReduceProblem;

/// Which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ReducePass {
    /// The sum.
    Add = 0,
    /// The product.
    Mul = 1,
    /// The smallest.
    Min = 2,
    /// The largest.
    Max = 3,
    /// The largest magnitude.
    Amax = 4,
    /// The mean.
    Avg = 5,
    /// The sum of magnitudes.
    Norm1 = 6,
    /// The root of the sum of squares.
    Norm2 = 7,
    /// The product of what is not zero.
    MulNoZeros = 8,
    /// The sum of squares.
    SumSquare = 9,
    /// The logarithm of the sum.
    LogSum = 10,
    /// The logarithm of the sum of exponentials.
    LogSumExp = 11,
}

crate::text_enum!(ReducePass {
    Add = "add",
    Mul = "mul",
    Min = "min",
    Max = "max",
    Amax = "amax",
    Avg = "avg",
    Norm1 = "norm1",
    Norm2 = "norm2",
    MulNoZeros = "mul_no_zeros",
    SumSquare = "sum_square",
    LogSum = "log_sum",
    LogSumExp = "log_sum_exp",
});

impl ReducePass {
    /// Whether the result is one of the elements, or its magnitude, so that it has an index.
    pub const fn has_indices(self) -> bool {
        matches!(self, ReducePass::Min | ReducePass::Max | ReducePass::Amax)
    }
}
