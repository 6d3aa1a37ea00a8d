//! Grid sampling kernels: the rows of `gridsample_kernels!` and `gridsample_tile_kernels!`.

use super::{naive, tiles};
use crate::math::element::{bf16, f16};
use cuda_std::{kernel, shared_array};
use kernel_abi::ops::gridsample::{GridSampleParams as Params, GridSampleTileParams};

kernel_abi::gridsample_kernels!(naive_entries);

macro_rules! tile_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents and strides in `params`.
        #[kernel(threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: GridSampleTileParams) {
            let weights = shared_array![f32; tiles::N_WEIGHTS];
            let outputs = shared_array![u32; tiles::N_OUTPUTS];
            tiles::backward_data::<$dtype>(&params, weights, outputs)
        }
    )* };
}

kernel_abi::gridsample_tile_kernels!(tile_entries);
