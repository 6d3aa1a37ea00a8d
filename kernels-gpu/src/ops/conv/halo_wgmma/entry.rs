//! The entries: the rows of `conv_halo_kernels!`, and the product instructions of each.

use super::{Product, SUBTILE, run};
use crate::ops::conv::im2col_wgmma::{Bf16, F16};
use cuda_std::wgmma::{wgmma, wgmma_wait};
use cuda_std::{kernel, param_tensor_map};
use kernel_abi::ops::conv::halo_wgmma::{ConvHaloParams, FEW_POSITIONS, TILE_M, position_bytes};

macro_rules! entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $form:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, tensor_maps = 2)]
        pub unsafe fn $symbol(params: ConvHaloParams) {
            struct This;
            product!(@$form $pass, This, $dtype);
            let maps = [param_tensor_map!($symbol, 0), param_tensor_map!($symbol, 1)];
            run::<This, element_type!($dtype), { sums!($form).0 }, { sums!($form).1 }>(&params, maps)
        }
    )* };
}

/// Sums of a thread in one instruction, and instructions.
macro_rules! sums {
    (P256_C16) => {
        (8, 2)
    };
    (P256_C16_RESIDENT) => {
        (8, 4)
    };
    (C64_P64) => {
        (32, 1)
    };
    (C64_P256) => {
        (64, 1)
    };
    (C64_P256_D32) => {
        (64, 1)
    };
    (C64_P256_RESIDENT) => {
        (128, 1)
    };
    (C64_P256_D32_RESIDENT) => {
        (128, 1)
    };
    (C64_P256_D48) => {
        (64, 1)
    };
    (C128_P192) => {
        (96, 1)
    };
    (C128_P256) => {
        (128, 1)
    };
    (C128_P256_D48) => {
        (128, 1)
    };
    (C128_P256_D32) => {
        (128, 1)
    };
}

macro_rules! element_type {
    (bf16) => {
        Bf16
    };
    (f16) => {
        F16
    };
}

/// Implements [`Product`]: the instruction's shape, orientation and steps must be literals.
///
/// Where the sum's dimension is contiguous, an instruction's step along it is 32 bytes (2 units of a descriptor), else
/// 16 rows of 128 bytes (128 units).
macro_rules! product {
    (@P256_C16 fprop, $this:ident, $dtype:ident) => {
        product!(@positions 2, [0 1], 1, $this, $dtype, 128, false);
    };
    (@P256_C16_RESIDENT fprop, $this:ident, $dtype:ident) => {
        product!(@positions 4, [0 1, 1 0, 2 0], 3, $this, $dtype, 256, true);
    };
    (@C64_P64 $($row:tt)*) => { product!(@of 32, 64, 64, 4, 64, 64, false, $($row)*); };
    (@C64_P256 $($row:tt)*) => { product!(@of 64, 128, 64, 4, 256, 128, false, $($row)*); };
    (@C64_P256_D32 $($row:tt)*) => { product!(@of 64, 128, 64, 2, 256, 128, false, $($row)*); };
    (@C64_P256_D48 $($row:tt)*) => { product!(@of 64, 128, 64, 3, 256, 128, false, $($row)*); };
    (@C64_P256_RESIDENT $($row:tt)*) => { product!(@of 128, 256, 64, 4, 256, 256, true, $($row)*); };
    (@C64_P256_D32_RESIDENT $($row:tt)*) => { product!(@of 128, 256, 64, 2, 256, 256, true, $($row)*); };
    (@C128_P192 $($row:tt)*) => { product!(@of 96, 192, 128, 4, 192, 192, false, $($row)*); };
    (@C128_P256 $($row:tt)*) => { product!(@of 128, 256, 128, 4, 256, 256, false, $($row)*); };
    (@C128_P256_D48 $($row:tt)*) => { product!(@of 128, 256, 128, 3, 256, 256, false, $($row)*); };
    (@C128_P256_D32 $($row:tt)*) => { product!(@of 128, 256, 128, 2, 256, 256, false, $($row)*); };
    (@of $r:tt, $n:tt, $channels:tt, $steps:tt, $tile:tt, $positions:tt, $resident:tt, fprop, $($row:ident),*) => {
        product!(@channels $r, $n, $channels, $steps, $tile, $positions, $resident, $($row),*, 0, 2);
    };
    (@of $r:tt, $n:tt, $channels:tt, $steps:tt, $tile:tt, $positions:tt, $resident:tt, dgrad, $($row:ident),*) => {
        product!(@channels $r, $n, $channels, $steps, $tile, $positions, $resident, $($row),*, 1, 128);
    };
    (@channels $r:tt, $n:tt, $channels:tt, $steps:tt, $tile:tt, $positions:tt, $resident:tt, $this:ident, $dtype:ident,
        $mn:tt, $step:tt) => {
        impl Product<$r, 1> for $this {
            const CHANNELS: u32 = $channels;
            // Behind 48 channels lie zeros.
            const DEPTH: u32 = (16u32 * $steps).next_power_of_two();
            const TILE: u32 = $tile;
            const POSITIONS: u32 = $positions;
            const SHARES_TAPS: bool = $tile == FEW_POSITIONS;
            const RESIDENT: bool = $resident;
            const FILTER_IS_MN_MAJOR: bool = $mn == 1;

            #[inline(always)]
            unsafe fn multiply(d: &mut [[f32; $r]; 1], positions: u64, filter: u64, accumulate: u32) {
                wgmma!(types = $dtype, n = $n, steps = $steps, d = &mut d[0], a = filter, a_step = $step,
                    transpose_a = $mn, b = positions, b_step = 2, accumulate = accumulate);
                wgmma_wait!(d = &mut d[0], registers = $r, pending = 1);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [[f32; $r]; 1]) {
                wgmma_wait!(d = &mut d[0], registers = $r, pending = 0);
            }
        }
    };
    // The parts but the last with what says whether to begin with a fence, and the last one, which ends the group.
    (@positions $subtiles:tt, [$($i:tt $fence:tt),*], $last:tt, $this:ident, $dtype:ident, $positions:tt, $resident:tt) => {
        impl Product<8, $subtiles> for $this {
            const CHANNELS: u32 = 16;
            const DEPTH: u32 = 64;
            const TILE: u32 = TILE_M;
            const POSITIONS: u32 = $positions;
            const SHARES_TAPS: bool = false;
            const RESIDENT: bool = $resident;
            const FILTER_IS_MN_MAJOR: bool = false;

            #[inline(always)]
            unsafe fn multiply(d: &mut [[f32; 8]; $subtiles], positions: u64, filter: u64, accumulate: u32) {
                let of = |i: u32| positions + u64::from(i * (SUBTILE * position_bytes(Self::DEPTH) / 16));
                $(
                    wgmma!(types = $dtype, n = 16, steps = 4, d = &mut d[$i], a = of($i), a_step = 2, b = filter,
                        b_step = 2, accumulate = accumulate, fence = $fence, commit = 0);
                )*
                wgmma!(types = $dtype, n = 16, steps = 4, d = &mut d[$last], a = of($last), a_step = 2, b = filter,
                    b_step = 2, accumulate = accumulate, fence = 0);
                $( wgmma_wait!(d = &mut d[$i], registers = 8, pending = 1); )*
                wgmma_wait!(d = &mut d[$last], registers = 8, pending = 1);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [[f32; 8]; $subtiles]) {
                $( wgmma_wait!(d = &mut d[$i], registers = 8, pending = 0); )*
                wgmma_wait!(d = &mut d[$last], registers = 8, pending = 0);
            }
        }
    };
}

kernel_abi::conv_halo_kernels!(entries);
