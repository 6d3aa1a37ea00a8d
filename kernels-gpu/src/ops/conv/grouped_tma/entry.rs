//! The entries: the rows of `conv_grouped_tma_kernels!`.

use super::{forward, narrow_wgrad, wgrad};
use crate::math::element::{bf16, f16};
use cuda_std::{kernel, param_tensor_map};
use kernel_abi::ops::conv::grouped_tma::ConvGroupedTmaParams;

macro_rules! entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $width:literal, $taps:tt, $stride:literal, $threads:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`, and shared memory for the tile.
        // Registers for the filters, or for the sums of all taps.
        #[kernel(arch = "sm_90a", threads = $threads, min_blocks = 1, tensor_maps = 2, unroll = 20000)]
        pub unsafe fn $symbol(params: ConvGroupedTmaParams) {
            let maps = [param_tensor_map!($symbol, 0), param_tensor_map!($symbol, 1)];
            entries!(@$pass &params, maps, $dtype, $width, $taps, $stride)
        }
    )* };
    (@fprop $params:expr, $maps:expr, $dtype:ident, $width:literal, $taps:literal, $stride:literal) => {
        entries!(@forward $params, $maps, $dtype, $width, $taps, $stride, false)
    };
    (@dgrad $params:expr, $maps:expr, $dtype:ident, $width:literal, $taps:literal, $stride:literal) => {
        entries!(@forward $params, $maps, $dtype, $width, $taps, $stride, true)
    };
    (@forward $params:expr, $maps:expr, $dtype:ident, $width:literal, $taps:literal, $stride:literal, $transposed:literal) => {
        forward::run::<
            $dtype,
            $width,
            { $width / 8 },
            { ($width + 15) / 16 },
            $taps,
            { $taps * $taps },
            { if $taps == 3 { 2 } else { 1 } },
            $stride,
            { ($taps - 1) / $stride + 1 },
        >($params, $maps, $transposed)
    };
    (@wgrad $params:expr, $maps:expr, $dtype:ident, $width:literal, 3, $stride:literal) => {
        wgrad::run::<$dtype, $width, { if $width == 8 { 2 } else { 3 } }, $stride, { 4 - $stride }>($params, $maps)
    };
    (@wgrad $params:expr, $maps:expr, $dtype:ident, $width:literal, $taps:literal, $stride:literal) => {
        narrow_wgrad::run::<$dtype, $taps, { ($taps + 1) / 2 }, $stride, { ($taps - 1) / $stride + 1 }>($params, $maps)
    };
}

kernel_abi::conv_grouped_tma_kernels!(entries);
