//! Depthwise kernels: the rows of `kernel_abi`'s `depthwise_…_kernels!`.

use super::{channels_last, looped, planes, reduce, toeplitz, windows};
use crate::math::element::{bf16, f16};
use cuda_std::{kernel, shared_array};
use kernel_abi::ops::conv::{DepthwiseParams, WINDOWS_QUAD};

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

macro_rules! channels_last_entries {
    ($(($symbol:ident, $action:ident, $r:literal, $stride:literal, $ring:literal, $vec:literal, $strip:literal,
        $columns:literal, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        // 128 registers a thread: what the sums under way and the taps take.
        #[kernel(threads = 256, min_blocks = 2, unroll = 20000)]
        pub unsafe fn $symbol(params: DepthwiseParams) {
            channels_last_entries!(@$action params, $r, $stride, $ring, $vec, $strip, $columns, $dtype)
        }
    )* };
    (@gather $params:ident, $r:literal, $stride:literal, $ring:literal, $vec:literal, $strip:literal,
        $columns:literal, $dtype:ident) => {{
        const AHEAD: usize = channels_last::rows_ahead($r, $stride, $strip);
        let taps = shared_array![f32; channels_last::n_taps($vec, $r)];
        channels_last::gather::<$dtype, $vec, $r, $stride, $ring, $strip, $columns, AHEAD>(&$params, taps)
    }};
    (@spread $params:ident, $r:literal, $stride:literal, $ring:literal, $vec:literal, $strip:literal,
        $columns:literal, $dtype:ident) => {{
        let taps = shared_array![f32; channels_last::n_taps($vec, $r)];
        channels_last::spread::<$dtype, $vec, $r, $ring, $strip, { $stride * $strip }, $columns>(&$params, taps)
    }};
    (@wgrad $params:ident, $r:literal, $stride:literal, $ring:literal, $vec:literal, $strip:literal,
        $columns:literal, $dtype:ident) => {{
        let sums = shared_array![f32; channels_last::n_sums($vec, $r)];
        channels_last::wgrad::<$dtype, $vec, $r, $stride, $ring, $strip, $columns>(&$params, sums)
    }};
}

kernel_abi::depthwise_channels_last_kernels!(channels_last_entries);

macro_rules! planes_entries {
    ($(($symbol:ident, $action:ident, $r:literal, $stride:literal, $ring:literal, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`, images at multiples of 16.
        #[kernel(threads = 256, min_blocks = 2, unroll = 20000)]
        pub unsafe fn $symbol(params: DepthwiseParams) {
            let shared = shared_array![u8; planes::SHARED_BYTES];
            planes_entries!(@$action params, shared, $r, $stride, $ring, $dtype)
        }
    )* };
    (@gather $params:ident, $shared:ident, $r:literal, $stride:literal, $ring:literal, $dtype:ident) => {
        planes::gather::<$dtype, $r, $stride, $ring>(&$params, $shared)
    };
    (@spread $params:ident, $shared:ident, $r:literal, $stride:literal, $ring:literal, $dtype:ident) => {
        planes::spread::<$dtype, $r, $ring>(&$params, $shared)
    };
    (@wgrad $params:ident, $shared:ident, $r:literal, $stride:literal, $ring:literal, $dtype:ident) => {
        planes::wgrad::<$dtype, $r, $stride, $ring>(&$params, $shared)
    };
}

kernel_abi::depthwise_planes_kernels!(planes_entries);

macro_rules! toeplitz_entries {
    ($(($symbol:ident, $action:ident, $staged:tt, $r:literal, $dtype:ident)),* $(,)?) => {
        $(toeplitz_entries!(@$action $staged, $symbol, $r, $dtype);)*
    };
    (@gather false, $symbol:ident, $r:literal, $dtype:ident) => {
        toeplitz_entries!(@kernel 256, 3, $symbol, toeplitz::gather::<$dtype, $r, false>);
    };
    (@gather true, $symbol:ident, $r:literal, $dtype:ident) => {
        toeplitz_entries!(@kernel 128, 4, $symbol, toeplitz::gather::<$dtype, $r, true>);
    };
    (@wgrad true, $symbol:ident, $r:literal, $dtype:ident) => {
        toeplitz_entries!(@kernel 128, 4, $symbol, toeplitz::wgrad::<$dtype, $r>);
    };
    (@kernel $threads:literal, $min_blocks:literal, $symbol:ident, $run:expr) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`, images at multiples of 16.
        #[kernel(threads = $threads, min_blocks = $min_blocks, unroll = 20000)]
        pub unsafe fn $symbol(params: DepthwiseParams) {
            $run(&params, shared_array![u8; toeplitz::SHARED_BYTES])
        }
    };
}

kernel_abi::depthwise_toeplitz_kernels!(toeplitz_entries);

macro_rules! windows_entries {
    ($(($symbol:ident, $action:ident, $layout:ident, $r:literal, $stride:literal, $strip:literal,
        $dtype:ident)),* $(,)?) => {
        $(windows_entries!(@$action $symbol, $layout, $r, $stride, $strip, $dtype);)*
    };
    (@gather $symbol:ident, $layout:ident, $r:literal, $stride:literal, $strip:literal, $dtype:ident) => {
        windows_entries!(@kernel $symbol, $layout, $r, $stride, 1, $strip, $dtype);
    };
    (@quads $symbol:ident, nchw, $r:literal, $stride:literal, $strip:literal, $dtype:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`, at multiples of an access.
        #[kernel(threads = 256, min_blocks = 2, unroll = 20000)]
        pub unsafe fn $symbol(params: DepthwiseParams) {
            const LEFT: usize = $r / 2;
            const RIGHT: usize = ($strip - 1) * $stride + $r - LEFT - WINDOWS_QUAD as usize;
            windows::quads::<$dtype, $r, $stride, $strip, LEFT, RIGHT>(&params)
        }
    };
    (@spread $symbol:ident, $layout:ident, $r:literal, $stride:literal, $strip:literal, $dtype:ident) => {
        windows_entries!(@kernel $symbol, $layout, $r, 1, 2, $strip, $dtype);
    };
    (@kernel $symbol:ident, $layout:ident, $r:literal, $stride:literal, $spread:literal, $strip:literal,
        $dtype:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`, at multiples of an access.
        #[kernel(threads = 256, min_blocks = 2, unroll = 20000)]
        pub unsafe fn $symbol(params: DepthwiseParams) {
            const LAST: bool = is_channels_last!($layout);
            const VEC: usize = windows::channels(LAST);
            windows::gather::<$dtype, VEC, LAST, $r, $stride, $spread, $strip, { ($strip - 1) * $stride + $r }>(&params)
        }
    };
    (@wgrad $symbol:ident, $layout:ident, $r:literal, $stride:literal, $strip:literal, $dtype:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`, at multiples of an access.
        #[kernel(threads = 512, min_blocks = 1, unroll = 20000)]
        pub unsafe fn $symbol(params: DepthwiseParams) {
            const LAST: bool = is_channels_last!($layout);
            const VEC: usize = windows::channels(LAST);
            let sums = shared_array![f32; windows::n_sums(VEC, LAST, $r)];
            windows::wgrad::<$dtype, VEC, LAST, $r, $stride, $strip, { ($strip - 1) * $stride + $r }>(&params, sums)
        }
    };
}

kernel_abi::depthwise_windows_kernels!(windows_entries);
