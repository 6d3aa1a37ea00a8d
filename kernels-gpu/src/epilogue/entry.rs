//! The rows of the lists in `kernel_abi::epilogue`.

use super::separate;
use crate::math::element::{bf16, f16};
use cuda_std::{kernel, shared_array};
use kernel_abi::epilogue::{EpilogueSumsParams, SeparateEpilogueParams};

macro_rules! separate_entries {
    ($(($symbol:ident, $dtype:ident, $sums:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, and room for the parts of sums.
        #[kernel(threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: SeparateEpilogueParams) {
            // As wide as the widest type of sums.
            let parts = shared_array![f64; 2 * separate::BLOCK] as *mut $sums;
            if params.vectors != 0 {
                separate::pass::<$dtype, $sums, { 16 / size_of::<$dtype>() }>(&params, parts)
            } else {
                separate::pass::<$dtype, $sums, 1>(&params, parts)
            }
        }
    )* };
}

kernel_abi::epilogue_separate_kernels!(separate_entries);

macro_rules! sums_entries {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes parts of sums that are written, and room for the sums.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: EpilogueSumsParams) {
            separate::add_up::<$dtype>(&params)
        }
    )* };
}

kernel_abi::epilogue_sums_kernels!(sums_entries);
