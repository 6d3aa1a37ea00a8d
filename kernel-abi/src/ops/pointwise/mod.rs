//! Pointwise operations on tensors: the operations of cuDNN's graph interface and its OpTensor, AddTensor, ScaleTensor and
//! SetTensor; single ones, and chains of them in one pass over memory.
//!
//! `c = alpha · result + beta · c`, with a' = alpha_a · a and b' = alpha_b · b:
//!
//! | pass | result |
//! | --- | --- |
//! | `add`, `sub`, `mul`, `div`, `add_square` | a' + b', a' - b', a' b', a' / b', a' + b'² |
//! | `min`, `max` | NaN where either operand is |
//! | `mod` | a' - n b', with n = a' / b' rounded towards zero, exactly |
//! | `pow`, `atan2` | a' to the power b'; the angle of the point (b', a') |
//! | `prelu` | a' if a' ≥ 0, else a' b' |
//! | `cmp_eq`, `cmp_neq`, `cmp_gt`, `cmp_ge`, `cmp_lt`, `cmp_le` | 1 or 0; with a NaN only `cmp_neq` holds |
//! | `logical_and`, `logical_or`, `logical_xor`, `logical_not` | 1 or 0, every number but 0 being true |
//! | `sqrt`, `rsqrt`, `reciprocal`, `exp`, `log`, `erf`, `sin`, `cos`, `tan` | √a', 1/√a', 1/a', …, angles in radians |
//! | `abs`, `neg`, `sign`, `not` | abs a', -a', -1, 0 or 1, 1 - a' |
//! | `floor`, `ceil`, `round` | the next integer below, above, nearest with ties to even |
//! | `scale` | a': identity, copy, or with types that differ a cast |
//! | `select` | a' where t is not 0, else b' |
//! | `gen_index` | the element's own index along `axis` of c |
//! | `set` | the problem's value |
//! | `chain` | what its steps make of a' |
//!
//! AddTensor is `scale` with beta 1; ScaleTensor is `scale` with c for a. An extent of 1 in an input where c has more
//! repeats that tensor. The graph interface's activations are steps, too, and an operator of their own
//! ([`activation`](super::activation)). Any strides; every operand has an element type of its own. Computed in `f64`
//! where one of them is `f64` or an integer, else in `f32`, and rounded once to c's type. Where all of them are integers,
//! `div` rounds towards zero. Deterministic.
//!
//! # Chains
//!
//! A chain begins with a' and applies up to [`MAX_STEPS`] steps, one after the other, without going through memory:
//! `pointwise:chain steps=add:b,relu,mul:0.5,add:t` is `max(a' + b, 0) / 2 + t`, as behind a product with bias b and
//! residual t. A step is the name of an operation or of an activation and its arguments behind colons: inputs (`a`, `b`,
//! `t`, `u`, `v`, `w`), numbers, and `_` for the result so far, which is the first argument where there is none:
//! `div:b` divides it by b, `div:1:_` is its reciprocal, `select:b:t` keeps it where t is not 0. An activation's
//! parameters follow by name, as in `swish:coef=1.5`. `<activation>_backward:b` multiplies by the slope at b.
//!
//! A kernel reads a chain as a list; all threads take the same branch at each step. What is common has kernels of its own,
//! which read no list: single operations, and bias, activation and residual. What needs more than an element's
//! values, such as random numbers for a dropout, would be a step that is also given the element's index.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;
mod specialized;
#[cfg(not(target_arch = "nvptx64"))]
mod step;

pub use params::{
    InputParam, PointwiseParams, PointwiseSpecializedParams, PointwiseStreamParams, StepParam, StreamTensor, argument,
    step_op,
};
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::PointwiseProblem;
#[cfg(not(target_arch = "nvptx64"))]
pub use step::{Argument, Step, StepOp};

/// The most inputs of an operation.
pub const MAX_INPUTS: usize = 6;

/// The most steps of a chain.
pub const MAX_STEPS: usize = 8;

/// Names of inputs, in order; the output is c.
pub const INPUT_NAMES: [&str; MAX_INPUTS] = ["a", "b", "t", "u", "v", "w"];

/// Which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PointwisePass {
    /// a' + b'.
    Add = 0,
    /// a' b'.
    Mul = 1,
    /// The smaller.
    Min = 2,
    /// The larger.
    Max = 3,
    /// √a'.
    Sqrt = 4,
    /// 1 - a'.
    Not = 5,
    /// a'.
    Scale = 6,
    /// A value.
    Set = 7,
    /// a' - b'.
    Sub = 8,
    /// a' / b'.
    Div = 9,
    /// The remainder of that.
    Mod = 10,
    /// a' to the power b'.
    Pow = 11,
    /// a' + b'².
    AddSquare = 12,
    /// The angle of the point (b', a').
    Atan2 = 13,
    /// a' above 0, a' b' below.
    Prelu = 14,
    /// a' = b'.
    CmpEq = 15,
    /// a' ≠ b'.
    CmpNeq = 16,
    /// a' > b'.
    CmpGt = 17,
    /// a' ≥ b'.
    CmpGe = 18,
    /// a' < b'.
    CmpLt = 19,
    /// a' ≤ b'.
    CmpLe = 20,
    /// Both are true.
    LogicalAnd = 21,
    /// One is true, or both.
    LogicalOr = 22,
    /// One is true, and not both.
    LogicalXor = 23,
    /// a' is not true.
    LogicalNot = 24,
    /// |a'|.
    Abs = 25,
    /// The smallest integer not below a'.
    Ceil = 26,
    /// The cosine.
    Cos = 27,
    /// The error function.
    Erf = 28,
    /// The exponential.
    Exp = 29,
    /// The largest integer not above a'.
    Floor = 30,
    /// The natural logarithm.
    Log = 31,
    /// -a'.
    Neg = 32,
    /// 1 / a'.
    Reciprocal = 33,
    /// The nearest integer, ties to even.
    Round = 34,
    /// 1 / √a'.
    Rsqrt = 35,
    /// -1, 0 or 1.
    Sign = 36,
    /// The sine.
    Sin = 37,
    /// The tangent.
    Tan = 38,
    /// a' where t is true, else b'.
    Select = 39,
    /// An index of the element.
    GenIndex = 40,
    /// Steps.
    Chain = 41,
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
    Sub = "sub",
    Div = "div",
    Mod = "mod",
    Pow = "pow",
    AddSquare = "add_square",
    Atan2 = "atan2",
    Prelu = "prelu",
    CmpEq = "cmp_eq",
    CmpNeq = "cmp_neq",
    CmpGt = "cmp_gt",
    CmpGe = "cmp_ge",
    CmpLt = "cmp_lt",
    CmpLe = "cmp_le",
    LogicalAnd = "logical_and",
    LogicalOr = "logical_or",
    LogicalXor = "logical_xor",
    LogicalNot = "logical_not",
    Abs = "abs",
    Ceil = "ceil",
    Cos = "cos",
    Erf = "erf",
    Exp = "exp",
    Floor = "floor",
    Log = "log",
    Neg = "neg",
    Reciprocal = "reciprocal",
    Round = "round",
    Rsqrt = "rsqrt",
    Sign = "sign",
    Sin = "sin",
    Tan = "tan",
    Select = "select",
    GenIndex = "gen_index",
    Chain = "chain",
});

impl PointwisePass {
    /// Whether it takes so many instructions that streaming kernels do not have it, which compute many elements in a
    /// thread.
    pub const fn is_long(self) -> bool {
        use PointwisePass::{Atan2, Cos, Mod, Pow, Sin, Tan};
        matches!(self, Atan2 | Cos | Mod | Pow | Sin | Tan)
    }

    /// How many inputs it has; a chain has one or more.
    pub const fn n_inputs(self) -> usize {
        use PointwisePass::{
            Add, AddSquare, Atan2, CmpEq, CmpGe, CmpGt, CmpLe, CmpLt, CmpNeq, Div, GenIndex, LogicalAnd, LogicalOr,
            LogicalXor, Max, Min, Mod, Mul, Pow, Prelu, Select, Set, Sub,
        };
        match self {
            Select => 3,
            Add | AddSquare | Atan2 | CmpEq | CmpGe | CmpGt | CmpLe | CmpLt | CmpNeq | Div | LogicalAnd | LogicalOr
            | LogicalXor | Max | Min | Mod | Mul | Pow | Prelu | Sub => 2,
            GenIndex | Set => 0,
            _ => 1,
        }
    }
}
