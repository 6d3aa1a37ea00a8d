//! Reduction kernels: the rows of the lists in `kernel_abi::ops::reduce`.

use super::{naive, vectorized};
use crate::math::element::{bf16, f16};
use cuda_std::{kernel, shared_array};
use kernel_abi::ops::reduce::{ReduceParams as Params, ReducePartsParams};

kernel_abi::reduce_kernels!(naive_entries);

macro_rules! vector_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, and room for the parts.
        #[kernel(threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: ReducePartsParams) {
            // As wide as the widest accumulator.
            let shared = shared_array![f64; vectorized::BLOCK] as *mut _;
            if params.vectors != 0 {
                vectorized::$pass::<$dtype, { 16 / size_of::<$dtype>() }>(&params, shared)
            } else {
                vectorized::$pass::<$dtype, 1>(&params, shared)
            }
        }
    )* };
}

kernel_abi::reduce_vector_kernels!(vector_entries);

macro_rules! finish_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes parts that are written, and a live output.
        #[kernel(threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: ReducePartsParams) {
            vectorized::$pass::<$dtype>(&params)
        }
    )* };
}

kernel_abi::reduce_finish_kernels!(finish_entries);
