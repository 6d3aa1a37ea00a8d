//! Pooling kernels: the rows of `kernel_abi`'s `pool_…kernels!`.

use super::{columns, naive, planes, ring_rows, rows_mma, strips, tiles, whole};
use crate::math::element::{bf16, f16};
use cuda_std::memory::X4;
use cuda_std::{kernel, param_tensor_map, shared_array};
use kernel_abi::ops::pool::{
    PoolParams as Params, PoolPlaneParams, PoolRingRowsParams, PoolRowsMmaParams, PoolStripParams, PoolTileParams,
    PoolWholeParams,
};

kernel_abi::pool_kernels!(naive_entries);

macro_rules! strip_entries {
    ($(($symbol:ident, $action:ident, $dtype:ident, $vec:tt, $side:tt, $stride:tt)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, at multiples of 16 for 16 bytes an access.
        #[kernel(threads = 256, min_blocks = 3)]
        pub unsafe fn $symbol(params: PoolStripParams) {
            strip_entries!(@$action params, $dtype, $vec, $side, $stride)
        }
    )* };
    (@shares $params:ident, $dtype:ident, $vec:literal, $side:literal, $stride:literal) => {
        strips::shares::<$dtype, $vec>(&$params)
    };
    (@pairs $params:ident, $dtype:ident, $vec:literal, $side:literal, $stride:literal) => {
        strips::pairs::<$dtype, $stride>(&$params)
    };
    (@maximum $params:ident, $dtype:ident, 1, $side:literal, $stride:literal) => {
        strips::maximum::<$dtype, 1, $side, $stride>(&$params)
    };
    (@maximum $params:ident, $dtype:ident, $vec:literal, 0, 0) => {
        strips::maximum::<$dtype, $vec, 0, 0>(&$params)
    };
    (@maximum $params:ident, $dtype:ident, $vec:literal, 3, $stride:literal) => {
        strips::maximum_of_three::<$dtype, $vec, $stride>(&$params)
    };
    (@$action:ident $params:ident, $dtype:ident, $vec:literal, $side:literal, $stride:literal) => {
        strips::$action::<$dtype, $vec, $side, $stride>(&$params)
    };
}

kernel_abi::pool_strip_kernels!(strip_entries);

macro_rules! tile_entries {
    ($(($symbol:ident, $dtype:ident, $vec:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, at multiples of 16 for 16 bytes an access,
        /// and shared memory for the windows of a tile.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: PoolTileParams) {
            tiles::backward::<$dtype, $vec>(&params)
        }
    )* };
}

kernel_abi::pool_tile_kernels!(tile_entries);

macro_rules! plane_entries {
    ($(($symbol:ident, $dtype:ident, $side:literal, $stride:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: PoolPlaneParams) {
            planes::backward::<$dtype, $side, $stride>(&params)
        }
    )* };
}

kernel_abi::pool_plane_kernels!(plane_entries);

macro_rules! column_entries {
    ($(($symbol:ident, $dtype:ident, $vec:literal, $side:literal, $stride:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, at multiples of 16.
        #[kernel(threads = 128, min_blocks = 4)]
        pub unsafe fn $symbol(params: PoolPlaneParams) {
            let slots = shared_array![X4<u32>; columns::ring_vectors($side, $stride)];
            columns::backward::<$dtype, $vec, $side, $stride>(&params, slots)
        }
    )* };
}

kernel_abi::pool_column_kernels!(column_entries);

macro_rules! rows_mma_entries {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`, and shared memory for the tile.
        #[kernel(arch = "sm_90a", threads = 640, min_blocks = 1, tensor_maps = 3,
                 allow_local = "beside three rows' masks and sums, some addresses of a thread wait there from row to row")]
        pub unsafe fn $symbol(params: PoolRowsMmaParams) {
            let maps = [param_tensor_map!($symbol, 0), param_tensor_map!($symbol, 1), param_tensor_map!($symbol, 2)];
            rows_mma::backward::<$dtype>(&params, maps)
        }
    )* };
}

kernel_abi::pool_rows_mma_kernels!(rows_mma_entries);

macro_rules! ring_rows_entries {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`, and shared memory for the tile.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 2, tensor_maps = 3)]
        pub unsafe fn $symbol(params: PoolRingRowsParams) {
            let maps = [param_tensor_map!($symbol, 0), param_tensor_map!($symbol, 1), param_tensor_map!($symbol, 2)];
            ring_rows::backward::<$dtype>(&params, maps)
        }
    )* };
}

kernel_abi::pool_ring_rows_kernels!(ring_rows_entries);

macro_rules! whole_entries {
    ($(($symbol:ident, $action:ident, $together:ident, $dtype:ident, $vec:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, at multiples of 16 for 16 bytes an access.
        #[kernel(threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: PoolWholeParams) {
            whole_entries!(@$together $action, params, $dtype, $vec)
        }
    )* };
    (@rows maximum, $params:ident, $dtype:ident, $vec:literal) => { whole::maximum_rows::<$dtype, $vec>(&$params) };
    (@rows average, $params:ident, $dtype:ident, $vec:literal) => { whole::average_rows::<$dtype, $vec>(&$params) };
    (@rows shares, $params:ident, $dtype:ident, $vec:literal) => { whole::shares_rows::<$dtype, $vec>(&$params) };
    (@columns maximum, $params:ident, $dtype:ident, $vec:literal) => {
        whole::maximum_columns::<$dtype, $vec>(&$params, shared_array![f32; whole::n_partials($vec)])
    };
    (@columns average, $params:ident, $dtype:ident, $vec:literal) => {
        whole::average_columns::<$dtype, $vec>(&$params, shared_array![f32; whole::n_partials($vec)])
    };
}

kernel_abi::pool_whole_kernels!(whole_entries);
