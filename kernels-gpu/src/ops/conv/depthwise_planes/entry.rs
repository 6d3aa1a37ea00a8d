//! The entries: the rows of `conv_depthwise_planes_kernels!`.

use super::run;
use crate::math::element::{bf16, f16};
use cuda_std::kernel;
use kernel_abi::ops::conv::depthwise_planes::ConvDepthwisePlanesParams;

macro_rules! entries {
    ($(($symbol:ident, $r:literal, $stride:literal, $odd_source:literal, $odd_target:literal, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes addresses and extents of live tensors in `params`, and shared memory for the tile.
        // DEPTHWISE_PLANES_THREADS.
        #[kernel(arch = "sm_90a", threads = 640, min_blocks = 1, unroll = 20000)]
        pub unsafe fn $symbol(params: ConvDepthwisePlanesParams) {
            run::<$dtype, $r, $stride, { $stride + 1 }, { $r + $stride }, $odd_source, $odd_target>(&params)
        }
    )* };
}

kernel_abi::conv_depthwise_planes_kernels!(entries);
