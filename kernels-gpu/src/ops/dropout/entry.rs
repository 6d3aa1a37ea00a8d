//! Dropout kernels: the rows of `dropout_kernels!`.

use super::{naive, vectorized};
use crate::math::element::{bf16, f16};
use kernel_abi::ops::dropout::DropoutParams as Params;

kernel_abi::dropout_kernels!(naive_entries);

macro_rules! vectorized_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of `n_elems` elements in the order in which these are counted.
        #[cuda_std::kernel(threads = 256, min_blocks = 3)]
        pub unsafe fn $symbol(params: Params) {
            const BYTES: usize = size_of::<$dtype>();
            vectorized::$pass::<$dtype, { 16 / BYTES }, { BYTES / 2 }, { if BYTES == 2 { 2 } else { 1 } }, false>(&params)
        }
    )* };
}

kernel_abi::dropout_vectorized_kernels!(vectorized_entries);

macro_rules! once_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// As above; some thread for every round.
        #[cuda_std::kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: Params) {
            const BYTES: usize = size_of::<$dtype>();
            vectorized::$pass::<$dtype, { 16 / BYTES }, { BYTES / 2 }, 1, true>(&params)
        }
    )* };
}

kernel_abi::dropout_once_kernels!(once_entries);

macro_rules! next_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes a live state, and room for the next.
        #[cuda_std::kernel(threads = 32)]
        pub unsafe fn $symbol(params: Params) {
            naive::give_next(&params)
        }
    )* };
}

kernel_abi::dropout_next_kernels!(next_entries);
