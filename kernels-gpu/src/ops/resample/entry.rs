//! Resampling kernels: the rows of `resample_kernels!`, `resample_given_kernels!`, `resample_table_kernels!`,
//! `resample_channel_kernels!` and `resample_separable_kernels!`.

use super::{channel_vectors, given_tables, naive, separable, tables};
use crate::math::element::{bf16, f16};
use cuda_std::{kernel, shared_array};
use kernel_abi::ops::resample::{
    ResampleGivenParams, ResampleParams as Params, ResampleSeparableParams, ResampleTableParams,
};

kernel_abi::resample_kernels!(naive_entries);

macro_rules! given_entries {
    ($(($symbol:ident, $dtype:ident, $vec:literal, $neighbours:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, at multiples of 16 for 16 bytes an access, and
        /// neighbours that exist.
        #[kernel(threads = 128, min_blocks = 4)]
        pub unsafe fn $symbol(params: ResampleGivenParams) {
            given_tables::gather::<$dtype, $vec, $neighbours>(&params)
        }
    )* };
}

kernel_abi::resample_given_kernels!(given_entries);

macro_rules! table_entries {
    ($(($symbol:ident, $dtype:ident, $vec:literal, $columns:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, at multiples of 16 for 16 bytes an access.
        #[kernel(threads = 256, min_blocks = 3)]
        pub unsafe fn $symbol(params: ResampleTableParams) {
            let weights = shared_array![f32; tables::N_WEIGHTS];
            let bounds = shared_array![i32; tables::N_BOUNDS];
            tables::gather::<$dtype, $vec, { tables::channels_at_once($vec) }, $columns>(&params, weights, bounds)
        }
    )* };
}

kernel_abi::resample_table_kernels!(table_entries);

macro_rules! channel_entries {
    ($(($symbol:ident, $dtype:ident, $vec:literal, $neighbours:literal, $blocks:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, at multiples of 16.
        #[kernel(threads = 256, min_blocks = $blocks)]
        pub unsafe fn $symbol(params: ResampleTableParams) {
            channel_vectors::gather::<$dtype, $vec, $neighbours, { channel_vectors::columns_at_once($neighbours) }>(&params)
        }
    )* };
}

kernel_abi::resample_channel_kernels!(channel_entries);

macro_rules! separable_entries {
    ($(($symbol:ident, $dtype:ident, $vec:literal, $neighbours:literal, $blocks:literal)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`, and says truly what lies at multiples of
        /// what.
        #[kernel(threads = 256, min_blocks = $blocks)]
        pub unsafe fn $symbol(params: ResampleSeparableParams) {
            separable::resample::<$dtype, $vec, $neighbours, { separable::reads($neighbours) }>(&params)
        }
    )* };
}

kernel_abi::resample_separable_kernels!(separable_entries);
