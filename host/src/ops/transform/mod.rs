//! Layout and type transforms: formula in [`kernel_abi::ops::transform`].

mod algorithms;
mod as_pointwise;
mod copying;
mod cpu;
mod naive;
mod tiled_permute;
mod tiled_transpose;
mod transposed;
mod vectorized_copy;

pub(in crate::ops) use copying::Copying;
pub(in crate::ops) use tiled_transpose::Transposition;
pub(in crate::ops) use transposed::Copies;

pub use kernel_abi::ops::transform::TransformProblem;
