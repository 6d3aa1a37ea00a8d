//! f32 kernels on bf16 tensor cores: the rows of `conv_bf16x3_gather_kernels!`, `conv_f16x2_direct_kernels!`,
//! `conv_f16x2_wgrad_kernels!`, `conv_f16x2_cluster_kernels!`, `conv_f16x2_windows_kernels!` and
//! `conv_bf16x3_side_kernels!`.

use super::scaled::{self, Scaled};
use super::{PartsProduct, cluster, direct, gather, pack, staged, wgrad, windows};
use crate::ops::conv::im2col_wgmma::gather::Address;
use cuda_std::wgmma::{wgmma, wgmma_wait};
use cuda_std::{kernel, param_tensor_map};
use kernel_abi::ops::conv::ConvPackSpreadParams;
use kernel_abi::ops::conv::f32_wgmma::*;
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, ConvWgradParams, ConvWgradSumParams};

macro_rules! gather_entries {
    ($(($symbol:ident, $tile:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, tensor_maps = 17)]
        pub unsafe fn $symbol(params: ConvPartsGatherParams) {
            struct This;
            product!(This, $tile);
            let at = Address(param_tensor_map!($symbol, 0).0);
            gather::run::<This, { ($tile.gemm_n / 2) as usize }, { $tile.subtiles() as usize }>(&params, at)
        }
    )* };
}

macro_rules! direct_entries {
    ($(($symbol:ident, $tile:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 1, tensor_maps = 17)]
        pub unsafe fn $symbol(params: ConvPartsDirectParams) {
            struct This;
            product!(This, $tile);
            let at = Address(param_tensor_map!($symbol, 0).0);
            direct::run::<This, { ($tile.gemm_n / 2) as usize }, { $tile.subtiles() as usize }>(&params, at)
        }
    )* };
}

macro_rules! staged_entries {
    ($(($symbol:ident, $tile:ident, $side_by_side:tt)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 1, tensor_maps = 17)]
        pub unsafe fn $symbol(params: ConvPartsGatherParams) {
            struct This;
            product!(This, $tile, $side_by_side);
            let at = Address(param_tensor_map!($symbol, 0).0);
            staged::run::<This, { ($tile.gemm_n / 2) as usize }, { $tile.subtiles() as usize }>(&params, at)
        }
    )* };
}

macro_rules! wgrad_entries {
    ($(($symbol:ident, $tile:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 1, tensor_maps = 2)]
        pub unsafe fn $symbol(params: ConvWgradParams) {
            struct This;
            product!(This, $tile);
            let maps = wgrad::Maps { dy: param_tensor_map!($symbol, 0), x: param_tensor_map!($symbol, 1) };
            wgrad::run::<This, { ($tile.consumer_columns() / 2) as usize }>(&params, maps)
        }
    )* };
}

macro_rules! cluster_entries {
    ($(($symbol:ident, $tile:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 1, tensor_maps = 2)]
        pub unsafe fn $symbol(params: ConvWgradParams) {
            struct This;
            product!(This, $tile);
            let maps = wgrad::Maps { dy: param_tensor_map!($symbol, 0), x: param_tensor_map!($symbol, 1) };
            cluster::run::<This, { ($tile.consumer_columns() / 2) as usize }>(&params, maps)
        }
    )* };
}

macro_rules! windows_entries {
    ($(($symbol:ident, $tile:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 1, tensor_maps = 2)]
        pub unsafe fn $symbol(params: ConvPartsWindowsParams) {
            struct This;
            product!(This, $tile);
            let maps = wgrad::Maps { dy: param_tensor_map!($symbol, 0), x: param_tensor_map!($symbol, 1) };
            windows::run::<This, { ($tile.consumer_columns() / 2) as usize }>(&params, maps)
        }
    )* };
}

macro_rules! side_entries {
    ($(($symbol:ident, $name:ident, $params:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live tensors of the extents in `params`.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: $params) {
            pack::$name(&params)
        }
    )* };
}

/// Implements [`PartsProduct`]: columns of an instruction, registers, whether B lies with the columns contiguous, and an
/// instruction's step along it, must be literals.
macro_rules! product {
    ($this:ident, PARTS_GATHER_128X128) => {
        product!(@of $this, PARTS_GATHER_128X128, 128, 64, 0, 2);
    };
    ($this:ident, PARTS_GATHER_256X64) => {
        product!(@of $this, PARTS_GATHER_256X64, 64, 32, 0, 2);
    };
    ($this:ident, PARTS_GATHER_128X64) => {
        product!(@of $this, PARTS_GATHER_128X64, 64, 32, 0, 2);
    };
    ($this:ident, PARTS_GATHER_256X16) => {
        product!(@of $this, PARTS_GATHER_256X16, 16, 8, 0, 2);
    };
    ($this:ident, PARTS_DIRECT_128X128) => {
        product!(@halves $this, PARTS_DIRECT_128X128, 128, 64, 0, 2);
    };
    ($this:ident, PARTS_DIRECT_256X64) => {
        product!(@halves $this, PARTS_DIRECT_256X64, 64, 32, 0, 2);
    };
    ($this:ident, PARTS_DIRECT_128X64) => {
        product!(@halves $this, PARTS_DIRECT_128X64, 64, 32, 0, 2);
    };
    ($this:ident, PARTS_DIRECT_256X16) => {
        product!(@halves $this, PARTS_DIRECT_256X16, 16, 8, 0, 2);
    };
    ($this:ident, PARTS_STAGED_128X128, false) => {
        product!(@halves $this, PARTS_STAGED_128X128, 128, 64, 0, 2);
    };
    ($this:ident, PARTS_STAGED_128X128, true) => {
        product!(@halves $this, PARTS_STAGED_128X128, 128, 64, 1, 128);
    };
    ($this:ident, PARTS_STAGED_256X64, false) => {
        product!(@halves $this, PARTS_STAGED_256X64, 64, 32, 0, 2);
    };
    ($this:ident, PARTS_STAGED_256X64, true) => {
        product!(@halves $this, PARTS_STAGED_256X64, 64, 32, 1, 128);
    };
    ($this:ident, PARTS_STAGED_128X64, false) => {
        product!(@halves $this, PARTS_STAGED_128X64, 64, 32, 0, 2);
    };
    ($this:ident, PARTS_STAGED_128X64, true) => {
        product!(@halves $this, PARTS_STAGED_128X64, 64, 32, 1, 128);
    };
    ($this:ident, PARTS_WGRAD_128X128) => {
        product!(@halves $this, PARTS_WGRAD_128X128, 128, 64, 1, 128);
    };
    ($this:ident, PARTS_WGRAD_128X64) => {
        product!(@halves $this, PARTS_WGRAD_128X64, 64, 32, 1, 128);
    };
    ($this:ident, PARTS_WGRAD_64X128) => {
        product!(@halves $this, PARTS_WGRAD_64X128, 64, 32, 1, 128);
    };
    ($this:ident, PARTS_WINDOWS_64X128) => {
        product!(@halves $this, PARTS_WINDOWS_64X128, 128, 64, 0, 2);
    };
    ($this:ident, PARTS_WINDOWS_64X64) => {
        product!(@halves $this, PARTS_WINDOWS_64X64, 64, 32, 0, 2);
    };
    ($this:ident, PARTS_WINDOWS_64X32) => {
        product!(@halves $this, PARTS_WINDOWS_64X32, 32, 16, 0, 2);
    };
    (@halves $this:ident, $tile:ident, $n:tt, $registers:tt, $b_mn:tt, $b_step:tt) => {
        impl PartsProduct<$registers> for $this {
            const TILE: ConvTile = $tile;
            const B_IS_MN_MAJOR: bool = $b_mn == 1;
            type Fragments = Scaled;

            #[inline(always)]
            unsafe fn take_apart(pairs: [[[u32; 2]; 4]; 2]) -> Scaled {
                scaled::fragments(pairs)
            }

            #[inline(always)]
            unsafe fn multiply(d: &mut [f32; $registers], a: &Scaled, b: u64) {
                /// From part to part, in a descriptor's units.
                const PART: u64 = ($tile.gemm_n * PARTS_PANEL * 2 / 16) as u64;
                let [a0, a1, a2, a3] = a.parts;
                let (first, second) = ([a0, a1], [a2, a3]);
                // Small products first.
                wgmma!(types = f16, n = $n, steps = 2, d = &mut *d, a_registers = second, b = b, b_step = $b_step,
                    transpose_b = $b_mn, accumulate = 0, commit = 0);
                wgmma!(types = f16, n = $n, steps = 2, d = &mut *d, a_registers = first, b = b + PART,
                    b_step = $b_step, transpose_b = $b_mn, accumulate = 1, commit = 0, fence = 0);
                wgmma!(types = f16, n = $n, steps = 2, d = &mut *d, a_registers = first, b = b, b_step = $b_step,
                    transpose_b = $b_mn, accumulate = 1, fence = 0);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [f32; $registers], a: &mut Scaled) {
                let a = &mut a.parts;
                wgmma_wait!(d = d, registers = $registers, pending = 0, a_registers = a, steps = 4);
            }

            #[inline(always)]
            unsafe fn add(
                sums: &mut [f32; $registers],
                d: &[f32; $registers],
                a: &Scaled,
                factors: u32,
                first_column: u32,
            ) {
                let groups = factors + ($tile.gemm_n + first_column / GROUP) * 4;
                scaled::add(sums, d, a, factors + first_column * 4, groups)
            }
        }
    };
    (@of $this:ident, $tile:ident, $n:tt, $registers:tt, $b_mn:tt, $b_step:tt) => {
        impl PartsProduct<$registers> for $this {
            const TILE: ConvTile = $tile;
            const B_IS_MN_MAJOR: bool = $b_mn == 1;
            type Fragments = [[u32; 4]; 6];

            #[inline(always)]
            unsafe fn take_apart(pairs: [[[u32; 2]; 4]; 2]) -> [[u32; 4]; 6] {
                super::fragments(pairs)
            }

            #[inline(always)]
            unsafe fn multiply(d: &mut [f32; $registers], a: &[[u32; 4]; 6], b: u64) {
                /// From part to part, in a descriptor's units.
                const PART: u64 = ($tile.gemm_n * PARTS_PANEL * 2 / 16) as u64;
                let (first, second, third) = ([a[0], a[1]], [a[2], a[3]], [a[4], a[5]]);
                // Small products first.
                wgmma!(types = bf16, n = $n, steps = 2, d = &mut *d, a_registers = third, b = b, b_step = $b_step,
                    transpose_b = $b_mn, accumulate = 0, commit = 0);
                wgmma!(types = bf16, n = $n, steps = 2, d = &mut *d, a_registers = first, b = b + 2 * PART,
                    b_step = $b_step, transpose_b = $b_mn, accumulate = 1, commit = 0, fence = 0);
                wgmma!(types = bf16, n = $n, steps = 2, d = &mut *d, a_registers = second, b = b + PART,
                    b_step = $b_step, transpose_b = $b_mn, accumulate = 1, commit = 0, fence = 0);
                wgmma!(types = bf16, n = $n, steps = 2, d = &mut *d, a_registers = second, b = b, b_step = $b_step,
                    transpose_b = $b_mn, accumulate = 1, commit = 0, fence = 0);
                wgmma!(types = bf16, n = $n, steps = 2, d = &mut *d, a_registers = first, b = b + PART,
                    b_step = $b_step, transpose_b = $b_mn, accumulate = 1, commit = 0, fence = 0);
                wgmma!(types = bf16, n = $n, steps = 2, d = &mut *d, a_registers = first, b = b, b_step = $b_step,
                    transpose_b = $b_mn, accumulate = 1, fence = 0);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [f32; $registers], a: &mut [[u32; 4]; 6]) {
                wgmma_wait!(d = d, registers = $registers, pending = 0, a_registers = a, steps = 6);
            }

            #[inline(always)]
            unsafe fn add(sums: &mut [f32; $registers], d: &[f32; $registers], _: &[[u32; 4]; 6], _: u32, _: u32) {
                super::add(sums, d)
            }
        }
    };
}

kernel_abi::conv_bf16x3_gather_kernels!(gather_entries);
kernel_abi::conv_f16x2_direct_kernels!(direct_entries);
kernel_abi::conv_f16x2_staged_kernels!(staged_entries);
kernel_abi::conv_f16x2_wgrad_kernels!(wgrad_entries);
kernel_abi::conv_f16x2_cluster_kernels!(cluster_entries);
kernel_abi::conv_f16x2_windows_kernels!(windows_entries);
kernel_abi::conv_bf16x3_side_kernels!(side_entries);
