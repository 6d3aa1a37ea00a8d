//! Softmax, formula in `kernel_abi::ops::softmax`.

mod cluster_rings;
mod cluster_rows;
mod columns;
mod entry;
mod lanes;
mod looped_rows;
mod naive;
mod pairs;
mod register_rows;
mod resident_rows;
mod split_rows;
mod streamed_rows;
