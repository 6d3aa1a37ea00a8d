//! Gathering kernels: the rows of `kernel_abi`'s `gather_…kernels!`.

use super::{naive, ranges, rows};
use crate::math::element::{bf16, f16};
use cuda_std::{kernel, shared_array};
use kernel_abi::ops::gather::{
    GatherListedParams, GatherParams as Params, GatherRangesParams, GatherRowsParams, GatherSumParams,
};

kernel_abi::gather_kernels!(naive_entries);

macro_rules! copy_entries {
    ($(($symbol:ident, $bytes:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, at multiples of the bytes of an access.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: GatherRowsParams) {
            rows::copy::<$bytes>(&params)
        }
    )* };
}

kernel_abi::gather_copy_kernels!(copy_entries);

macro_rules! sum_entries {
    ($(($symbol:ident, $dtype:ident, $vec:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, at multiples of 16 for 16 bytes an access.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: GatherSumParams) {
            let list = shared_array![u32; rows::N_LIST];
            let counts = shared_array![u32; rows::N_COUNTS];
            rows::sum::<$dtype, $vec>(&params, None, list, counts)
        }
    )* };
}

kernel_abi::gather_sum_kernels!(sum_entries);

macro_rules! range_entries {
    ($(($symbol:ident, $step:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live indices and workspace, of the extents in `params`.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: GatherRangesParams) {
            let totals = shared_array![u32; rows::N_WARPS];
            ranges::$step(&params, totals)
        }
    )* };
}

kernel_abi::gather_range_kernels!(range_entries);

macro_rules! listed_entries {
    ($(($symbol:ident, $dtype:ident, $vec:literal)),* $(,)?) => { $(
        /// # Safety
        /// As of the other sums, with the lists that the kernels before made.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: GatherListedParams) {
            let list = shared_array![u32; rows::N_LIST];
            let counts = shared_array![u32; rows::N_COUNTS];
            rows::sum::<$dtype, $vec>(&params.sum, Some(&params.ranges), list, counts)
        }
    )* };
}

kernel_abi::gather_listed_kernels!(listed_entries);
