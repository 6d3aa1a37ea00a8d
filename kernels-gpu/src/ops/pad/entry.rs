//! Padding kernels: the rows of `kernel_abi`'s `pad_…kernels!`.

use super::{naive, rows};
use cuda_std::kernel;
use kernel_abi::ops::pad::{PadParams as Params, PadRowsParams};

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
