//! The entries: the rows of `conv_halo_wgrad_kernels!` and `conv_halo_wgrad_sum_kernels!`, and the product instructions.

use super::{Product, run, sum};
use crate::ops::conv::im2col_wgmma::{Bf16, F16};
use cuda_std::wgmma::{wgmma, wgmma_wait};
use cuda_std::{kernel, param_tensor_map, shared_array};
use kernel_abi::ops::conv::halo_wgmma_split::ConvHaloWgradParams;

macro_rules! entries {
    ($(($symbol:ident, $dtype:ident, $form:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 1, tensor_maps = 3)]
        pub unsafe fn $symbol(params: ConvHaloWgradParams) {
            struct This;
            product!(@$form This, $dtype);
            let maps =
                [param_tensor_map!($symbol, 0), param_tensor_map!($symbol, 1), param_tensor_map!($symbol, 2)];
            run::<This, { sums!($form).0 }, { sums!($form).1 }>(&params, maps)
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

/// Sums of a thread in one instruction, and instructions.
macro_rules! sums {
    (OVERLAPPING) => {
        (96, 1)
    };
    (APART) => {
        (32, 3)
    };
}

/// Implements [`Product`]. A step of the sum is 16 positions of 128 bytes, 128 units of a descriptor.
macro_rules! product {
    (@OVERLAPPING $this:ident, $dtype:ident) => {
        impl Product<96, 1> for $this {
            #[inline(always)]
            unsafe fn multiply_four(d: &mut [[f32; 96]; 1], dy: u64, x: u64, _tap: u64, accumulate: u32) {
                wgmma!(types = $dtype, n = 192, steps = 4, d = &mut d[0], a = dy, a_step = 128, transpose_a = 1,
                    b = x, b_step = 128, transpose_b = 1, accumulate = accumulate);
                wgmma_wait!(d = &mut d[0], registers = 96, pending = 1);
            }

            #[inline(always)]
            unsafe fn multiply_one(d: &mut [[f32; 96]; 1], dy: u64, x: u64, _tap: u64, accumulate: u32) {
                wgmma!(types = $dtype, n = 192, d = &mut d[0], a = dy, transpose_a = 1, b = x, transpose_b = 1,
                    accumulate = accumulate);
                wgmma_wait!(d = &mut d[0], registers = 96, pending = 1);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [[f32; 96]; 1]) {
                wgmma_wait!(d = &mut d[0], registers = 96, pending = 0);
            }
        }
    };
    (@APART $this:ident, $dtype:ident) => {
        impl Product<32, 3> for $this {
            #[inline(always)]
            unsafe fn multiply_four(d: &mut [[f32; 32]; 3], dy: u64, x: u64, tap: u64, accumulate: u32) {
                wgmma!(types = $dtype, n = 64, steps = 4, d = &mut d[0], a = dy, a_step = 128, transpose_a = 1,
                    b = x, b_step = 128, transpose_b = 1, accumulate = accumulate, commit = 0);
                wgmma!(types = $dtype, n = 64, steps = 4, d = &mut d[1], a = dy, a_step = 128, transpose_a = 1,
                    b = x + tap, b_step = 128, transpose_b = 1, accumulate = accumulate, commit = 0);
                wgmma!(types = $dtype, n = 64, steps = 4, d = &mut d[2], a = dy, a_step = 128, transpose_a = 1,
                    b = x + 2 * tap, b_step = 128, transpose_b = 1, accumulate = accumulate);
                product!(@wait d, 1);
            }

            #[inline(always)]
            unsafe fn multiply_one(d: &mut [[f32; 32]; 3], dy: u64, x: u64, tap: u64, accumulate: u32) {
                wgmma!(types = $dtype, n = 64, d = &mut d[0], a = dy, transpose_a = 1, b = x, transpose_b = 1,
                    accumulate = accumulate, commit = 0);
                wgmma!(types = $dtype, n = 64, d = &mut d[1], a = dy, transpose_a = 1, b = x + tap, transpose_b = 1,
                    accumulate = accumulate, commit = 0);
                wgmma!(types = $dtype, n = 64, d = &mut d[2], a = dy, transpose_a = 1, b = x + 2 * tap,
                    transpose_b = 1, accumulate = accumulate);
                product!(@wait d, 1);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [[f32; 32]; 3]) {
                product!(@wait d, 0);
            }
        }
    };
    (@wait $d:ident, $pending:literal) => {
        wgmma_wait!(d = &mut $d[0], registers = 32, pending = $pending);
        wgmma_wait!(d = &mut $d[1], registers = 32, pending = $pending);
        wgmma_wait!(d = &mut $d[2], registers = 32, pending = $pending);
    };
}

kernel_abi::conv_halo_wgrad_kernels!(entries);
kernel_abi::conv_halo_wgrad_sum_kernels!(sum_entries);
