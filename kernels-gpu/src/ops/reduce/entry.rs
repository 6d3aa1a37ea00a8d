//! Reduction kernels: the rows of the lists in `kernel_abi::ops::reduce`.

use super::{integers, naive, vectorized};
use crate::math::element::{bf16, f16};
use cuda_std::{kernel, shared_array};
use kernel_abi::ops::reduce::{ReduceParams as Params, ReducePartsParams};

kernel_abi::reduce_kernels!(naive_entries);

macro_rules! integer_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        #[kernel(threads = 256, min_blocks = 1)]
        pub unsafe fn $symbol(params: Params) {
            integers::any(&params)
        }
    )* };
}

kernel_abi::reduce_integer_kernels!(integer_entries);

macro_rules! vector_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $( vector_entries!(=$pass $symbol, $dtype); )* };
    // More loads under way take registers.
    (=first $symbol:ident, $dtype:ident) => { vector_entries!(=3, first $symbol, $dtype); };
    // Parts and their factors do, too.
    (=finish $symbol:ident, $dtype:ident) => { vector_entries!(=2, finish $symbol, $dtype); };
    (=$pass:ident $symbol:ident, $dtype:ident) => { vector_entries!(=4, $pass $symbol, $dtype); };
    (=$blocks:literal, $pass:ident $symbol:ident, $dtype:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, and room for the parts.
        #[kernel(threads = 256, min_blocks = $blocks)]
        pub unsafe fn $symbol(params: ReducePartsParams) {
            let shared = shared_array![u8; vectorized::SHARED];
            vector_entries!(@$pass $dtype, params, shared)
        }
    };
    (@columns $dtype:ident, $params:ident, $shared:ident) => {
        if $params.vectors != 0 {
            vectorized::columns::<$dtype, { 16 / size_of::<$dtype>() }>(&$params, $shared)
        } else {
            vectorized::columns::<$dtype, 1>(&$params, $shared)
        }
    };
    (@rows $dtype:ident, $params:ident, $shared:ident) => {
        vectorized::rows::<$dtype, { vectorized::BLOCK }>(&$params, $shared)
    };
    (@$pass:ident $dtype:ident, $params:ident, $shared:ident) => {
        vectorized::$pass::<$dtype>(&$params, $shared)
    };
}

kernel_abi::reduce_vector_kernels!(vector_entries);
kernel_abi::reduce_finish_kernels!(vector_entries);

macro_rules! run_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// As above; runs are as far apart as multiples of 16 bytes.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: ReducePartsParams) {
            vectorized::$pass::<$dtype>(&params, shared_array![u8; vectorized::SHARED])
        }
    )* };
}

kernel_abi::reduce_run_kernels!(run_entries);

macro_rules! wide_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// As above.
        #[kernel(threads = 1024, min_blocks = 1)]
        pub unsafe fn $symbol(params: ReducePartsParams) {
            vectorized::$pass::<$dtype, { vectorized::WIDE_BLOCK }>(&params, shared_array![u8; vectorized::SHARED])
        }
    )* };
}

kernel_abi::reduce_wide_kernels!(wide_entries);
