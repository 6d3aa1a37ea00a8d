//! Max unpooling: what max pooling left of an image, put back to where it came from, among zeros.
//!
//! - Forward: `y[n,c,i] = x[n,c,o]` of the last output o of the pooling, in row-major order, whose window holds position
//!   i of the image plane and whose `index[n,c,o]` names it; 0 where there is none.
//! - Backward: `dx[n,c,o] = dy[n,c,i]` at the position i that `index[n,c,o]` names; 0 where it names none in the window.
//!   That is the gradient of Σ dy y by x where no position is named twice, and what PyTorch computes in any case.
//!
//! x has the extents of the pooling's y, and y those of its x: windows, numbers of `index` and refusals are those of
//! [`pool`](super::pool). An index outside its window counts as none.
//!
//! Tensors are `[N, C, spatial...]` of rank 3 to 5 with any strides; x and y have one element type, `index` i32 or i64.
//! Values are copied; alpha and beta in the accumulator type. Deterministic: each element of y looks for its own value.
//!
//! Sources: MaxUnpool of ONNX, where an `output_shape` beyond the pooled image is a matter of y's strides; `max_unpool2d` of
//! PyTorch.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;

pub use params::UnpoolParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::UnpoolProblem;

/// Which pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnpoolPass {
    /// `x` to `y`.
    Forward,
    /// `dy` to `dx`.
    Backward,
}

crate::text_enum!(UnpoolPass { Forward = "forward", Backward = "backward" });
