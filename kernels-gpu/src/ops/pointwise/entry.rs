//! Pointwise kernels: the rows of the lists in `kernel_abi::ops::pointwise`.

use super::naive;
use super::streamed::streamed;
use crate::math::approximate::Approximate;
use cuda_std::kernel;
use kernel_abi::ops::pointwise::{PointwiseParams as Params, PointwiseStreamParams};

kernel_abi::pointwise_kernels!(naive_entries);

macro_rules! stream_entries {
    ($(($symbol:ident, $number:ident, $elems:literal, $blocks:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, of types that the kernel has.
        #[kernel(threads = 256, min_blocks = $blocks)]
        pub unsafe fn $symbol(params: PointwiseStreamParams) {
            streamed::<$number, $elems>(&params)
        }
    )* };
}

kernel_abi::pointwise_stream_kernels!(stream_entries);
