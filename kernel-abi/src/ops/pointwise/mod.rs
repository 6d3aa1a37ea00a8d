//! Pointwise operations on tensors: cuDNN's OpTensor, AddTensor, ScaleTensor and SetTensor.
//!
//! | pass | result, with a' = alpha_a · a and b' = alpha_b · b |
//! | --- | --- |
//! | `add`, `mul`, `min`, `max` | a' + b', a' b', min(a', b'), max(a', b') |
//! | `sqrt`, `not` | √a', 1 - a' |
//! | `scale` | a' |
//! | `set` | the problem's value |
//!
//! `c = alpha · result + beta · c`. AddTensor is `scale` with beta 1; ScaleTensor is `scale` with c for a. An extent of
//! 1 in a or b where c has more repeats that tensor. `min` and `max` are NaN where either operand is. One element type,
//! any strides; computed in the accumulator type. Deterministic.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::PointwiseParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::PointwiseProblem;

/// Which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PointwisePass {
    /// a' + b'.
    Add,
    /// a' b'.
    Mul,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// √a'.
    Sqrt,
    /// 1 - a'.
    Not,
    /// a'.
    Scale,
    /// A value.
    Set,
}

crate::text_enum!(PointwisePass {
    Add = "add",
    Mul = "mul",
    Min = "min",
    Max = "max",
    Sqrt = "sqrt",
    Not = "not",
    Scale = "scale",
    Set = "set",
});

impl PointwisePass {
    /// How many inputs it has.
    pub const fn n_inputs(self) -> usize {
        match self {
            PointwisePass::Add | PointwisePass::Mul | PointwisePass::Min | PointwisePass::Max => 2,
            PointwisePass::Sqrt | PointwisePass::Not | PointwisePass::Scale => 1,
            PointwisePass::Set => 0,
        }
    }
}
