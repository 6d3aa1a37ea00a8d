//! Convolution kernels: the rows of `conv_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use cuda_std::kernel;
use kernel_abi::ops::conv::ConvParams;

macro_rules! entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        #[kernel(threads = 256)]
        pub unsafe fn $symbol(params: ConvParams) {
            naive::$pass::<$dtype>(&params)
        }
    )* };
}

kernel_abi::conv_kernels!(entries);
