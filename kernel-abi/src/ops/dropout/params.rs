//! Launch parameters of the dropout kernels.

use crate::TensorParam;

crate::abi_struct! {
    /// Launch parameters of the dropout kernels, both passes.
    pub struct DropoutParams {
        /// Number of elements.
        pub n_elems: i64,
        /// What a word must reach for its element to be kept.
        pub threshold: u64,
        /// 1 / (1 - p); 0 for p = 1.
        pub scale: f64,
        /// Seed and offset; 0 where the mask is read.
        pub state: u64,
        /// The state behind this run; 0 where it is not wanted.
        pub next: u64,
        /// A bit an element: written forward, read backward; 0 where there is none.
        pub mask: u64,
        /// x or dy, dimensions in the order in which elements are counted, unused ones first.
        pub x: TensorParam,
        /// y or dx.
        pub y: TensorParam,
    }
}
