//! Normalization kernels: the rows of the lists in `kernel_abi::ops::norm`.

use super::{channelwise, looped_rows, naive, resident_channels, resident_planes, ring_rows, row_registers};
use crate::math::element::{bf16, f16};
use cuda_std::{param_tensor_map, shared_array};
use kernel_abi::ops::norm::channelwise::ChannelwiseParams;
use kernel_abi::ops::norm::resident_channels::{MAX_STAGES, ResidentChannelsParams, sum_words};
use kernel_abi::ops::norm::resident_planes::{self as planes, ResidentPlanesParams};
use kernel_abi::ops::norm::row_registers::{NormColumnSumsParams, NormRowsParams};
use kernel_abi::ops::norm::{NormFinalizeParams, NormParams as Params};

kernel_abi::norm_kernels!(naive_entries);

macro_rules! finalize_entries {
    ($(($symbol:ident, $sums:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live vectors of the extents and strides in `params`.
        #[cuda_std::kernel(threads = 256)]
        pub unsafe fn $symbol(params: NormFinalizeParams) {
            naive::finalize::<$sums, $dtype>(&params)
        }
    )* };
}

kernel_abi::norm_finalize_kernels!(finalize_entries);

macro_rules! row_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $threads:literal, $vectors:literal, $block:literal, $blocks:literal, $scarce:literal)),*
        $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the lengths and distances in `params`, and room for the parts of gradients.
        #[cuda_std::kernel(threads = $block, min_blocks = $blocks)]
        pub unsafe fn $symbol(params: NormRowsParams) {
            row_registers::$pass::<$dtype, { 16 / size_of::<$dtype>() }, $threads, $vectors, $scarce>(&params)
        }
    )* };
}

kernel_abi::norm_row_kernels!(row_entries);

macro_rules! lean_entries {
    ($(($symbol:ident, $dtype:ident, $threads:literal, $vectors:literal, $blocks:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the lengths and distances in `params`.
        #[cuda_std::kernel(threads = $threads, min_blocks = $blocks)]
        pub unsafe fn $symbol(params: NormRowsParams) {
            row_registers::forward_lean::<$dtype, { 16 / size_of::<$dtype>() }, $threads, $vectors>(&params)
        }
    )* };
}

kernel_abi::norm_lean_row_kernels!(lean_entries);

macro_rules! ring_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $vectors:literal, $threads:literal)),* $(,)?) => { $(
        /// # Safety
        /// As above, and a ring of shared memory.
        #[cuda_std::kernel(threads = $threads, min_blocks = 1)]
        pub unsafe fn $symbol(params: NormRowsParams) {
            ring_rows::$pass::<$dtype, { 16 / size_of::<$dtype>() }, $vectors>(&params)
        }
    )* };
}

kernel_abi::norm_ring_kernels!(ring_entries);

macro_rules! looped_entries {
    ($(($symbol:ident, $step:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// As above; statistics have room where parts of gradients are made by them.
        #[cuda_std::kernel(threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: NormRowsParams) {
            looped_rows::$step::<$dtype, { 16 / size_of::<$dtype>() }>(&params)
        }
    )* };
}

kernel_abi::norm_looped_kernels!(looped_entries);

macro_rules! column_sums_entries {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes parts that are written, and room for the gradients.
        #[cuda_std::kernel(threads = 1024)]
        pub unsafe fn $symbol(params: NormColumnSumsParams) {
            row_registers::column_sums::<$dtype>(&params)
        }
    )* };
}

kernel_abi::norm_column_sums_kernels!(column_sums_entries);

macro_rules! channelwise_entries {
    ($(($symbol:ident, $step:ident, $dtype:ident)),* $(,)?) => { $( channelwise_entry!($symbol, $step, $dtype); )* };
}

/// Those that keep little leave registers to more blocks of a multiprocessor.
macro_rules! channelwise_entry {
    ($symbol:ident, statistics, $dtype:ident) => { channelwise_entry!(@ $symbol, statistics, $dtype, 3); };
    ($symbol:ident, apply, $dtype:ident) => { channelwise_entry!(@ $symbol, apply, $dtype, 3); };
    ($symbol:ident, statistics_runs, $dtype:ident) => { channelwise_entry!(@ $symbol, statistics_runs, $dtype, 2, 512); };
    ($symbol:ident, gradient_sums_runs, $dtype:ident) => {
        channelwise_entry!(@ $symbol, gradient_sums_runs, $dtype, 3, 256);
    };
    ($symbol:ident, apply_gradients_runs, $dtype:ident) => {
        channelwise_entry!(@ $symbol, apply_gradients_runs, $dtype, 2, 512);
    };
    ($symbol:ident, apply_runs, $dtype:ident) => { channelwise_entry!(@ $symbol, apply_runs, $dtype, 2, 512); };
    ($symbol:ident, infer_runs, $dtype:ident) => { channelwise_entry!(@ $symbol, infer_runs, $dtype, 2, 512); };
    ($symbol:ident, $step:ident, $dtype:ident) => { channelwise_entry!(@ $symbol, $step, $dtype, 2); };
    (@ $symbol:ident, $step:ident, $dtype:ident, $blocks:literal) => {
        channelwise_entry!(@ $symbol, $step, $dtype, $blocks, 256);
    };
    (@ $symbol:ident, $step:ident, $dtype:ident, $blocks:literal, $threads:literal) => {
        /// # Safety
        /// The host passes live tensors of the extents and distances in `params`, and room for rows and parts.
        #[cuda_std::kernel(threads = $threads, min_blocks = $blocks)]
        pub unsafe fn $symbol(params: ChannelwiseParams) {
            if params.share.vectors != 0 {
                channelwise::$step::<$dtype, { 16 / size_of::<$dtype>() }>(&params)
            } else {
                channelwise::$step::<$dtype, 1>(&params)
            }
        }
    };
}

kernel_abi::norm_channelwise_kernels!(channelwise_entries);

macro_rules! resident_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $lanes:literal, $passes:literal)),* $(,)?) => { $(
        /// # Safety
        /// As above, with maps of what is brought, room for flags and counters, and shared memory for the stages. All blocks are
        /// resident together.
        #[cuda_std::kernel(arch = "sm_90a", threads = 544, min_blocks = 1, tensor_maps = 3)]
        pub unsafe fn $symbol(params: ResidentChannelsParams) {
            let shared = resident_channels::Shared {
                barriers: shared_array![u64; 2 * MAX_STAGES as usize],
                chunks: shared_array![u32; MAX_STAGES as usize],
                sums: shared_array![f32; sum_words($lanes) as usize],
                of_channels: shared_array![f32; 4 * $lanes * 8],
            };
            let maps =
                [param_tensor_map!($symbol, 0), param_tensor_map!($symbol, 1), param_tensor_map!($symbol, 2)];
            resident_channels::$pass::<$dtype, { 16 / size_of::<$dtype>() }, $lanes, $passes>(&params, maps, shared)
        }
    )* };
}

kernel_abi::norm_resident_kernels!(resident_entries);

macro_rules! resident_planes_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $bytes:literal)),* $(,)?) => { $(
        /// # Safety
        /// As above, with room for flags and counters, and shared memory for the stages. All blocks are resident together.
        #[cuda_std::kernel(arch = "sm_90a", threads = 704, min_blocks = 1)]
        pub unsafe fn $symbol(params: ResidentPlanesParams) {
            let shared = resident_planes::Shared {
                barriers: shared_array![u64; (planes::BARRIERS * planes::MAX_STAGES) as usize],
                sums: shared_array![f32; planes::SUM_WORDS as usize],
                factors: shared_array![f32; planes::FACTOR_WORDS as usize],
            };
            resident_planes::$pass::<$dtype, { $bytes / size_of::<$dtype>() }>(&params, shared)
        }
    )* };
}

kernel_abi::norm_resident_planes_kernels!(resident_planes_entries);
