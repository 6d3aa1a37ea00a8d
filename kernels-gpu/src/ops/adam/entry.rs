//! Adam kernels: the rows of the lists in `kernel_abi::ops::adam`.

use super::{list, naive};
use crate::math::element::{bf16, f16};
use cuda_std::kernel;
use kernel_abi::ops::adam::{AdamListParams, AdamParams};

macro_rules! naive_updates {
    ($(($symbol:ident, $dtype:ident, $state:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        #[kernel(threads = 256, min_blocks = 1)]
        pub unsafe fn $symbol(params: AdamParams) {
            naive::update::<$dtype, $state>(&params)
        }
    )* };
}

kernel_abi::adam_kernels!(naive_updates);

macro_rules! list_updates {
    ($(($symbol:ident, $dtype:ident, $state:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the sizes in `params`, whose operands lie alike.
        #[kernel(threads = 256, min_blocks = 2, unroll = 20000)]
        pub unsafe fn $symbol(params: AdamListParams) {
            list::update::<$dtype, $state>(&params)
        }
    )* };
}

kernel_abi::adam_list_kernels!(list_updates);
