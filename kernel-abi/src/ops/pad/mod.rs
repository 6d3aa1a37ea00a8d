//! Padding, cropping and slicing: every element of y is one of x's, or a value.
//!
//! In each dimension, `y[i] = x[p]` with `p = step · i - before`; the run writes `alpha · that + beta · y`. What a position
//! outside of x's extent X stands for is a matter of the mode:
//!
//! | mode | element |
//! | --- | --- |
//! | `constant` | the problem's value |
//! | `edge` | the nearest: p = 0 or X - 1 |
//! | `reflect` | mirrored at the first and the last element, which are not repeated: …, 2, 1, 0, 1, 2, … |
//! | `wrap` | counted from the other end: p mod X |
//!
//! A position that is outside in one dimension of `constant` is outside altogether. y's extents are free: what is not
//! asked for at the end is cropped there, and a negative `before` crops at the beginning. X is x's extent whatever is
//! cropped. ONNX's Pad with negative pads, as onnxruntime has it, crops first: it is the padding of a window of x
//! ([`TensorDesc::slice`](crate::TensorDesc::slice)). Steps may be negative, but not 0:
//! this is ONNX's Pad and its Slice. Of a slice whose steps are positive no operator is needed: it is a window of
//! the tensor with strides that many times as long ([`TensorDesc::slice`](crate::TensorDesc::slice)), which every operator
//! takes; [`transform`](super::transform) copies it. So concatenations are transforms into windows of one tensor
//! ([`TensorDesc::split`](crate::TensorDesc::split)), and an expansion is one from a tensor with strides of 0
//! ([`TensorDesc::expanded`](crate::TensorDesc::expanded)).
//!
//! Backward: `dx = alpha · (sum of dy over all elements that were copied from x's) + beta · dx`, in the order of dy.
//!
//! x and y have one rank and one element type, any of them; strides are free. Deterministic.

mod gradient;
mod kernels;
mod line;
mod packed;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;
mod rows;

pub use gradient::PadGradientParams;
pub use line::PadLine;
pub use packed::{PACKED_AT_ONCE, PACKED_ROWS, PACKED_THREADS, PACKED_TILE_BYTES, PadPackedParams};
pub use params::{PadAxis, PadParams};
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::PadProblem;
pub use rows::{PIECES_AT_ONCE, PIECES_THREADS, PadRowsParams, ROW_LEVELS};

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PadPass {
    /// `x` to `y`.
    Forward,
    /// `dy` to `dx`.
    Backward,
}

crate::text_enum!(PadPass { Forward = "forward", Backward = "backward" });

/// What stands outside of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PadMode {
    /// A value.
    Constant = 0,
    /// The nearest element.
    Edge = 1,
    /// The elements, mirrored.
    Reflect = 2,
    /// The elements again.
    Wrap = 3,
}

crate::text_enum!(PadMode { Constant = "constant", Edge = "edge", Reflect = "reflect", Wrap = "wrap" });
