//! The rows of `conv_fft_kernels!`.

use super::{tiled, whole};
use cuda_std::{kernel, shared_array};
use kernel_abi::ops::conv::fft::{ConvFftFilterParams, ConvFftTilesParams, frequencies, slots};

macro_rules! entries {
    ($(($symbol:ident, $form:ident, $what:ident, $params:ident, $size:literal, $threads:literal, $blocks:literal)),*
        $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        #[kernel(threads = $threads, min_blocks = $blocks, unroll = 20000)]
        pub unsafe fn $symbol(params: $params) {
            entries!(@$form $what, $size, params)
        }
    )* };
    (@tiled $what:ident, $size:literal, $params:ident) => {{
        let shared = shared_array![f32; { (frequencies($size) * 2 * slots($size)) as usize }];
        tiled::$what::<$size>(&$params, shared)
    }};
    (@whole $what:ident, $size:literal, $params:ident) => {
        whole::$what::<$size>(&$params)
    };
}

kernel_abi::conv_fft_kernels!(entries);
