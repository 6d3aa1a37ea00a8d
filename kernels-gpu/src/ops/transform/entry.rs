//! Transform kernels: the rows of the lists in `kernel_abi::ops::transform`.

use super::{naive, tiled_permute, tiled_transpose, vectorized_copy};
use cuda_std::{kernel, schedule, shared_array};
use kernel_abi::ops::transform::{PermuteParams, TransformParams, TransformParams as Params, TransposeParams};

kernel_abi::transform_kernels!(naive_entries);

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

macro_rules! transposes {
    ($(($symbol:ident, $bytes:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and distances in `params`, and shared memory for a tile.
        #[kernel(threads = 256, min_blocks = 8)]
        pub unsafe fn $symbol(params: TransposeParams) {
            tiled_transpose::forward::<$bytes, false>(&params)
        }
    )* };
}

kernel_abi::transform_transpose_kernels!(transposes);

macro_rules! overlapping_transposes {
    ($(($symbol:ident, $bytes:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and distances in `params`, and shared memory for a tile.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 8)]
        pub unsafe fn $symbol(params: TransposeParams) {
            if params.beside == 0 {
                schedule::wait_for_predecessors();
            }
            schedule::launch_dependents();
            tiled_transpose::forward::<$bytes, true>(&params);
            if params.beside != 0 {
                // Who comes next waits for this kernel alone.
                schedule::wait_for_predecessors();
            }
        }
    )* };
}

kernel_abi::transform_transpose_sm90_kernels!(overlapping_transposes);

macro_rules! permutes {
    ($(($symbol:ident, $word:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and distances in `params`.
        #[kernel(threads = 256, min_blocks = 8)]
        pub unsafe fn $symbol(params: PermuteParams) {
            tiled_permute::forward::<$word>(&params, shared_array![$word; tiled_permute::SHARED])
        }
    )* };
}

kernel_abi::transform_permute_kernels!(permutes);
