//! Local response normalization kernels: the rows of `lrn_kernels!`.

use super::{naive, register_windows};
use crate::math::element::{bf16, f16};
use kernel_abi::ops::lrn::LrnParams as Params;
use kernel_abi::ops::lrn::register_windows::{LrnWindowsParams, PLANE_CHANNELS, SINGLE_CHANNELS};

kernel_abi::lrn_kernels!(naive_entries);

macro_rules! window_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $half:literal, $threads:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, vectors at multiples of 16 bytes.
        #[cuda_std::kernel(threads = 256, min_blocks = 1)]
        pub unsafe fn $symbol(params: LrnWindowsParams) {
            window_entries!(@$threads $pass, $dtype, $half, &params)
        }
    )* };
    (@is_backward forward) => { false };
    (@is_backward backward) => { true };
    (@channels $pass:ident, $dtype:ident, $half:literal, $params:expr) => {
        register_windows::channels::<$dtype, { window_entries!(@is_backward $pass) }, $half, { 16 / size_of::<$dtype>() }>($params)
    };
    (@planes forward, $dtype:ident, $half:literal, $params:expr) => {
        register_windows::planes::<$dtype, false, $half, { PLANE_CHANNELS[0] as usize }, { 16 / size_of::<$dtype>() }>($params)
    };
    (@planes backward, $dtype:ident, $half:literal, $params:expr) => {
        register_windows::planes::<$dtype, true, $half, { PLANE_CHANNELS[1] as usize }, { 16 / size_of::<$dtype>() }>($params)
    };
    (@single $pass:ident, $dtype:ident, $half:literal, $params:expr) => {
        register_windows::planes::<$dtype, { window_entries!(@is_backward $pass) }, $half, { SINGLE_CHANNELS as usize }, 1>($params)
    };
}

kernel_abi::lrn_window_kernels!(window_entries);
