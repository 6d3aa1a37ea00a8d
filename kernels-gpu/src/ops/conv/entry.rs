//! Convolution kernels: the rows of `conv_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use cuda_std::kernel;
use kernel_abi::ops::conv::ConvParams;

// Two blocks a multiprocessor leave a thread 128 registers: left alone, ptxas takes fewer and spills the strides of the
// five axes that the loops step by.
macro_rules! entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        #[kernel(threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: ConvParams) {
            naive::$pass::<$dtype>(&params)
        }
    )* };
}

kernel_abi::conv_kernels!(entries);
