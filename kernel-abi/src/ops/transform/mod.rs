//! Transform: a tensor in another layout, another element type, or both.
//!
//! `y = alpha · x + beta · y` for equal extents, any strides, and any two of the element types. Computed in f64 when
//! either is f64 or an integer type, else in f32; rounded once. Integers and 8-bit floating-point types saturate. Deterministic.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;
mod tiled_permute;
mod tiled_transpose;

pub use params::TransformParams;
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::TransformProblem;
pub use tiled_permute::{PERMUTE_LEVELS, PERMUTE_TILE, PermuteParams};
pub use tiled_transpose::{
    STORE_COLUMNS, STORE_GATHERED, STORE_MATRICES, STORE_MATRICES_NARROW, STORE_RUN, STORE_STAGED, TRANSPOSE_THREADS,
    TransposeParams,
};
