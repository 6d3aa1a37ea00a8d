//! Pooling kernels: the rows of `pool_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use cuda_std::kernel;
use kernel_abi::ops::pool::PoolParams;

macro_rules! entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        #[kernel(threads = 256, min_blocks = 1)]
        pub unsafe fn $symbol(params: PoolParams) {
            naive::$pass::<$dtype>(&params)
        }
    )* };
}

kernel_abi::pool_kernels!(entries);
