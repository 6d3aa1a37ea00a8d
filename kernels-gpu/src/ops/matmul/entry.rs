//! Matmul kernels: the rows of the lists in `kernel_abi::ops::matmul`.

use super::tma_wgmma::{Maps, PANEL_BYTES, Product, Tiled, pack, run};
use super::{bf16x3_wgmma, cp_async_mma, ffma, naive, split};
use crate::math::element::{Factor, bf16, f8e4m3, f8e5m2, f16};
use cuda_std::wgmma::{wgmma, wgmma_wait};
use cuda_std::{kernel, shared_array};
use kernel_abi::ops::matmul::{
    CP_ASYNC_64X64, CP_ASYNC_128X128, DRAWS_128X64, DRAWS_128X128, DRAWS_128X256, DRAWS_192X128, DRAWS_256X112,
    FFMA_64X64, FFMA_128X128, MatmulBlockParams, MatmulBlockTile, MatmulPackParams, MatmulParams, MatmulPartialsParams,
    MatmulTile, MatmulTmaParams, RESIDENT_128X160, TILE_64X16, TILE_64X32, TILE_64X64, TILE_64X128, TILE_128X16,
    TILE_128X32, TILE_128X64, TILE_128X128, TILE_128X160, TILE_128X256, TILE_128X256_C2, TILE_192X128, TILE_192X192,
    TILE_256X112, TURNS_128X128, TURNS_128X128_C2, TURNS_128X160_C2, TURNS_128X160_S4_C2, TURNS_128X192_C2,
};

macro_rules! naive_entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live matrices of the extents and strides in `params`.
        #[kernel(threads = 256)]
        pub unsafe fn $symbol(params: MatmulParams) {
            type Term = <$dtype as Factor>::Term;
            let a = shared_array![Term; naive::SLICE_ELEMS];
            let b = shared_array![Term; naive::SLICE_ELEMS];
            naive::$pass::<$dtype, $dtype, $dtype>(&params, a, b)
        }
    )* };
}

kernel_abi::matmul_kernels!(naive_entries);

macro_rules! narrow_entries {
    ($(($symbol:ident, $a:ident, $b:ident, $c:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live matrices of the extents and strides in `params`.
        #[kernel(threads = 256)]
        pub unsafe fn $symbol(params: MatmulParams) {
            type Term = <$a as Factor>::Term;
            let a = shared_array![Term; naive::SLICE_ELEMS];
            let b = shared_array![Term; naive::SLICE_ELEMS];
            naive::forward::<$a, $b, $c>(&params, a, b)
        }
    )* };
}

kernel_abi::matmul_narrow_kernels!(narrow_entries);

macro_rules! tma_wgmma_entries {
    ($(($symbol:ident, $dtype:ident, $tile:ident, $cluster:tt, $a:ident, $b:ident)),* $(,)?) => { $(
        tma_wgmma_entries!(@tile $tile, $cluster, $symbol, $dtype, $tile, $a, $b);
    )* };
    (@tile TILE_192X192, 1, $($row:ident),*) => {
        tma_wgmma_entries!(@three_consumers $($row),*);
    };
    (@tile TILE_192X128, 1, $($row:ident),*) => {
        tma_wgmma_entries!(@three_consumers $($row),*);
    };
    (@tile DRAWS_192X128, 1, $($row:ident),*) => {
        tma_wgmma_entries!(@three_consumers $($row),*);
    };
    (@tile TILE_256X112, 1, $($row:ident),*) => {
        tma_wgmma_entries!(@four_consumers $($row),*);
    };
    (@tile DRAWS_256X112, 1, $($row:ident),*) => {
        tma_wgmma_entries!(@four_consumers $($row),*);
    };
    (@four_consumers $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes maps and extents of live matrices in `params`.
        #[kernel(arch = "sm_90a", threads = 640, min_blocks = 1, tensor_maps = 3)]
        pub unsafe fn $symbol(params: MatmulTmaParams) {
            tma_wgmma_entries!(@body $symbol, params, $($row),*)
        }
    };
    (@three_consumers $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes maps and extents of live matrices in `params`.
        #[kernel(arch = "sm_90a", threads = 512, min_blocks = 1, tensor_maps = 3)]
        pub unsafe fn $symbol(params: MatmulTmaParams) {
            tma_wgmma_entries!(@body $symbol, params, $($row),*)
        }
    };
    (@tile TURNS_128X192_C2, 2, $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes maps and extents of live matrices in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, cluster = 2, tensor_maps = 3,
                 allow_local = "beside 192 sums a thread, some numbers of a whole block wait there from tile to tile")]
        pub unsafe fn $symbol(params: MatmulTmaParams) {
            tma_wgmma_entries!(@body $symbol, params, $($row),*)
        }
    };
    (@tile TILE_64X128, 1, $($row:ident),*) => {
        tma_wgmma_entries!(@one_consumer $($row),*);
    };
    (@tile TILE_64X64, 1, $($row:ident),*) => {
        tma_wgmma_entries!(@one_consumer $($row),*);
    };
    (@tile TILE_64X32, 1, $($row:ident),*) => {
        tma_wgmma_entries!(@one_consumer $($row),*);
    };
    (@tile TILE_64X16, 1, $($row:ident),*) => {
        tma_wgmma_entries!(@one_consumer $($row),*);
    };
    (@tile $tile:ident, $cluster:tt, $($row:ident),*) => {
        tma_wgmma_entries!(@cluster $cluster, $($row),*);
    };
    (@one_consumer $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes maps and extents of live matrices in `params`.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 1, tensor_maps = 3)]
        pub unsafe fn $symbol(params: MatmulTmaParams) {
            tma_wgmma_entries!(@body $symbol, params, $($row),*)
        }
    };
    (@cluster 1, $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes maps and extents of live matrices in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, tensor_maps = 3)]
        pub unsafe fn $symbol(params: MatmulTmaParams) {
            tma_wgmma_entries!(@body $symbol, params, $($row),*)
        }
    };
    (@cluster 2, $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes maps and extents of live matrices in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, cluster = 2, tensor_maps = 3)]
        pub unsafe fn $symbol(params: MatmulTmaParams) {
            tma_wgmma_entries!(@body $symbol, params, $($row),*)
        }
    };
    (@body $symbol:ident, $params:ident, $dtype:ident, $tile:ident, $a:ident, $b:ident) => {{
        struct This;
        product!(This, $dtype, $tile, $a, $b);
        let maps = Maps {
            a: cuda_std::param_tensor_map!($symbol, 0),
            b: cuda_std::param_tensor_map!($symbol, 1),
            c: cuda_std::param_tensor_map!($symbol, 2),
        };
        run::<This, { ($tile.gemm_n / 2) as usize }, { $tile.subtiles() as usize }>(&$params, maps)
    }};
}

/// Implements [`Product`]: the instruction's shape, orientations and steps must be literals.
macro_rules! product {
    ($this:ident, $dtype:ident, TILE_128X256_C2, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_128X256_C2, 256, 128, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, TILE_128X256, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_128X256, 256, 128, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, TILE_128X160, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_128X160, 160, 80, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, TURNS_128X160_C2, $a:ident, $b:ident) => {
        product!($this, $dtype, TURNS_128X160_C2, 160, 80, 2, $a, $b);
    };
    ($this:ident, $dtype:ident, TURNS_128X160_S4_C2, $a:ident, $b:ident) => {
        product!($this, $dtype, TURNS_128X160_S4_C2, 160, 80, 2, $a, $b);
    };
    ($this:ident, $dtype:ident, TURNS_128X192_C2, $a:ident, $b:ident) => {
        product!($this, $dtype, TURNS_128X192_C2, 192, 96, 2, $a, $b);
    };
    ($this:ident, $dtype:ident, TURNS_128X128_C2, $a:ident, $b:ident) => {
        product!($this, $dtype, TURNS_128X128_C2, 128, 64, 2, $a, $b);
    };
    ($this:ident, $dtype:ident, TURNS_128X128, $a:ident, $b:ident) => {
        product!($this, $dtype, TURNS_128X128, 128, 64, 2, $a, $b);
    };
    ($this:ident, $dtype:ident, RESIDENT_128X160, k, k) => {
        product!($this, $dtype, RESIDENT_128X160, 160, 80, 2, k, k);
    };
    // 16 rows of a panel are 1024 bytes.
    ($this:ident, $dtype:ident, RESIDENT_128X160, k, mn) => {
        product!(@both $this, $dtype, RESIDENT_128X160, 160, 80, 2, 0, 2, 1, 64);
    };
    ($this:ident, $dtype:ident, TILE_192X192, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_192X192, 192, 96, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, TILE_192X128, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_192X128, 128, 64, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, TILE_256X112, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_256X112, 112, 56, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, TILE_64X128, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_64X128, 128, 64, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, TILE_64X64, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_64X64, 64, 32, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, TILE_64X32, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_64X32, 32, 16, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, TILE_64X16, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_64X16, 16, 8, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, TILE_128X128, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_128X128, 128, 64, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, TILE_128X64, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_128X64, 64, 32, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, TILE_128X32, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_128X32, 32, 16, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, TILE_128X16, $a:ident, $b:ident) => {
        product!($this, $dtype, TILE_128X16, 16, 8, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, DRAWS_128X256, $a:ident, $b:ident) => {
        product!($this, $dtype, DRAWS_128X256, 256, 128, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, DRAWS_192X128, $a:ident, $b:ident) => {
        product!($this, $dtype, DRAWS_192X128, 128, 64, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, DRAWS_256X112, $a:ident, $b:ident) => {
        product!($this, $dtype, DRAWS_256X112, 112, 56, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, DRAWS_128X128, $a:ident, $b:ident) => {
        product!($this, $dtype, DRAWS_128X128, 128, 64, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, DRAWS_128X64, $a:ident, $b:ident) => {
        product!($this, $dtype, DRAWS_128X64, 64, 32, 1, $a, $b);
    };
    ($this:ident, $dtype:ident, $tile:ident, $n:tt, $registers:tt, $parts:tt, k, k) => {
        product!(@both $this, $dtype, $tile, $n, $registers, $parts, 0, 2, 0, 2);
    };
    ($this:ident, $dtype:ident, $tile:ident, $n:tt, $registers:tt, $parts:tt, k, mn) => {
        product!(@both $this, $dtype, $tile, $n, $registers, $parts, 0, 2, 1, 128);
    };
    ($this:ident, $dtype:ident, $tile:ident, $n:tt, $registers:tt, $parts:tt, mn, k) => {
        product!(@both $this, $dtype, $tile, $n, $registers, $parts, 1, 128, 0, 2);
    };
    ($this:ident, $dtype:ident, $tile:ident, $n:tt, $registers:tt, $parts:tt, mn, mn) => {
        product!(@both $this, $dtype, $tile, $n, $registers, $parts, 1, 128, 1, 128);
    };
    (@both $this:ident, $dtype:ident, $tile:ident, $n:tt, $registers:tt, $parts:tt,
        $a_mn:tt, $a_step:tt, $b_mn:tt, $b_step:tt) => {
        impl Tiled for $this {
            const TILE: MatmulTile = $tile;
            product!(@pack $dtype);
        }

        impl Product<$registers, $parts> for $this {
            const A_IS_MN_MAJOR: bool = $a_mn == 1;
            const B_IS_MN_MAJOR: bool = $b_mn == 1;
            product!(@parts $parts, $dtype, $n, $registers, $a_mn, $a_step, $b_mn, $b_step);
        }
    };
    (@parts 1, $dtype:ident, $n:tt, $registers:tt, $a_mn:tt, $a_step:tt, $b_mn:tt, $b_step:tt) => {
        #[inline(always)]
        unsafe fn multiply(d: &mut [[f32; $registers]; 1], a: u64, b: u64, accumulate: u32) {
            wgmma!(types = $dtype, n = $n, steps = 4, d = &mut d[0], a = a, a_step = $a_step, transpose_a = $a_mn,
                b = b, b_step = $b_step, transpose_b = $b_mn, accumulate = accumulate);
        }

        #[inline(always)]
        unsafe fn finish(d: &mut [[f32; $registers]; 1]) {
            wgmma_wait!(d = &mut d[0], registers = $registers, pending = 0);
        }
    };
    (@parts 2, $dtype:ident, $n:tt, $registers:tt, $a_mn:tt, $a_step:tt, $b_mn:tt, $b_step:tt) => {
        #[inline(always)]
        unsafe fn multiply(d: &mut [[f32; $registers]; 2], a: u64, b: u64, accumulate: u32) {
            wgmma!(types = $dtype, n = $n, steps = 4, d = &mut d[0], a = a, a_step = $a_step, transpose_a = $a_mn,
                b = b, b_step = $b_step, transpose_b = $b_mn, accumulate = accumulate, commit = 0);
            let a = a + u64::from(PANEL_BYTES / 16);
            wgmma!(types = $dtype, n = $n, steps = 4, d = &mut d[1], a = a, a_step = $a_step, transpose_a = $a_mn,
                b = b, b_step = $b_step, transpose_b = $b_mn, accumulate = accumulate, fence = 0);
        }

        #[inline(always)]
        unsafe fn finish(d: &mut [[f32; $registers]; 2]) {
            wgmma_wait!(d = &mut d[0], registers = $registers, pending = 0);
            wgmma_wait!(d = &mut d[1], registers = $registers, pending = 0);
        }
    };
    (@pack bf16) => {
        #[inline(always)]
        fn pack(low: f32, high: f32) -> u32 {
            cuda_std::convert::bf16x2_from_f32(low, high)
        }
        #[inline(always)]
        fn unpack(bits: u16) -> f32 {
            cuda_std::convert::f32_from_bf16(bits)
        }
    };
    (@pack f16) => {
        #[inline(always)]
        fn pack(low: f32, high: f32) -> u32 {
            cuda_std::convert::f16x2_from_f32(low, high)
        }
        #[inline(always)]
        fn unpack(bits: u16) -> f32 {
            cuda_std::convert::f32_from_f16(bits)
        }
    };
}

kernel_abi::matmul_tma_wgmma_kernels!(tma_wgmma_entries);

macro_rules! tma_wgmma_partials_entries {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes the parts of all sums and a live matrix in `params`.
        #[kernel(arch = "sm_90a", threads = 128, min_blocks = 8)]
        pub unsafe fn $symbol(params: MatmulPartialsParams) {
            split::add_up::<$dtype, true>(&params)
        }
    )* };
}

kernel_abi::matmul_tma_wgmma_partials_kernels!(tma_wgmma_partials_entries);

macro_rules! tma_wgmma_pack_entries {
    ($(($symbol:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live matrices and room for their copy in `params`.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 8)]
        pub unsafe fn $symbol(params: MatmulPackParams) {
            pack::pack(&params)
        }
    )* };
}

kernel_abi::matmul_tma_wgmma_pack_kernels!(tma_wgmma_pack_entries);

macro_rules! cp_async_mma_entries {
    ($(($symbol:ident, $dtype:ident, $tile:ident, $a:ident, $b:ident)),* $(,)?) => { $(
        cp_async_mma_entries!(@tile $tile, $symbol, $dtype, $a, $b);
    )* };
    (@tile CP_ASYNC_128X128, $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes live matrices of the extents and strides in `params`.
        #[kernel(threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: MatmulBlockParams) {
            cp_async_mma_entries!(@body params, CP_ASYNC_128X128, 2, 4, $($row),*)
        }
    };
    (@tile CP_ASYNC_64X64, $symbol:ident, $($row:ident),*) => {
        /// # Safety
        /// The host passes live matrices of the extents and strides in `params`.
        #[kernel(threads = 128, min_blocks = 4)]
        pub unsafe fn $symbol(params: MatmulBlockParams) {
            cp_async_mma_entries!(@body params, CP_ASYNC_64X64, 2, 2, $($row),*)
        }
    };
    (@body $params:ident, $tile:ident, $warp_rows:literal, $m_blocks:literal, $dtype:ident, $a:ident, $b:ident) => {{
        struct This;
        impl cp_async_mma::Product for This {
            const TILE: MatmulBlockTile = $tile;
            const WARP_ROWS: u32 = $warp_rows;
            const A_IS_MN_MAJOR: bool = is_mn_major!($a);
            const B_IS_MN_MAJOR: bool = is_mn_major!($b);
            mma!($dtype);
        }
        cp_async_mma::run::<This, $m_blocks>(&$params)
    }};
}

macro_rules! is_mn_major {
    (k) => {
        false
    };
    (mn) => {
        true
    };
}

/// The element-wise half of [`cp_async_mma::Product`].
macro_rules! mma {
    (bf16) => {
        #[inline(always)]
        fn multiply(d: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
            cuda_std::mma::m16n8k16_bf16(d, a, b)
        }
        #[inline(always)]
        fn narrow(value: f32) -> u16 {
            cuda_std::convert::bf16_from_f32(value)
        }
        #[inline(always)]
        fn widen(bits: u16) -> f32 {
            cuda_std::convert::f32_from_bf16(bits)
        }
    };
    (f16) => {
        #[inline(always)]
        fn multiply(d: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
            cuda_std::mma::m16n8k16_f16(d, a, b)
        }
        #[inline(always)]
        fn narrow(value: f32) -> u16 {
            cuda_std::convert::f16_from_f32(value)
        }
        #[inline(always)]
        fn widen(bits: u16) -> f32 {
            cuda_std::convert::f32_from_f16(bits)
        }
    };
}

kernel_abi::matmul_cp_async_mma_kernels!(cp_async_mma_entries);

macro_rules! ffma_entries {
    ($(($symbol:ident, $dtype:ident, $tile:ident, $a:ident, $b:ident)),* $(,)?) => { $(
        ffma_entries!(@tile $tile, $symbol, $a, $b);
    )* };
    (@tile FFMA_128X128, $symbol:ident, $a:ident, $b:ident) => {
        /// # Safety
        /// The host passes live matrices of the extents and strides in `params`.
        #[kernel(threads = 256, min_blocks = 2)]
        pub unsafe fn $symbol(params: MatmulBlockParams) {
            ffma::run(&params, FFMA_128X128, is_mn_major!($a), is_mn_major!($b))
        }
    };
    (@tile FFMA_64X64, $symbol:ident, $a:ident, $b:ident) => {
        /// # Safety
        /// The host passes live matrices of the extents and strides in `params`.
        #[kernel(threads = 64, min_blocks = 6)]
        pub unsafe fn $symbol(params: MatmulBlockParams) {
            ffma::run(&params, FFMA_64X64, is_mn_major!($a), is_mn_major!($b))
        }
    };
}

kernel_abi::matmul_ffma_kernels!(ffma_entries);

macro_rules! split_entries {
    ($(($symbol:ident, $dtype:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes the parts of all sums and a live matrix in `params`.
        #[kernel(threads = 128, min_blocks = 8)]
        pub unsafe fn $symbol(params: MatmulPartialsParams) {
            split::add_up::<$dtype, false>(&params)
        }
    )* };
}

kernel_abi::matmul_split_kernels!(split_entries);

macro_rules! bf16x3_wgmma_entries {
    ($(($symbol:ident, $a:ident, $b:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps of the parts of live matrices, and their extents, in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, tensor_maps = 3)]
        pub unsafe fn $symbol(params: MatmulTmaParams) {
            struct This;
            product!(This, bf16, TILE_128X128, $a, $b);
            let maps = Maps {
                a: cuda_std::param_tensor_map!($symbol, 0),
                b: cuda_std::param_tensor_map!($symbol, 1),
                c: cuda_std::param_tensor_map!($symbol, 2),
            };
            bf16x3_wgmma::run::<This, 64>(&params, maps)
        }
    )* };
}

kernel_abi::matmul_bf16x3_wgmma_kernels!(bf16x3_wgmma_entries);

macro_rules! bf16x3_wgmma_parts_entries {
    ($(($symbol:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes live matrices and room for their parts in `params`.
        #[kernel(arch = "sm_90a", threads = 256, min_blocks = 4)]
        pub unsafe fn $symbol(params: MatmulPackParams) {
            bf16x3_wgmma::parts(&params)
        }
    )* };
}

kernel_abi::matmul_bf16x3_wgmma_parts_kernels!(bf16x3_wgmma_parts_entries);
