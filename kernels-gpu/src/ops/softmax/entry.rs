//! Softmax kernels: the rows of the lists in `kernel_abi::ops::softmax`.

use super::{
    cluster_rings, cluster_rows, columns, lanes, looped_rows, naive, pairs, register_rows, resident_rows, split_rows,
    streamed_rows,
};
use crate::math::element::{bf16, f16};
use crate::math::rows::Vector;
use cuda_std::{kernel, shared_array};
use kernel_abi::ops::softmax::streamed_rows::MAX_SLOTS;
use kernel_abi::ops::softmax::{SoftmaxLanesParams, SoftmaxParams as Params, SoftmaxRingsParams};

kernel_abi::softmax_kernels!(naive_entries);

/// Slots that the reductions of a block take.
const SLOTS: usize = 64;

macro_rules! lane_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $lanes:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the lengths and distances in `params`, rows of at most as many elements as lanes.
        #[kernel(threads = 128)]
        pub unsafe fn $symbol(params: SoftmaxLanesParams) {
            lanes::$pass::<$dtype, $lanes>(&params)
        }
    )* };
}

kernel_abi::softmax_lane_kernels!(lane_entries);

macro_rules! register_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $threads:literal, $elems:literal, $block:literal, $blocks:literal)),*
        $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, rows without gaps.
        #[kernel(threads = $block, min_blocks = $blocks, unroll = 20000)]
        pub unsafe fn $symbol(params: Params) {
            const PIECES: usize = $elems / <$dtype as Vector>::LANES;
            register_rows::$pass::<$dtype, $threads, PIECES>(&params, shared_array![f32; SLOTS])
        }
    )* };
}

kernel_abi::softmax_register_kernels!(register_entries);

macro_rules! cluster_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $pieces:literal, $blocks:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the lengths and distances in `params`, whose rows lie at multiples of 16 bytes,
        /// and a cluster for each row whose threads have pieces enough.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = $blocks, unroll = 20000)]
        pub unsafe fn $symbol(params: SoftmaxLanesParams) {
            cluster_rows::$pass::<$dtype, $pieces>(&params, shared_array![f32; cluster_rows::SLOTS])
        }
    )* };
}

kernel_abi::softmax_cluster_kernels!(cluster_entries);

macro_rules! ring_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the lengths and distances in `params`, whose rows lie to 16 bytes alike, runs
        /// that make up a row at least, and dynamic shared memory for the rings.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 1, unroll = 20000)]
        pub unsafe fn $symbol(params: SoftmaxRingsParams) {
            let shared = cluster_rings::Shared {
                barriers: shared_array![u64; cluster_rings::BARRIERS],
                numbers: shared_array![f32; cluster_rings::NUMBERS],
            };
            cluster_rings::$pass::<$dtype>(&params, shared)
        }
    )* };
}

kernel_abi::softmax_ring_kernels!(ring_entries);

macro_rules! streamed_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $threads:literal, $pieces:literal, $block:literal, $blocks:literal)),*
        $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the lengths and distances in `params`, whose rows lie at multiples of 16 bytes
        /// and have no more pieces than their threads, and dynamic shared memory for one row of each input at least.
        #[kernel(arch = "sm_90a", threads = $block, min_blocks = $blocks, unroll = 20000)]
        pub unsafe fn $symbol(params: SoftmaxLanesParams) {
            let shared = streamed_rows::Shared {
                barriers: shared_array![u64; MAX_SLOTS],
                slots: shared_array![f32; streamed_rows::SLOTS],
            };
            streamed_rows::$pass::<$dtype, $threads, $pieces>(&params, shared)
        }
    )* };
}

kernel_abi::softmax_streamed_kernels!(streamed_entries);

macro_rules! resident_entries {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the lengths and distances in `params`, whose rows lie at multiples of 16 bytes, a
        /// block for each row, and dynamic shared memory for it.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 3)]
        pub unsafe fn $symbol(params: SoftmaxLanesParams) {
            let shared = resident_rows::Shared {
                barriers: shared_array![u64; resident_rows::WARPS],
                found: shared_array![[f32; 2]; resident_rows::WARPS],
            };
            resident_rows::forward::<$dtype>(&params, shared)
        }
    )* };
}

kernel_abi::softmax_resident_kernels!(resident_entries);

macro_rules! looped_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $place:ident)),* $(,)?) => { $(
        /// # Safety
        /// As above; with a row in shared memory, there is as much.
        #[kernel(threads = 512, min_blocks = 1, unroll = 20000)]
        pub unsafe fn $symbol(params: Params) {
            looped_entries!(@$pass $dtype, $place, params)
        }
    )* };
    (@forward $dtype:ident, cache, $params:ident) => {
        looped_rows::forward::<$dtype, false>(&$params, shared_array![f32; SLOTS])
    };
    (@forward $dtype:ident, shared, $params:ident) => {
        looped_rows::forward::<$dtype, true>(&$params, shared_array![f32; SLOTS])
    };
    (@backward $dtype:ident, cache, $params:ident) => {
        looped_rows::backward::<$dtype, false>(&$params, shared_array![f32; SLOTS])
    };
    (@backward $dtype:ident, shared, $params:ident) => {
        looped_rows::backward::<$dtype, true>(&$params, shared_array![f32; SLOTS])
    };
}

kernel_abi::softmax_looped_kernels!(looped_entries);

macro_rules! split_entries {
    ($(($symbol:ident, $step:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// As above; the workspace has room for what parts leave.
        #[kernel(threads = 512, min_blocks = 1, unroll = 20000)]
        pub unsafe fn $symbol(params: Params) {
            split_rows::$step::<$dtype>(&params, shared_array![f32; SLOTS])
        }
    )* };
}

kernel_abi::softmax_split_kernels!(split_entries);

macro_rules! column_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $wide:literal, $held:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, rows side by side.
        #[kernel(threads = 256, min_blocks = 2, unroll = 20000)]
        pub unsafe fn $symbol(params: Params) {
            columns::$pass::<$dtype, $wide, $held>(&params, shared_array![f32; columns::SHARED])
        }
    )* };
}

kernel_abi::softmax_column_kernels!(column_entries);

macro_rules! pair_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $words:literal)),* $(,)?) => { $(
        /// # Safety
        /// As above, rows of at most as many elements as a thread holds.
        #[kernel(threads = 256, min_blocks = 2, unroll = 20000)]
        pub unsafe fn $symbol(params: Params) {
            pairs::$pass::<$dtype, $words>(&params)
        }
    )* };
}

kernel_abi::softmax_pair_kernels!(pair_entries);
