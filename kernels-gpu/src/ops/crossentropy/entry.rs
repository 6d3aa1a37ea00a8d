//! Cross-entropy kernels: the rows of the lists in `kernel_abi::ops::crossentropy`.

use super::naive;
use crate::math::element::{bf16, f16};
use cuda_std::{kernel, shared_array};
use kernel_abi::ops::crossentropy::CrossEntropyParams as Params;
use kernel_abi::ops::crossentropy::CrossEntropySumParams;

kernel_abi::crossentropy_kernels!(naive_entries);

macro_rules! sums {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes as many live pairs as `params` says.
        #[kernel(threads = 1024, min_blocks = 1)]
        pub unsafe fn $symbol(params: CrossEntropySumParams) {
            naive::sum::<$dtype>(&params, shared_array![f64; 2 * 1024])
        }
    )* };
}

kernel_abi::crossentropy_sum_kernels!(sums);
