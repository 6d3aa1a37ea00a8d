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
            run::<This, _, _>(&params, maps)
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
        product!(@row $this, $dtype, WIDE, 192, 96, 128);
    };
    ($this:ident, $dtype:ident, NARROW) => {
        product!(@row $this, $dtype, NARROW, 96, 48, 64);
    };
    ($this:ident, $dtype:ident, FEW_K) => {
        product!(@taps $this, $dtype, FEW_K, 40, 20, 128);
    };
    // A row's taps are the columns of an instruction, whose rows are k.
    (@row $this:ident, $dtype:ident, $form:ident, $n:literal, $sums:literal, $step:literal) => {
        impl Product<$sums, 1> for $this {
            const FORM: Form = Form::$form;

            #[inline(always)]
            unsafe fn multiply_four(d: &mut [[f32; $sums]; 1], dy: u64, x: u64, _: u64, accumulate: u32) {
                wgmma!(
                    types = $dtype,
                    n = $n,
                    steps = 4,
                    d = &mut d[0],
                    a = dy,
                    a_step = $step,
                    transpose_a = 1,
                    b = x,
                    b_step = $step,
                    transpose_b = 1,
                    accumulate = accumulate
                );
                wgmma_wait!(d = &mut d[0], registers = $sums, pending = 1);
            }

            #[inline(always)]
            unsafe fn multiply_one(d: &mut [[f32; $sums]; 1], dy: u64, x: u64, _: u64, accumulate: u32) {
                wgmma!(
                    types = $dtype,
                    n = $n,
                    d = &mut d[0],
                    a = dy,
                    transpose_a = 1,
                    b = x,
                    transpose_b = 1,
                    accumulate = accumulate
                );
                wgmma_wait!(d = &mut d[0], registers = $sums, pending = 1);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [[f32; $sums]; 1]) {
                wgmma_wait!(d = &mut d[0], registers = $sums, pending = 0);
            }
        }
    };
    // Each tap of a row is an instruction, whose rows are c.
    (@taps $this:ident, $dtype:ident, $form:ident, $n:literal, $sums:literal, $step:literal) => {
        impl Product<$sums, 3> for $this {
            const FORM: Form = Form::$form;

            #[inline(always)]
            unsafe fn multiply_four(d: &mut [[f32; $sums]; 3], dy: u64, x: u64, tap: u64, accumulate: u32) {
                product!(@group d, $dtype, $n, 4, $step, dy, x, tap, accumulate);
                product!(@wait d, $sums, 1);
            }

            #[inline(always)]
            unsafe fn multiply_one(d: &mut [[f32; $sums]; 3], dy: u64, x: u64, tap: u64, accumulate: u32) {
                product!(@group d, $dtype, $n, 1, $step, dy, x, tap, accumulate);
                product!(@wait d, $sums, 1);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [[f32; $sums]; 3]) {
                product!(@wait d, $sums, 0);
            }
        }
    };
    (@group $d:ident, $dtype:ident, $n:literal, $steps:literal, $step:literal, $dy:ident, $x:ident, $tap:ident,
        $accumulate:ident) => {
        product!(@one $d, 0, 1, 0, $dtype, $n, $steps, $step, $dy, $x, $tap, $accumulate);
        product!(@one $d, 1, 0, 0, $dtype, $n, $steps, $step, $dy, $x, $tap, $accumulate);
        product!(@one $d, 2, 0, 1, $dtype, $n, $steps, $step, $dy, $x, $tap, $accumulate);
    };
    (@one $d:ident, $i:literal, $fence:literal, $commit:literal, $dtype:ident, $n:literal, $steps:literal,
        $step:literal, $dy:ident, $x:ident, $tap:ident, $accumulate:ident) => {
        wgmma!(types = $dtype, n = $n, steps = $steps, d = &mut $d[$i], a = $x + $i * $tap, a_step = $step,
            transpose_a = 1, b = $dy, b_step = $step, transpose_b = 1, accumulate = $accumulate, fence = $fence,
            commit = $commit);
    };
    (@wait $d:ident, $sums:literal, $pending:literal) => {
        wgmma_wait!(d = &mut $d[0], registers = $sums, pending = $pending);
        wgmma_wait!(d = &mut $d[1], registers = $sums, pending = $pending);
        wgmma_wait!(d = &mut $d[2], registers = $sums, pending = $pending);
    };
}

kernel_abi::conv_halo_wgrad_kernels!(entries);
kernel_abi::conv_halo_wgrad_sum_kernels!(sum_entries);
