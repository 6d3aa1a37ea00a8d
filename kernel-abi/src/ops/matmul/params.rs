//! Launch parameters of the matmul kernels.

use super::MAX_BATCH_DIMS;

/// A batch of strided matrices as a kernel sees it. Strides are in elements.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct MatmulOperand {
    /// Device address of the first element.
    pub address: u64,
    /// Distances along the batch dimensions, outermost first.
    pub batch_strides: [i64; MAX_BATCH_DIMS],
    /// Distance between rows.
    pub row_stride: i64,
    /// Distance between columns.
    pub col_stride: i64,
}

crate::abi_struct! {
    /// Launch parameters of the naive kernels.
    pub struct MatmulParams {
        /// Rows of the product.
        pub gemm_m: i64,
        /// Columns of the product.
        pub gemm_n: i64,
        /// Length of the sums.
        pub gemm_k: i64,
        /// Extents of the batch dimensions, outermost first; unused leading ones are 1.
        pub batch_dims: [i64; MAX_BATCH_DIMS],
        /// Factor of the product.
        pub alpha: f64,
        /// Factor of c's prior value.
        pub beta: f64,
        /// `[…, m, k]`.
        pub a: MatmulOperand,
        /// `[…, k, n]`.
        pub b: MatmulOperand,
        /// `[…, m, n]`.
        pub c: MatmulOperand,
    }
}

crate::abi_struct! {
    /// Launch parameters of the Hopper kernels.
    ///
    /// The maps stand first: the hardware wants each at an address that is a multiple of 64, which their offsets and
    /// the parameter's alignment give. All maps are five-dimensional, fastest first: the contiguous matrix dimension,
    /// the other one, then three batch dimensions, innermost first.
    pub struct MatmulTmaParams {
        /// Map of a.
        pub a_map: [u64; 16],
        /// Map of b.
        pub b_map: [u64; 16],
        /// Map of c, for stores.
        pub c_map: [u64; 16],
        /// c itself, for reading its prior value; its columns are contiguous.
        pub c: MatmulOperand,
        /// Rows of the product.
        pub gemm_m: u32,
        /// Columns of the product.
        pub gemm_n: u32,
        /// Length of the sums.
        pub gemm_k: u32,
        /// Number of matrices.
        pub n_batch: u32,
        /// Extents of the batch dimensions, outermost first; unused leading ones are 1.
        pub batch_dims: [u32; MAX_BATCH_DIMS],
        /// Rows of tiles that are walked together, so that what they share stays in the L2 cache.
        pub raster_rows: u32,
        /// 1 where a has its own matrices along a batch dimension, 0 where it repeats: what batch indices are
        /// multiplied with to give a coordinate of its map.
        pub a_batch_steps: [u32; MAX_BATCH_DIMS],
        /// Factor of the product.
        pub alpha: f32,
        /// As for a.
        pub b_batch_steps: [u32; MAX_BATCH_DIMS],
        /// Factor of c's prior value.
        pub beta: f32,
    }
}

const _: () = assert!(core::mem::offset_of!(MatmulTmaParams, b_map) % 64 == 0);
const _: () = assert!(core::mem::offset_of!(MatmulTmaParams, c_map) % 64 == 0);
