//! The entries: the rows of `conv_halo_wgrad_kernels!` and `conv_halo_wgrad_sum_kernels!`, and the product instructions.

use super::{Product, Sums, run, sum};
use crate::ops::conv::im2col_wgmma::{Bf16, F16};
use cuda_std::wgmma::{wgmma, wgmma_wait};
use cuda_std::{kernel, param_tensor_map, shared_array};
use kernel_abi::ops::conv::halo_wgmma_split::ConvHaloWgradParams;

macro_rules! entries {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 1, tensor_maps = 3)]
        pub unsafe fn $symbol(params: ConvHaloWgradParams) {
            struct This;
            product!(This, $dtype);
            let maps =
                [param_tensor_map!($symbol, 0), param_tensor_map!($symbol, 1), param_tensor_map!($symbol, 2)];
            run::<This>(&params, maps)
        }
    )* };
}

macro_rules! sum_entries {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes what it gave to the kernel that made the partial sums.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: ConvHaloWgradParams) {
            sum::run::<element!($dtype)>(&params, shared_array![f32; 1024])
        }
    )* };
}

macro_rules! element {
    (bf16) => {
        Bf16
    };
    (f16) => {
        F16
    };
}

/// Implements [`Product`]. A step of the sum is 16 positions of 128 bytes, 128 units of a descriptor.
macro_rules! product {
    ($this:ident, $dtype:ident) => {
        impl Product for $this {
            #[inline(always)]
            unsafe fn multiply_four(d: &mut Sums, dy: u64, x: u64, accumulate: u32) {
                wgmma!(
                    types = $dtype,
                    n = 192,
                    steps = 4,
                    d = d,
                    a = dy,
                    a_step = 128,
                    transpose_a = 1,
                    b = x,
                    b_step = 128,
                    transpose_b = 1,
                    accumulate = accumulate
                );
                wgmma_wait!(d = d, registers = 96, pending = 1);
            }

            #[inline(always)]
            unsafe fn multiply_one(d: &mut Sums, dy: u64, x: u64, accumulate: u32) {
                wgmma!(
                    types = $dtype,
                    n = 192,
                    d = d,
                    a = dy,
                    transpose_a = 1,
                    b = x,
                    transpose_b = 1,
                    accumulate = accumulate
                );
                wgmma_wait!(d = d, registers = 96, pending = 1);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut Sums) {
                wgmma_wait!(d = d, registers = 96, pending = 0);
            }
        }
    };
}

kernel_abi::conv_halo_wgrad_kernels!(entries);
kernel_abi::conv_halo_wgrad_sum_kernels!(sum_entries);
