//! Softmax kernels: the rows of `softmax_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use cuda_std::kernel;
use kernel_abi::ops::softmax::SoftmaxParams;

macro_rules! entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        #[kernel(threads = 256, min_blocks = 1)]
        pub unsafe fn $symbol(params: SoftmaxParams) {
            naive::$pass::<$dtype>(&params)
        }
    )* };
}

kernel_abi::softmax_kernels!(entries);
