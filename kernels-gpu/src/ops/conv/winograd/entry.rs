//! The rows of `conv_winograd_sm90_kernels!` and `conv_winograd_kernels!`.

use super::Transform;
use cuda_std::{kernel, schedule};
use kernel_abi::ops::conv::winograd::{F2, F4, WinogradFilterParams, WinogradImageParams, WinogradOutputParams};

macro_rules! chained {
    ($(($symbol:ident, $what:ident, $params:ident, $tile:ident)),* $(,)?) => { $(
        chained!(@of $what, $symbol, $params, $tile);
    )* };
    // Its numbers are f64, and there are few of its threads.
    (@of taps, $symbol:ident, $params:ident, $tile:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        #[kernel(arch = "sm_90a", threads = 128, min_blocks = 2)]
        pub unsafe fn $symbol(params: $params) {
            schedule::launch_dependents();
            schedule::wait_for_predecessors();
            <$tile as Transform<_>>::taps(&params)
        }
    };
    (@of $what:ident, $symbol:ident, $params:ident, $tile:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        #[kernel(arch = "sm_90a", threads = 128, min_blocks = 3)]
        pub unsafe fn $symbol(params: $params) {
            schedule::launch_dependents();
            schedule::wait_for_predecessors();
            <$tile as Transform<_>>::$what(&params)
        }
    };
}

kernel_abi::conv_winograd_sm90_kernels!(chained);

macro_rules! alone {
    ($(($symbol:ident, $what:ident, $params:ident, $tile:ident)),* $(,)?) => { $(
        alone!(@of $what, $symbol, $params, $tile);
    )* };
    (@of taps, $symbol:ident, $params:ident, $tile:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        #[kernel(threads = 128, min_blocks = 2)]
        pub unsafe fn $symbol(params: $params) {
            <$tile as Transform<_>>::taps(&params)
        }
    };
    (@of $what:ident, $symbol:ident, $params:ident, $tile:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        #[kernel(threads = 128, min_blocks = 3)]
        pub unsafe fn $symbol(params: $params) {
            <$tile as Transform<_>>::$what(&params)
        }
    };
}

kernel_abi::conv_winograd_kernels!(alone);
