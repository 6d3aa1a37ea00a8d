//! f32 kernels on tf32 products: the rows of `conv_tf32x3_mma_kernels!` and `conv_tf32x3_cluster_kernels!`. Large tiles
//! copy four elements at a time, small ones as many as the parameters say. In a cluster, small tiles are for sums with few
//! tiles: two groups of warps share the terms.

use super::super::cp_async_mma;
use super::{Tf32x3, cluster};
use cuda_std::kernel;
use kernel_abi::ops::conv::cp_async_mma::CpAsyncMmaParams;

macro_rules! entries {
    ($(($symbol:ident, $pass:ident, $size:tt)),* $(,)?) => { $( entries!(@$size $symbol, $pass); )* };
    (@128 $symbol:ident, $pass:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`, and shared memory for the tile.
        #[kernel(threads = 256, min_blocks = 1)]
        pub unsafe fn $symbol(params: CpAsyncMmaParams) {
            cp_async_mma::$pass::<Tf32x3<1>, 4, 128, 4>(&params)
        }
    };
    (@64 $symbol:ident, $pass:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`, and shared memory for the tile.
        #[kernel(threads = 128, min_blocks = 3)]
        pub unsafe fn $symbol(params: CpAsyncMmaParams) {
            cp_async_mma::$pass::<Tf32x3<1>, 0, 64, 2>(&params)
        }
    };
}

kernel_abi::conv_tf32x3_mma_kernels!(entries);

macro_rules! cluster_entries {
    ($(($symbol:ident, $size:tt)),* $(,)?) => { $( cluster_entries!(@$size $symbol); )* };
    (@128 $symbol:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`, and shared memory for the tile.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 1)]
        pub unsafe fn $symbol(params: CpAsyncMmaParams) {
            cluster::wgrad::<4, 128, 4, 1>(&params)
        }
    };
    (@64 $symbol:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`, and shared memory for the tile.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 1)]
        pub unsafe fn $symbol(params: CpAsyncMmaParams) {
            cluster::wgrad::<0, 64, 2, 2>(&params)
        }
    };
}

kernel_abi::conv_tf32x3_cluster_kernels!(cluster_entries);
