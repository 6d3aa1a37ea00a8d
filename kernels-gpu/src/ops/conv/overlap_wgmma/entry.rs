//! The rows of `conv_overlap_fprop_kernels!`, `conv_overlap_rows_kernels!`, `conv_overlap_wgrad_kernels!` and
//! `conv_overlap_turns_kernels!`.

use super::{forward, rows, wgrad};
use crate::math::element::{bf16, f16};
use cuda_std::wgmma::{wgmma, wgmma_wait};
use cuda_std::{kernel, param_tensor_map};
use kernel_abi::ops::conv::overlap_wgmma::OverlapParams;

macro_rules! fprop_entries {
    ($(($symbol:ident, $dtype:ident, $n:tt)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        #[kernel(arch = "sm_90a", threads = 768, min_blocks = 1, tensor_maps = 1)]
        pub unsafe fn $symbol(params: OverlapParams) {
            struct This;
            product!(This, $dtype, $n);
            forward::run::<This, $dtype, { $n / 2 }>(&params)
        }
    )* };
}

/// Implements [`forward::Product`]: the instruction's shape must be literals.
macro_rules! product {
    ($this:ident, $dtype:ident, $n:tt) => {
        product!(@registers $this, $dtype, $n, { $n / 2 });
    };
    (@registers $this:ident, $dtype:ident, 16, $r:tt) => { product!(@one $this, $dtype, 16, 8); };
    (@registers $this:ident, $dtype:ident, 32, $r:tt) => { product!(@one $this, $dtype, 32, 16); };
    (@registers $this:ident, $dtype:ident, 64, $r:tt) => { product!(@one $this, $dtype, 64, 32); };
    (@registers $this:ident, $dtype:ident, 96, $r:tt) => { product!(@one $this, $dtype, 96, 48); };
    (@one $this:ident, $dtype:ident, $n:tt, $registers:tt) => {
        impl forward::Product<$registers> for $this {
            #[inline(always)]
            unsafe fn multiply(d: &mut [f32; $registers], a: u64, b: u64, accumulate: u32) {
                wgmma!(types = $dtype, n = $n, steps = 1, d = d, a = a, b = b, accumulate = accumulate);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [f32; $registers]) {
                wgmma_wait!(d = d, registers = $registers, pending = 0);
            }
        }
    };
}

macro_rules! rows_entries {
    ($(($symbol:ident, $dtype:ident, $n:tt, $instructions:tt)),* $(,)?) => { $(
        /// # Safety
        /// The host passes a map and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 1, tensor_maps = 1)]
        pub unsafe fn $symbol(params: OverlapParams) {
            struct This;
            strip!(This, $dtype, $n, $instructions);
            let map = param_tensor_map!($symbol, 0);
            rows::run::<This, $dtype, { $n / 2 }, $instructions>(&params, map)
        }
    )* };
}

/// Implements [`rows::Strip`].
macro_rules! strip {
    ($this:ident, $dtype:ident, 112, $i:tt) => { strip!(@count $this, $dtype, 112, 56, $i); };
    (@count $this:ident, $dtype:ident, $n:tt, $r:tt, 14) => {
        strip!(@each $this, $dtype, $n, $r, 14, [1 2 3 4 5 6 7 8 9 10 11 12], 13);
    };
    // The instructions between the first, which overwrites the sums, and the last, which ends the group.
    (@each $this:ident, $dtype:ident, $n:tt, $r:tt, $count:tt, [$($i:tt)*], $last:tt) => {
        impl rows::Strip<$r, $count> for $this {
            #[inline(always)]
            unsafe fn multiply(d: &mut [f32; $r], filter: &rows::Filter<$count>, b: u64, offsets: &[u32; $count]) {
                wgmma!(types = $dtype, n = $n, steps = 1, d = d, a_registers = [filter[0]], b = b, accumulate = 0,
                    commit = 0);
                $(
                    wgmma!(types = $dtype, n = $n, steps = 1, d = d, a_registers = [filter[$i]],
                        b = b + u64::from(offsets[$i]), accumulate = 1, fence = 0, commit = 0);
                )*
                wgmma!(types = $dtype, n = $n, steps = 1, d = d, a_registers = [filter[$last]],
                    b = b + u64::from(offsets[$last]), accumulate = 1, fence = 0);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [f32; $r], filter: &mut rows::Filter<$count>) {
                wgmma_wait!(d = d, registers = $r, pending = 0, a_registers = filter, steps = $count);
            }
        }
    };
}

macro_rules! wgrad_entries {
    ($(($symbol:ident, $dtype:ident, $n:tt, $first:tt, $second:tt)),* $(,)?) => { $(
        /// # Safety
        /// The host passes a map and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 1, tensor_maps = 1)]
        pub unsafe fn $symbol(params: OverlapParams) {
            struct First;
            struct Second;
            taps!(First, $dtype, $n, $first);
            taps!(Second, $dtype, $n, $second);
            let map = param_tensor_map!($symbol, 0);
            wgrad::run::<First, Second, { $n / 2 }, $first, $second>(&params, map)
        }
    )* };
}

/// Implements [`wgrad::Taps`].
macro_rules! taps {
    ($this:ident, $dtype:ident, 16, $taps:tt) => { taps!(@taps $this, $dtype, 16, 8, $taps); };
    ($this:ident, $dtype:ident, 24, $taps:tt) => { taps!(@taps $this, $dtype, 24, 12, $taps); };
    ($this:ident, $dtype:ident, 32, $taps:tt) => { taps!(@taps $this, $dtype, 32, 16, $taps); };
    ($this:ident, $dtype:ident, 48, $taps:tt) => { taps!(@taps $this, $dtype, 48, 24, $taps); };
    (@taps $this:ident, $dtype:ident, $n:tt, $r:tt, 1) => { taps!(@each $this, $dtype, $n, $r, 1, [], 0); };
    (@taps $this:ident, $dtype:ident, $n:tt, $r:tt, 2) => { taps!(@each $this, $dtype, $n, $r, 2, [0 1], 1); };
    (@taps $this:ident, $dtype:ident, $n:tt, $r:tt, 3) => { taps!(@each $this, $dtype, $n, $r, 3, [0 1, 1 0], 2); };
    (@taps $this:ident, $dtype:ident, $n:tt, $r:tt, 4) => {
        taps!(@each $this, $dtype, $n, $r, 4, [0 1, 1 0, 2 0], 3);
    };
    (@taps $this:ident, $dtype:ident, $n:tt, $r:tt, 6) => {
        taps!(@each $this, $dtype, $n, $r, 6, [0 1, 1 0, 2 0, 3 0, 4 0], 5);
    };
    (@taps $this:ident, $dtype:ident, $n:tt, $r:tt, 7) => {
        taps!(@each $this, $dtype, $n, $r, 7, [0 1, 1 0, 2 0, 3 0, 4 0, 5 0], 6);
    };
    // The taps but the last with what says whether to begin with a fence, and the last one, which ends the group.
    (@each $this:ident, $dtype:ident, $n:tt, $r:tt, $taps:tt, [$($tap:tt $fence:tt),*], $last:tt) => {
        impl wgrad::Taps<$r, $taps> for $this {
            #[inline(always)]
            unsafe fn multiply(
                d: &mut [[f32; $r]; $taps],
                a: &[[u32; 4]; 4],
                b: u64,
                taps: &[u32; $taps],
                accumulate: u32,
            ) {
                // An instruction's 16 positions are as many entries of 16 bytes.
                $(
                    wgmma!(types = $dtype, n = $n, steps = 4, d = &mut d[$tap], a_registers = *a,
                        b = b + u64::from(taps[$tap]), b_step = 16, transpose_b = 1, accumulate = accumulate,
                        fence = $fence, commit = 0);
                )*
                wgmma!(types = $dtype, n = $n, steps = 4, d = &mut d[$last], a_registers = *a,
                    b = b + u64::from(taps[$last]), b_step = 16, transpose_b = 1, accumulate = accumulate);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [[f32; $r]; $taps], a: &mut [[u32; 4]; 4]) {
                $(
                    wgmma_wait!(d = &mut d[$tap], registers = $r, pending = 0);
                )*
                wgmma_wait!(d = &mut d[$last], registers = $r, pending = 0, a_registers = a, steps = 4);
            }
        }
    };
}

macro_rules! turns_entries {
    ($(($symbol:ident, $dtype:ident, $n:tt, $taps:tt)),* $(,)?) => { $(
        /// # Safety
        /// The host passes a map and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 1, tensor_maps = 1)]
        pub unsafe fn $symbol(params: OverlapParams) {
            struct This;
            taps!(This, $dtype, $n, $taps);
            let map = param_tensor_map!($symbol, 0);
            wgrad::run_in_turns::<This, { $n / 2 }, $taps>(&params, map)
        }
    )* };
}

kernel_abi::conv_overlap_fprop_kernels!(fprop_entries);
kernel_abi::conv_overlap_rows_kernels!(rows_entries);
kernel_abi::conv_overlap_wgrad_kernels!(wgrad_entries);
kernel_abi::conv_overlap_turns_kernels!(turns_entries);
