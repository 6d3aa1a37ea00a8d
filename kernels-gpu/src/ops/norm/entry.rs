//! Normalization kernels: the rows of the lists in `kernel_abi::ops::norm`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::norm::{NormFinalizeParams, NormParams as Params};

kernel_abi::norm_kernels!(naive_entries);

macro_rules! finalize_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live vectors of the extents and strides in `params`.
        #[cuda_std::kernel(threads = 256)]
        pub unsafe fn $symbol(params: NormFinalizeParams) {
            naive::$pass::<$dtype>(&params)
        }
    )* };
}

kernel_abi::norm_finalize_kernels!(finalize_entries);
