//! Transform kernels: the rows of `transform_kernels!` and `transform_copy_kernels!`.

use super::{naive, vectorized_copy};
use crate::math::element::{bf16, f16};
use cuda_std::kernel;
use kernel_abi::ops::transform::TransformParams;

macro_rules! entries {
    ($(($symbol:ident, $x:ident, $y:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        #[kernel(threads = 256, min_blocks = 1)]
        pub unsafe fn $symbol(params: TransformParams) {
            naive::forward::<$x, $y>(&params)
        }
    )* };
}

kernel_abi::transform_kernels!(entries);

macro_rules! copies {
    ($(($symbol:ident, $words:literal, $block:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the same bytes, at multiples of 16.
        #[kernel(threads = $block)]
        pub unsafe fn $symbol(params: TransformParams) {
            vectorized_copy::forward::<$words, $block>(&params)
        }
    )* };
}

kernel_abi::transform_copy_kernels!(copies);
