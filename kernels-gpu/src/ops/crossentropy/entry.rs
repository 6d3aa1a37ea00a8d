//! Cross-entropy kernels: the rows of the lists in `kernel_abi::ops::crossentropy`.

use super::{looped_rows, naive, split_rows};
use crate::math::element::{bf16, f16};
use cuda_std::{kernel, shared_array};
use kernel_abi::ops::crossentropy::CrossEntropyParams as Params;
use kernel_abi::ops::crossentropy::CrossEntropySumParams;

kernel_abi::crossentropy_kernels!(naive_entries);

macro_rules! sums {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes as many live pairs as `params` says.
        #[kernel(threads = 1024, min_blocks = 1)]
        pub unsafe fn $symbol(params: CrossEntropySumParams) {
            naive::sum::<$dtype>(&params, shared_array![f64; 2 * 1024])
        }
    )* };
}

kernel_abi::crossentropy_sum_kernels!(sums);

/// Slots that the reductions of a block take.
const SLOTS: usize = 64;

/// Numbers that the rows of a block leave: a loss and a weight each.
const PAIRS: usize = 2 * 32;

macro_rules! looped_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $threads:literal, $pieces:literal, $block:literal, $blocks:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, rows without gaps, and room for a pair a
        /// block.
        #[kernel(threads = $block, min_blocks = $blocks, unroll = 20000)]
        pub unsafe fn $symbol(params: Params) {
            looped_rows::$pass::<$dtype, $threads, $pieces>(&params, shared_array![f32; SLOTS], shared_array![f64; PAIRS])
        }
    )* };
}

kernel_abi::crossentropy_looped_kernels!(looped_entries);

macro_rules! split_entries {
    ($(($symbol:ident, $step:ident, $dtype:ident, $block:literal)),* $(,)?) => { $(
        /// # Safety
        /// As above; there is room for what parts leave.
        #[kernel(threads = $block, min_blocks = 1, unroll = 20000)]
        pub unsafe fn $symbol(params: Params) {
            split_rows::$step::<$dtype>(&params, shared_array![f32; SLOTS], shared_array![f64; PAIRS])
        }
    )* };
}

kernel_abi::crossentropy_split_kernels!(split_entries);
