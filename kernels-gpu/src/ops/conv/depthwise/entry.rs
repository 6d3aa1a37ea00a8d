//! Depthwise kernels: the rows of `kernel_abi`'s `depthwise_…_kernels!`.

use super::{looped, reduce};
use crate::math::element::{bf16, f16};
use cuda_std::{kernel, shared_array};
use kernel_abi::ops::conv::DepthwiseParams;

macro_rules! is_channels_last {
    (nhwc) => {
        true
    };
    (nchw) => {
        false
    };
}

macro_rules! looped_entries {
    ($(($symbol:ident, $action:ident, $layout:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        #[kernel(threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: DepthwiseParams) {
            let shared = looped_entries!(@shared $action, $layout);
            looped::$action::<$dtype, { is_channels_last!($layout) }>(&params, shared)
        }
    )* };
    (@shared gather, nhwc) => { shared_array![f32; looped::TAPS] };
    (@shared gather, nchw) => { core::ptr::null_mut() };
    (@shared wgrad, $layout:ident) => { shared_array![f32; looped::SUMS] };
}

kernel_abi::depthwise_looped_kernels!(looped_entries);

macro_rules! reduce_entries {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        #[kernel(threads = 1024, min_blocks = 1)]
        pub unsafe fn $symbol(params: DepthwiseParams) {
            reduce::run::<$dtype>(&params, shared_array![f32; reduce::SUMS])
        }
    )* };
}

kernel_abi::depthwise_reduce_kernels!(reduce_entries);
