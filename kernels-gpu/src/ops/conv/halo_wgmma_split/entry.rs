//! The entries: the rows of `conv_halo_wgrad_kernels!` and `conv_halo_wgrad_sum_kernels!`, and the product instructions.

use super::{Product, run, sum};
use crate::ops::conv::im2col_wgmma::{Bf16, F16};
use cuda_std::wgmma::{wgmma, wgmma_wait};
use cuda_std::{kernel, param_tensor_map, shared_array};
use kernel_abi::ops::conv::halo_wgmma_split::{ConvHaloWgradParams, Form};

macro_rules! entries {
    ($(($symbol:ident, $dtype:ident, $form:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 1, tensor_maps = 3)]
        pub unsafe fn $symbol(params: ConvHaloWgradParams) {
            struct This;
            product!(This, $dtype, $form);
            let maps =
                [param_tensor_map!($symbol, 0), param_tensor_map!($symbol, 1), param_tensor_map!($symbol, 2)];
            run::<This, _>(&params, maps)
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

/// Implements [`Product`], of so many columns, sums of a thread, and units of a descriptor in a step of 16 positions.
macro_rules! product {
    ($this:ident, $dtype:ident, WIDE) => {
        product!($this, $dtype, WIDE, 192, 96, 128);
    };
    ($this:ident, $dtype:ident, NARROW) => {
        product!($this, $dtype, NARROW, 96, 48, 64);
    };
    ($this:ident, $dtype:ident, $form:ident, $n:literal, $sums:literal, $step:literal) => {
        impl Product<$sums> for $this {
            const FORM: Form = Form::$form;

            #[inline(always)]
            unsafe fn multiply_four(d: &mut [f32; $sums], dy: u64, x: u64, accumulate: u32) {
                wgmma!(
                    types = $dtype,
                    n = $n,
                    steps = 4,
                    d = d,
                    a = dy,
                    a_step = $step,
                    transpose_a = 1,
                    b = x,
                    b_step = $step,
                    transpose_b = 1,
                    accumulate = accumulate
                );
                wgmma_wait!(d = d, registers = $sums, pending = 1);
            }

            #[inline(always)]
            unsafe fn multiply_one(d: &mut [f32; $sums], dy: u64, x: u64, accumulate: u32) {
                wgmma!(
                    types = $dtype,
                    n = $n,
                    d = d,
                    a = dy,
                    transpose_a = 1,
                    b = x,
                    transpose_b = 1,
                    accumulate = accumulate
                );
                wgmma_wait!(d = d, registers = $sums, pending = 1);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [f32; $sums]) {
                wgmma_wait!(d = d, registers = $sums, pending = 0);
            }
        }
    };
}

kernel_abi::conv_halo_wgrad_kernels!(entries);
kernel_abi::conv_halo_wgrad_sum_kernels!(sum_entries);
