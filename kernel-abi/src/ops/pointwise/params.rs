//! Launch parameters of the pointwise kernels.

use super::{MAX_INPUTS, MAX_STEPS};
use crate::TensorParam;
use crate::division::Divisor;

/// What stands in [`StepParam::arguments`], beside numbers of inputs.
pub mod argument {
    /// The result so far.
    pub const RUNNING: u32 = 16;
    /// The number at the same place.
    pub const NUMBER: u32 = 17;
    /// Nothing.
    pub const NONE: u32 = 18;
}

/// What stands in [`StepParam::op`], beside numbers of a [`PointwisePass`](super::PointwisePass).
pub mod step_op {
    /// An activation: its value at the first argument.
    pub const ACTIVATION: u32 = 64;
    /// Its slope at the first argument times the second.
    pub const ACTIVATION_BACKWARD: u32 = 65;
    /// A quotient of integers.
    pub const DIV_INTEGERS: u32 = 66;
}

/// A step as kernels see it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct StepParam {
    /// Which operation: a [`PointwisePass`](super::PointwisePass) as a number, or one of [`step_op`].
    pub op: u32,
    /// An activation's mode.
    pub mode: u32,
    /// Where its arguments come from: numbers of inputs, or one of [`argument`].
    pub arguments: [u32; 3],
    /// Unused, keeps the next field aligned.
    pub reserved: u32,
    /// Numbers that are arguments, or an activation's parameters.
    pub numbers: [f64; 3],
}

impl StepParam {
    /// What fills the list behind its last step.
    pub const NONE: Self = StepParam { op: 0, mode: 0, arguments: [argument::NONE; 3], reserved: 0, numbers: [0.0; 3] };
}

/// An input as the kernel for any problem sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct InputParam {
    /// Its elements, with c's extents: stride 0 where it is repeated.
    pub tensor: TensorParam,
    /// Its factor.
    pub factor: f64,
    /// Its element type, a [`DType`](crate::DType) as a number.
    pub dtype: u32,
    /// 1 where it has no memory: its elements are their own offsets.
    pub is_index: u32,
}

crate::abi_struct! {
    /// Launch parameters of the kernels that take any problem.
    pub struct PointwiseParams {
        /// Elements of c.
        pub n_elems: i64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// Element type of c.
        pub c_dtype: u32,
        /// Inputs, those of `gen_index` counted.
        pub n_inputs: u32,
        /// Steps.
        pub n_steps: u32,
        /// How numbers become integers: [`Cast::bits`](crate::Cast::bits).
        pub cast: u32,
        /// Output.
        pub c: TensorParam,
        /// The steps; the first finds the first input as the result so far.
        pub steps: [StepParam; MAX_STEPS],
        /// The inputs.
        pub inputs: [InputParam; MAX_INPUTS],
    }
}

/// A tensor as the streaming kernels see it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct StreamTensor {
    /// Device address of the first element.
    pub address: u64,
    /// Factor of an input.
    pub factor: f64,
    /// Between runs, innermost first, in elements; 0 where runs are repeated.
    pub strides: [i64; 3],
    /// Element type, a [`DType`](crate::DType) as a number.
    pub dtype: u32,
    /// Bytes of an element.
    pub element_bytes: u32,
    /// 1 where the elements of a run lie one behind the other, 0 where they are one.
    pub runs: u32,
    /// Unused, keeps the next field aligned.
    pub reserved: u32,
}

crate::abi_struct! {
    /// Launch parameters of the streaming kernels: runs of elements that lie one behind the other in c.
    ///
    /// Run `(i2 · middle + i1) · inner + i0` begins at `Σ i · strides`. The first threads have a piece of a run each, the
    /// others one of the elements that are left at the ends of runs.
    pub struct PointwiseStreamParams {
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// Runs of the innermost loop.
        pub inner: Divisor,
        /// Runs of the loop around it.
        pub middle: Divisor,
        /// Pieces of a run.
        pub run_pieces: Divisor,
        /// Elements behind the pieces of a run.
        pub run_singles: Divisor,
        /// Pieces of all runs.
        pub pieces: u32,
        /// Elements behind pieces of all runs.
        pub singles: u32,
        /// The first element behind a run's pieces.
        pub first_single: u32,
        /// Inputs.
        pub n_inputs: u32,
        /// Steps.
        pub n_steps: u32,
        /// How numbers become integers: [`Cast::bits`](crate::Cast::bits).
        pub cast: u32,
        /// Output.
        pub c: StreamTensor,
        /// The steps; the first finds the first input as the result so far.
        pub steps: [StepParam; MAX_STEPS],
        /// The inputs.
        pub inputs: [StreamTensor; MAX_INPUTS],
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels that are made for one operation: tensors without gaps, alike in memory.
    ///
    /// The first items are pieces of neighbouring elements, the others one of the elements behind them each.
    pub struct PointwiseSpecializedParams {
        /// Device address of a.
        pub a: u64,
        /// Device address of b.
        pub b: u64,
        /// Device address of t, 0 where there is none.
        pub t: u64,
        /// Device address of c.
        pub c: u64,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
        /// Factor of a.
        pub factor_a: f32,
        /// Factor of b.
        pub factor_b: f32,
        /// An activation's parameters.
        pub parameters: [f32; 3],
        /// Pieces.
        pub pieces: u32,
        /// Elements behind the pieces.
        pub singles: u32,
        /// Items of a block: one for each of its threads, or two.
        pub block_items: u32,
        /// Items that one place in a repeated b serves, one behind the other.
        pub period: Divisor,
        /// Places in a repeated b.
        pub places: Divisor,
        /// 1 where a place in b has as many elements as an item, 0 where it has one for all of them.
        pub place_runs: u32,
        /// 1 where every factor is 1, beta is 0, and the parameters of relu, if it is that, are 0, ∞ and 0.
        pub plain: u32,
        /// Kernels of Hopper: 1 where the second-level cache is asked to give up what is read last of all.
        pub keep: u32,
    }
}
