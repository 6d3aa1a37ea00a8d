//! Hopper's convolution kernels: the rows of `conv_im2col_gather_kernels!`, `conv_stream_k_kernels!`,
//! `conv_im2col_wgrad_kernels!`, `conv_im2col_fixup_kernels!`, `conv_im2col_sum_kernels!`, `conv_cluster_gather_kernels!` and
//! `conv_cluster_wgrad_kernels!`.

use super::{Bf16, F16, PartProduct, Product, cluster, gather, sum, wgrad};
use cuda_std::wgmma::{wgmma, wgmma_wait};
use cuda_std::{kernel, param_tensor_map};
use kernel_abi::ops::conv::im2col_cluster::{
    CLUSTER_64X32, CLUSTER_64X64, CLUSTER_64X64_S12, CLUSTER_128X64, CLUSTER_128X64_S8, CLUSTER_128X128_S5,
    CLUSTER_WGRAD_64X64, CLUSTER_WGRAD_64X128,
};
use kernel_abi::ops::conv::im2col_wgmma::*;

macro_rules! gather_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $tile:ident, $cluster:tt)),* $(,)?) => { $(
        gather_entries!(@cluster $cluster, $symbol, $pass, $dtype, $tile);
    )* };
    (@cluster 1, $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, tensor_maps = 17)]
        pub unsafe fn $symbol(params: ConvGatherParams) {
            gather_entries!(@body $symbol, params, $($row),*)
        }
    };
    (@cluster 2, $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, cluster = 2, tensor_maps = 17)]
        pub unsafe fn $symbol(params: ConvGatherParams) {
            gather_entries!(@body $symbol, params, $($row),*)
        }
    };
    (@body $symbol:ident, $params:ident, $pass:ident, $dtype:ident, $tile:ident) => {{
        struct This;
        product!(This, $pass, $dtype, $tile);
        let at = gather::Address(param_tensor_map!($symbol, 0).0);
        gather::run::<_, This, element!($dtype), { ($tile.gemm_n / 2) as usize }, { $tile.subtiles() as usize }>(
            &$params, at,
        )
    }};
}

macro_rules! stream_k_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $tile:ident, $cluster:tt)),* $(,)?) => { $(
        stream_k_entries!(@cluster $cluster, $symbol, $pass, $dtype, $tile);
    )* };
    (@cluster 1, $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, tensor_maps = 17)]
        pub unsafe fn $symbol(params: ConvStreamKParams) {
            gather_entries!(@body $symbol, params, $($row),*)
        }
    };
    (@cluster 2, $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, cluster = 2, tensor_maps = 17)]
        pub unsafe fn $symbol(params: ConvStreamKParams) {
            gather_entries!(@body $symbol, params, $($row),*)
        }
    };
}

macro_rules! wgrad_entries {
    ($(($symbol:ident, $dtype:ident, $tile:ident, $cluster:tt)),* $(,)?) => { $(
        wgrad_entries!(@cluster $cluster, ConvWgradParams, $symbol, $dtype, $tile);
    )* };
    (@cluster 1, $params:ty, $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, tensor_maps = 2)]
        pub unsafe fn $symbol(params: $params) {
            wgrad_entries!(@body $symbol, params, $($row),*)
        }
    };
    (@cluster 2, $params:ty, $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, cluster = 2, tensor_maps = 2)]
        pub unsafe fn $symbol(params: $params) {
            wgrad_entries!(@body $symbol, params, $($row),*)
        }
    };
    (@body $symbol:ident, $params:ident, $dtype:ident, $tile:ident) => {{
        struct This;
        product!(This, wgrad, $dtype, $tile);
        let maps = wgrad::Maps { dy: param_tensor_map!($symbol, 0), x: param_tensor_map!($symbol, 1) };
        wgrad::run::<_, This, element!($dtype), { ($tile.consumer_columns() / 2) as usize }>(&$params, maps)
    }};
}

macro_rules! fixup_entries {
    ($(($symbol:ident, $dtype:ident, $tile:ident, $cluster:tt)),* $(,)?) => { $(
        wgrad_entries!(@cluster $cluster, ConvWgradFixupParams, $symbol, $dtype, $tile);
    )* };
}

// Registers for two blocks a multiprocessor.
macro_rules! cluster_gather_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $tile:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 192, min_blocks = 2, tensor_maps = 17)]
        pub unsafe fn $symbol(params: ConvGatherParams) {
            struct This;
            product!(This, $pass, $dtype, $tile);
            let at = gather::Address(param_tensor_map!($symbol, 0).0);
            cluster::gather::run::<
                This,
                element!($dtype),
                { ($tile.gemm_n / 2) as usize },
                { ($tile.gemm_m / SUBTILE) as usize },
            >(&params, at)
        }
    )* };
}

macro_rules! cluster_wgrad_entries {
    ($(($symbol:ident, $dtype:ident, $tile:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 192, min_blocks = 2, tensor_maps = 2)]
        pub unsafe fn $symbol(params: ConvWgradParams) {
            struct This;
            product!(This, wgrad, $dtype, $tile);
            let maps = wgrad::Maps { dy: param_tensor_map!($symbol, 0), x: param_tensor_map!($symbol, 1) };
            cluster::wgrad::run::<This, element!($dtype), { ($tile.gemm_n / 2) as usize }>(&params, maps)
        }
    )* };
}

macro_rules! sum_entries {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes what it gave to the kernel that made the partial sums.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: ConvWgradSumParams) {
            sum::run::<element!($dtype)>(&params)
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

/// Implements [`Product`]: the instruction's shape, orientations and steps must be literals.
///
/// Where the sum's dimension is contiguous, an instruction's step along it is 32 bytes (2 units of a descriptor), else
/// 16 rows of 128 bytes (128 units).
macro_rules! product {
    ($this:ident, $pass:ident, $dtype:ident, GATHER_128X256_C2) => {
        product!(@pass $pass, $this, $dtype, GATHER_128X256_C2, 256, 128, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, GATHER_128X256) => {
        product!(@pass $pass, $this, $dtype, GATHER_128X256, 256, 128, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, GATHER_128X192) => {
        product!(@pass $pass, $this, $dtype, GATHER_128X192, 192, 96, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, GATHER_256X128_C2) => {
        product!(@pass $pass, $this, $dtype, GATHER_256X128_C2, 128, 64, 2);
    };
    ($this:ident, $pass:ident, $dtype:ident, GATHER_256X128) => {
        product!(@pass $pass, $this, $dtype, GATHER_256X128, 128, 64, 2);
    };
    ($this:ident, $pass:ident, $dtype:ident, GATHER_128X128) => {
        product!(@pass $pass, $this, $dtype, GATHER_128X128, 128, 64, 2);
    };
    ($this:ident, $pass:ident, $dtype:ident, STREAM_128X128) => {
        product!(@pass $pass, $this, $dtype, STREAM_128X128, 128, 64, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, STREAM_128X160) => {
        product!(@pass $pass, $this, $dtype, STREAM_128X160, 160, 80, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, STREAM_128X128_C2) => {
        product!(@pass $pass, $this, $dtype, STREAM_128X128_C2, 128, 64, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, GATHER_256X64) => {
        product!(@pass $pass, $this, $dtype, GATHER_256X64, 64, 32, 2);
    };
    ($this:ident, $pass:ident, $dtype:ident, GATHER_128X64) => {
        product!(@pass $pass, $this, $dtype, GATHER_128X64, 64, 32, 2);
    };
    ($this:ident, fprop, $dtype:ident, GATHER_128X128_P32) => {
        product!(@narrow $this, $dtype, GATHER_128X128_P32, 128, 64, 2, 0, 2, GATHER_128X128_P32.b_bytes() / 2);
    };
    ($this:ident, dgrad, $dtype:ident, GATHER_128X128_P32) => {
        product!(@narrow $this, $dtype, GATHER_128X128_P32, 128, 64, 2, 1, 128, 32 * 128);
    };
    ($this:ident, fprop, $dtype:ident, GATHER_256X64_P32) => {
        product!(@narrow $this, $dtype, GATHER_256X64_P32, 64, 32, 2, 0, 2, GATHER_256X64_P32.b_bytes() / 2);
    };
    ($this:ident, dgrad, $dtype:ident, GATHER_256X64_P32) => {
        product!(@narrow $this, $dtype, GATHER_256X64_P32, 64, 32, 2, 1, 128, 32 * 128);
    };
    ($this:ident, $pass:ident, $dtype:ident, WGRAD_128X256) => {
        product!(@pass $pass, $this, $dtype, WGRAD_128X256, 256, 128, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, WGRAD_128X256_C2) => {
        product!(@pass $pass, $this, $dtype, WGRAD_128X256_C2, 256, 128, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, WGRAD_128X128_C2) => {
        product!(@pass $pass, $this, $dtype, WGRAD_128X128_C2, 128, 64, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, WGRAD_128X192) => {
        product!(@pass $pass, $this, $dtype, WGRAD_128X192, 192, 96, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, WGRAD_128X128) => {
        product!(@pass $pass, $this, $dtype, WGRAD_128X128, 128, 64, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, WGRAD_128X64) => {
        product!(@pass $pass, $this, $dtype, WGRAD_128X64, 64, 32, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, WGRAD_64X256) => {
        product!(@pass $pass, $this, $dtype, WGRAD_64X256, 128, 64, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, WGRAD_64X128) => {
        product!(@pass $pass, $this, $dtype, WGRAD_64X128, 64, 32, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, FIXUP_128X128_C2) => {
        product!(@pass $pass, $this, $dtype, FIXUP_128X128_C2, 128, 64, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, FIXUP_128X128) => {
        product!(@pass $pass, $this, $dtype, FIXUP_128X128, 128, 64, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, FIXUP_128X64) => {
        product!(@pass $pass, $this, $dtype, FIXUP_128X64, 64, 32, 1);
    };
    // Rows of 32 columns are half as wide.
    ($this:ident, wgrad, $dtype:ident, WGRAD_64X256_P32) => {
        product!(@wide $this, $dtype, WGRAD_64X256_P32, 128, 64, 1, 1, 128, 1, 64);
        product!(@part $this, $dtype, WGRAD_64X256_P32, 128, 64, 1, 128, 64);
    };
    ($this:ident, wgrad, $dtype:ident, WGRAD_64X320_P32) => {
        product!(@wide $this, $dtype, WGRAD_64X320_P32, 160, 80, 1, 1, 128, 1, 64);
        product!(@part $this, $dtype, WGRAD_64X320_P32, 160, 80, 1, 128, 64);
    };
    ($this:ident, $pass:ident, $dtype:ident, CLUSTER_64X64) => {
        product!(@pass $pass, $this, $dtype, CLUSTER_64X64, 64, 32, 1);
    };
    ($this:ident, fprop, $dtype:ident, CLUSTER_64X32) => {
        product!(@pass fprop, $this, $dtype, CLUSTER_64X32, 32, 16, 1);
    };
    ($this:ident, dgrad, $dtype:ident, CLUSTER_64X32) => {
        product!(@wide $this, $dtype, CLUSTER_64X32, 32, 16, 1, 0, 2, 1, 64);
    };
    ($this:ident, $pass:ident, $dtype:ident, CLUSTER_128X64) => {
        product!(@pass $pass, $this, $dtype, CLUSTER_128X64, 64, 32, 2);
    };
    ($this:ident, $pass:ident, $dtype:ident, CLUSTER_64X64_S12) => {
        product!(@pass $pass, $this, $dtype, CLUSTER_64X64_S12, 64, 32, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, CLUSTER_128X64_S8) => {
        product!(@pass $pass, $this, $dtype, CLUSTER_128X64_S8, 64, 32, 2);
    };
    ($this:ident, $pass:ident, $dtype:ident, CLUSTER_128X128_S5) => {
        product!(@pass $pass, $this, $dtype, CLUSTER_128X128_S5, 128, 64, 2);
    };
    ($this:ident, $pass:ident, $dtype:ident, CLUSTER_WGRAD_64X64) => {
        product!(@pass $pass, $this, $dtype, CLUSTER_WGRAD_64X64, 64, 32, 1);
    };
    ($this:ident, $pass:ident, $dtype:ident, CLUSTER_WGRAD_64X128) => {
        product!(@pass $pass, $this, $dtype, CLUSTER_WGRAD_64X128, 128, 64, 1);
    };
    (@pass fprop, $($row:tt),*) => {
        product!(@wide $($row),*, 0, 2, 0, 2);
    };
    (@pass dgrad, $($row:tt),*) => {
        product!(@wide $($row),*, 0, 2, 1, 128);
    };
    (@pass wgrad, $($row:tt),*) => {
        product!(@wide $($row),*, 1, 128, 1, 128);
        product!(@part $($row),*, 128, 128);
    };
    (@wide $this:ident, $dtype:ident, $tile:ident, $n:tt, $registers:tt, 1,
        $a_mn:tt, $a_step:tt, $b_mn:tt, $b_step:tt) => {
        impl Product<$registers, 1> for $this {
            product!(@common $tile, $registers, 1, $b_mn);

            #[inline(always)]
            unsafe fn multiply(d: &mut [[f32; $registers]; 1], a: u64, b: u64, accumulate: u32) {
                wgmma!(types = $dtype, n = $n, steps = 4, d = &mut d[0], a = a, a_step = $a_step,
                    transpose_a = $a_mn, b = b, b_step = $b_step, transpose_b = $b_mn, accumulate = accumulate);
                wgmma_wait!(d = &mut d[0], registers = $registers, pending = 1);
            }
        }
    };
    // Both operands transposed.
    (@part $this:ident, $dtype:ident, $tile:ident, $n:tt, $registers:tt, 1, $a_step:tt, $b_step:tt) => {
        impl PartProduct<$registers> for $this {
            #[inline(always)]
            unsafe fn multiply_steps(d: &mut [[f32; $registers]; 1], a: u64, b: u64, accumulate: u32, steps: u32) {
                let mut step = 0;
                while step < steps {
                    let (a, b) = (a + u64::from(step * $a_step), b + u64::from(step * $b_step));
                    let accumulate = accumulate | u32::from(step > 0);
                    wgmma!(types = $dtype, n = $n, steps = 1, d = &mut d[0], a = a, a_step = $a_step,
                        transpose_a = 1, b = b, b_step = $b_step, transpose_b = 1, accumulate = accumulate);
                    step += 1;
                }
                wgmma_wait!(d = &mut d[0], registers = $registers, pending = 0);
            }
        }
    };
    (@wide $this:ident, $dtype:ident, $tile:ident, $n:tt, $registers:tt, 2,
        $a_mn:tt, $a_step:tt, $b_mn:tt, $b_step:tt) => {
        impl Product<$registers, 2> for $this {
            product!(@common $tile, $registers, 2, $b_mn);

            #[inline(always)]
            unsafe fn multiply(d: &mut [[f32; $registers]; 2], a: u64, b: u64, accumulate: u32) {
                wgmma!(types = $dtype, n = $n, steps = 4, d = &mut d[0], a = a, a_step = $a_step,
                    transpose_a = $a_mn, b = b, b_step = $b_step, transpose_b = $b_mn, accumulate = accumulate,
                    commit = 0);
                let a = a + u64::from(PANEL_BYTES / 16);
                wgmma!(types = $dtype, n = $n, steps = 4, d = &mut d[1], a = a, a_step = $a_step, transpose_a = $a_mn,
                    b = b, b_step = $b_step, transpose_b = $b_mn, accumulate = accumulate, fence = 0);
                wgmma_wait!(d = &mut d[0], registers = $registers, pending = 1);
                wgmma_wait!(d = &mut d[1], registers = $registers, pending = 1);
            }
        }
    };
    (@narrow $this:ident, $dtype:ident, $tile:ident, $n:tt, $registers:tt, 2, $b_mn:tt, $b_step:tt, $b_half:expr) => {
        impl Product<$registers, 2> for $this {
            product!(@common $tile, $registers, 2, $b_mn);

            #[inline(always)]
            unsafe fn multiply(d: &mut [[f32; $registers]; 2], a: u64, b: u64, accumulate: u32) {
                let a_lower = a + u64::from(PANEL_BYTES / 2 / 16);
                wgmma!(types = $dtype, n = $n, steps = 2, d = &mut d[0], a = a, a_step = 2, transpose_a = 0,
                    b = b, b_step = $b_step, transpose_b = $b_mn, accumulate = accumulate, commit = 0);
                wgmma!(types = $dtype, n = $n, steps = 2, d = &mut d[1], a = a_lower, a_step = 2, transpose_a = 0,
                    b = b, b_step = $b_step, transpose_b = $b_mn, accumulate = accumulate, commit = 0, fence = 0);
                let step = u64::from($tile.a_panel_bytes() / 16);
                let (a, a_lower, b) = (a + step, a_lower + step, b + u64::from(($b_half) / 16u32));
                wgmma!(types = $dtype, n = $n, steps = 2, d = &mut d[0], a = a, a_step = 2, transpose_a = 0,
                    b = b, b_step = $b_step, transpose_b = $b_mn, accumulate = 1, commit = 0, fence = 0);
                wgmma!(types = $dtype, n = $n, steps = 2, d = &mut d[1], a = a_lower, a_step = 2, transpose_a = 0,
                    b = b, b_step = $b_step, transpose_b = $b_mn, accumulate = 1, fence = 0);
                wgmma_wait!(d = &mut d[0], registers = $registers, pending = 1);
                wgmma_wait!(d = &mut d[1], registers = $registers, pending = 1);
            }
        }
    };
    (@common $tile:ident, $registers:tt, 1, $b_mn:tt) => {
        const TILE: ConvTile = $tile;
        const B_IS_MN_MAJOR: bool = $b_mn == 1;

        #[inline(always)]
        unsafe fn finish(d: &mut [[f32; $registers]; 1]) {
            wgmma_wait!(d = &mut d[0], registers = $registers, pending = 0);
        }
    };
    (@common $tile:ident, $registers:tt, 2, $b_mn:tt) => {
        const TILE: ConvTile = $tile;
        const B_IS_MN_MAJOR: bool = $b_mn == 1;

        #[inline(always)]
        unsafe fn finish(d: &mut [[f32; $registers]; 2]) {
            wgmma_wait!(d = &mut d[0], registers = $registers, pending = 0);
            wgmma_wait!(d = &mut d[1], registers = $registers, pending = 0);
        }
    };
}

kernel_abi::conv_im2col_gather_kernels!(gather_entries);
kernel_abi::conv_stream_k_kernels!(stream_k_entries);
kernel_abi::conv_im2col_wgrad_kernels!(wgrad_entries);
kernel_abi::conv_im2col_fixup_kernels!(fixup_entries);
kernel_abi::conv_im2col_sum_kernels!(sum_entries);
kernel_abi::conv_cluster_gather_kernels!(cluster_gather_entries);
kernel_abi::conv_cluster_wgrad_kernels!(cluster_wgrad_entries);
