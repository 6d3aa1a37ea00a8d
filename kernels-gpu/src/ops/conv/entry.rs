//! Convolution kernels: the rows of `conv_kernels!`.

use super::explicit_gemm::Vector;
use super::{
    cp_async_mma, diagonal_mma, explicit_gemm, ffma, grouped_mma, merged_groups, naive, packed_rows, padded_channels,
    pointwise_lanes, pointwise_strided, spread_columns,
};
use crate::math::element::{bf16, f8e4m3, f8e5m2, f16};
use cuda_std::{kernel, shared_array};
use kernel_abi::ops::conv::cp_async_mma::CpAsyncMmaParams;
use kernel_abi::ops::conv::diagonal_mma::ConvDiagonalParams;
use kernel_abi::ops::conv::ffma::{ConvFfmaParams, ConvFfmaWgradParams, FfmaTile};
use kernel_abi::ops::conv::grouped_mma::{GroupedMmaParams, SplitReduceParams};
use kernel_abi::ops::conv::merged_groups::ConvMergeParams;
use kernel_abi::ops::conv::padded_channels::ConvPadParams;
use kernel_abi::ops::conv::pointwise_lanes::{ConvPointwiseLanesParams, LANES, VECTOR_BYTES};
use kernel_abi::ops::conv::{
    ConvPackRowsParams, ConvPackSpreadParams, ConvParams, ConvStridedPlanesParams, ConvWindowsParams,
};

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

macro_rules! narrow_entries {
    ($(($symbol:ident, $x:ident, $y:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        #[kernel(threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: ConvParams) {
            naive::fprop_into::<$x, $y>(&params)
        }
    )* };
}

kernel_abi::conv_narrow_kernels!(narrow_entries);

macro_rules! grouped_mma_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $width:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`, and a tiling that fits the shared memory.
        #[kernel(threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: GroupedMmaParams) {
            grouped_mma_entries!(@$pass $dtype, $width, &params)
        }
    )* };
    (@fprop $dtype:ident, $width:literal, $params:expr) => {
        grouped_mma::forward::<$dtype, $width, { $width / 8 }>($params, false)
    };
    (@dgrad $dtype:ident, $width:literal, $params:expr) => {
        grouped_mma::forward::<$dtype, $width, { $width / 8 }>($params, true)
    };
    (@dgrad_stride2 $dtype:ident, $width:literal, $params:expr) => {
        grouped_mma::dgrad_stride2::<$dtype, $width, { $width / 8 }>($params)
    };
    (@wgrad $dtype:ident, $width:literal, $params:expr) => {
        grouped_mma::wgrad::<$dtype, $width, { if $width == 8 { 5 } else { 9 } }>($params)
    };
}

kernel_abi::conv_grouped_mma_kernels!(grouped_mma_entries);

macro_rules! diagonal_gather_entries {
    ($(($symbol:ident, $r:literal, $stride:literal, $units:literal, $min_blocks:literal, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`, and shared memory for the rows.
        #[kernel(threads = 128, min_blocks = $min_blocks)]
        pub unsafe fn $symbol(params: ConvDiagonalParams) {
            const HELD: usize = ($r + $stride - 1) / $stride;
            diagonal_mma::gather::<$dtype, $r, $stride, { ($r + 1) / 2 }, HELD, $units>(&params)
        }
    )* };
}

kernel_abi::conv_diagonal_gather_kernels!(diagonal_gather_entries);

macro_rules! diagonal_wgrad_entries {
    ($(($symbol:ident, $r:literal, $stride:literal, $min_blocks:literal, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`, partial sums for all slabs, and shared memory for the
        /// rows.
        #[kernel(threads = 128, min_blocks = $min_blocks)]
        pub unsafe fn $symbol(params: ConvDiagonalParams) {
            diagonal_mma::wgrad::<$dtype, $r, $stride, { ($r + 1) / 2 }>(&params)
        }
    )* };
}

kernel_abi::conv_diagonal_wgrad_kernels!(diagonal_wgrad_entries);

macro_rules! partials_entries {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes partial sums that are written, and a live target.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: SplitReduceParams) {
            grouped_mma::add_partials::<$dtype>(&params, shared_array![f32; 256])
        }
    )* };
}

kernel_abi::conv_partials_kernels!(partials_entries);

macro_rules! cp_async_mma_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $size:tt, $v:literal)),* $(,)?) => { $(
        cp_async_mma_entries!(@$size $symbol, $pass, $dtype, $v);
    )* };
    (@128 $symbol:ident, $pass:ident, $dtype:ident, $v:literal) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`, and shared memory for the tile.
        #[kernel(threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: CpAsyncMmaParams) {
            cp_async_mma::$pass::<$dtype, $v, 128, 4>(&params)
        }
    };
    (@64 $symbol:ident, $pass:ident, $dtype:ident, $v:literal) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`, and shared memory for the tile.
        #[kernel(threads = 128, min_blocks = 4)]
        pub unsafe fn $symbol(params: CpAsyncMmaParams) {
            cp_async_mma::$pass::<$dtype, $v, 64, 2>(&params)
        }
    };
}

kernel_abi::conv_cp_async_mma_kernels!(cp_async_mma_entries);

macro_rules! ffma_entries {
    ($(($symbol:ident, $name:ident, $params:ident, $size:tt)),* $(,)?) => { $(
        ffma_entries!(@$size $symbol, $name, $params);
    )* };
    (@128 $symbol:ident, $name:ident, $params:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`, and shared memory for the tile.
        #[kernel(threads = 256, min_blocks = 1)]
        pub unsafe fn $symbol(params: $params) {
            ffma::$name::<4>(&params, FfmaTile(128))
        }
    };
    (@64 $symbol:ident, $name:ident, $params:ident) => {
        /// # Safety
        /// The host passes live tensors of the extents in `params`, and shared memory for the tile.
        #[kernel(threads = 64, min_blocks = 4)]
        pub unsafe fn $symbol(params: $params) {
            ffma::$name::<8>(&params, FfmaTile(64))
        }
    };
}

kernel_abi::conv_ffma_kernels!(ffma_entries);

macro_rules! pack_rows_entries {
    ($(($symbol:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: ConvPackRowsParams) {
            packed_rows::pack(&params)
        }
    )* };
}

kernel_abi::conv_pack_rows_kernels!(pack_rows_entries);

macro_rules! pad_entries {
    ($(($symbol:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: ConvPadParams) {
            padded_channels::pad(&params)
        }
    )* };
}

kernel_abi::conv_pad_kernels!(pad_entries);

macro_rules! pointwise_lanes_entries {
    ($(($symbol:ident, $what:ident, $dtype:ident, $few:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        #[kernel(threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: ConvPointwiseLanesParams) {
            const VECTOR: usize = VECTOR_BYTES as usize / size_of::<$dtype>();
            let filter = shared_array![f32; $few * LANES as usize * VECTOR];
            pointwise_lanes::$what::<$dtype, VECTOR, $few>(&params, filter)
        }
    )* };
}

kernel_abi::conv_pointwise_lanes_kernels!(pointwise_lanes_entries);

macro_rules! merge_entries {
    ($(($symbol:ident, $what:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: ConvMergeParams) {
            merged_groups::$what(&params)
        }
    )* };
}

kernel_abi::conv_merge_kernels!(merge_entries);

macro_rules! pack_spread_entries {
    ($(($symbol:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: ConvPackSpreadParams) {
            spread_columns::pack(&params)
        }
    )* };
}

kernel_abi::conv_pack_spread_kernels!(pack_spread_entries);

macro_rules! strided_planes_entries {
    ($(($symbol:ident, $what:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: ConvStridedPlanesParams) {
            pointwise_strided::$what::<$dtype>(&params)
        }
    )* };
}

kernel_abi::conv_strided_planes_kernels!(strided_planes_entries);

macro_rules! windows_entries {
    ($(($symbol:ident, $what:ident, $unit:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: ConvWindowsParams) {
            explicit_gemm::$what::<$unit>(&params)
        }
    )* };
}

kernel_abi::conv_windows_kernels!(windows_entries);
