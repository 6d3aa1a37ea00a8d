//! Padding kernels: the rows of `kernel_abi`'s `pad_…kernels!`.

use super::{gradient, naive, packed, packed_gradient, rows};
use crate::math::element::{bf16, f16};
use cuda_std::kernel;
use kernel_abi::ops::pad::{PadGradientParams, PadPackedParams, PadParams as Params, PadRowsParams};

kernel_abi::pad_kernels!(naive_entries);

macro_rules! row_entries {
    ($(($symbol:ident, $bytes:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, at multiples of an element's bytes.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: PadRowsParams) {
            rows::copy::<$bytes, { 16 / $bytes }>(&params)
        }
    )* };
}

kernel_abi::pad_row_kernels!(row_entries);

macro_rules! packed_entries {
    ($(($symbol:ident, $bytes:literal)),* $(,)?) => { $(
        /// # Safety
        /// As of the rows' kernels.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: PadPackedParams) {
            packed::copy::<$bytes, { 16 / $bytes }>(&params)
        }
    )* };
}

kernel_abi::pad_packed_kernels!(packed_entries);

macro_rules! gradient_entries {
    ($(($symbol:ident, $pass:ident, $t:ident)),* $(,)?) => { $(
        /// # Safety
        /// As of the rows' kernels.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: PadGradientParams) {
            gradient::gather::<$t, { 16 / size_of::<$t>() }>(&params)
        }
    )* };
}

kernel_abi::pad_gradient_kernels!(gradient_entries);

macro_rules! packed_gradient_entries {
    ($(($symbol:ident, $pass:ident, $t:ident)),* $(,)?) => { $(
        /// # Safety
        /// As of the rows' kernels.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: PadPackedParams) {
            packed_gradient::gather::<$t, { size_of::<$t>() }, { 16 / size_of::<$t>() }>(&params)
        }
    )* };
}

kernel_abi::pad_packed_gradient_kernels!(packed_gradient_entries);
