//! The entries: the rows of `conv_depthwise_tma_kernels!`.

use super::run;
use crate::math::element::{bf16, f16};
use cuda_std::{kernel, param_tensor_map};
use kernel_abi::ops::conv::depthwise_tma::ConvDepthwiseTmaParams;

macro_rules! entries {
    ($(($symbol:ident, $action:ident, $r:literal, $stride:literal, $shift:literal, $ring:literal, $strip:literal,
        $columns:literal, $threads:literal, $blocks:literal, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`, and shared memory for the tile.
        // Registers for the sums under way and the taps.
        #[kernel(arch = "sm_90a", threads = $threads, min_blocks = $blocks, tensor_maps = 2, unroll = 20000)]
        pub unsafe fn $symbol(params: ConvDepthwiseTmaParams) {
            let maps = [param_tensor_map!($symbol, 0), param_tensor_map!($symbol, 1)];
            entries!(@$action &params, maps, $r, $stride, $shift, $ring, $strip, $columns, $dtype)
        }
    )* };
    (@gather $params:expr, $maps:expr, $r:literal, $stride:literal, $shift:literal, $ring:literal, $strip:literal,
        $columns:literal, $dtype:ident) => {
        run::<$dtype, $r, $stride, 1, $shift, $ring, $ring, $strip, $columns>($params, $maps)
    };
    (@spread $params:expr, $maps:expr, $r:literal, $stride:literal, $shift:literal, $ring:literal, $strip:literal,
        $columns:literal, $dtype:ident) => {
        run::<$dtype, $r, 1, $stride, $shift, $ring, { $stride * $ring }, { $stride * $strip }, $columns>($params, $maps)
    };
}

kernel_abi::conv_depthwise_tma_kernels!(entries);
