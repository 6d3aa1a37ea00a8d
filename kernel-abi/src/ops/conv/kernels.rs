//! The only list of convolution kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! conv_kernels {
    ($callback:ident) => {
        $callback! {
            (conv_fprop_naive_f32, fprop, f32),
            (conv_fprop_naive_f64, fprop, f64),
            (conv_fprop_naive_f16, fprop, f16),
            (conv_fprop_naive_bf16, fprop, bf16),
            (conv_dgrad_naive_f32, dgrad, f32),
            (conv_dgrad_naive_f64, dgrad, f64),
            (conv_dgrad_naive_f16, dgrad, f16),
            (conv_dgrad_naive_bf16, dgrad, bf16),
            (conv_wgrad_naive_f32, wgrad, f32),
            (conv_wgrad_naive_f64, wgrad, f64),
            (conv_wgrad_naive_f16, wgrad, f16),
            (conv_wgrad_naive_bf16, wgrad, bf16),
        }
    };
}

/// Calls `$callback!` with one row per Hopper kernel of `fprop` and `dgrad`: symbol, pass, element type, tile, blocks of
/// a cluster.
#[macro_export]
macro_rules! conv_im2col_gather_kernels {
    ($callback:ident) => {
        $callback! {
            (fprop_im2col_wgmma_bf16_128x256_c2_sm90, fprop, bf16, GATHER_128X256_C2, 2),
            (fprop_im2col_wgmma_bf16_128x256_sm90, fprop, bf16, GATHER_128X256, 1),
            (fprop_im2col_wgmma_bf16_256x128_c2_sm90, fprop, bf16, GATHER_256X128_C2, 2),
            (fprop_im2col_wgmma_bf16_256x128_sm90, fprop, bf16, GATHER_256X128, 1),
            (fprop_im2col_wgmma_bf16_128x128_sm90, fprop, bf16, GATHER_128X128, 1),
            (fprop_im2col_wgmma_bf16_256x64_sm90, fprop, bf16, GATHER_256X64, 1),
            (fprop_im2col_wgmma_bf16_128x64_sm90, fprop, bf16, GATHER_128X64, 1),
            (fprop_im2col_wgmma_bf16_128x128_p32_sm90, fprop, bf16, GATHER_128X128_P32, 1),
            (fprop_im2col_wgmma_bf16_256x64_p32_sm90, fprop, bf16, GATHER_256X64_P32, 1),
            (fprop_im2col_wgmma_f16_128x256_c2_sm90, fprop, f16, GATHER_128X256_C2, 2),
            (fprop_im2col_wgmma_f16_128x256_sm90, fprop, f16, GATHER_128X256, 1),
            (fprop_im2col_wgmma_f16_256x128_c2_sm90, fprop, f16, GATHER_256X128_C2, 2),
            (fprop_im2col_wgmma_f16_256x128_sm90, fprop, f16, GATHER_256X128, 1),
            (fprop_im2col_wgmma_f16_128x128_sm90, fprop, f16, GATHER_128X128, 1),
            (fprop_im2col_wgmma_f16_256x64_sm90, fprop, f16, GATHER_256X64, 1),
            (fprop_im2col_wgmma_f16_128x64_sm90, fprop, f16, GATHER_128X64, 1),
            (fprop_im2col_wgmma_f16_128x128_p32_sm90, fprop, f16, GATHER_128X128_P32, 1),
            (fprop_im2col_wgmma_f16_256x64_p32_sm90, fprop, f16, GATHER_256X64_P32, 1),
            (dgrad_im2col_wgmma_bf16_128x256_c2_sm90, dgrad, bf16, GATHER_128X256_C2, 2),
            (dgrad_im2col_wgmma_bf16_128x256_sm90, dgrad, bf16, GATHER_128X256, 1),
            (dgrad_im2col_wgmma_bf16_256x128_c2_sm90, dgrad, bf16, GATHER_256X128_C2, 2),
            (dgrad_im2col_wgmma_bf16_256x128_sm90, dgrad, bf16, GATHER_256X128, 1),
            (dgrad_im2col_wgmma_bf16_128x128_sm90, dgrad, bf16, GATHER_128X128, 1),
            (dgrad_im2col_wgmma_bf16_256x64_sm90, dgrad, bf16, GATHER_256X64, 1),
            (dgrad_im2col_wgmma_bf16_128x64_sm90, dgrad, bf16, GATHER_128X64, 1),
            (dgrad_im2col_wgmma_bf16_128x128_p32_sm90, dgrad, bf16, GATHER_128X128_P32, 1),
            (dgrad_im2col_wgmma_bf16_256x64_p32_sm90, dgrad, bf16, GATHER_256X64_P32, 1),
            (dgrad_im2col_wgmma_f16_128x256_c2_sm90, dgrad, f16, GATHER_128X256_C2, 2),
            (dgrad_im2col_wgmma_f16_128x256_sm90, dgrad, f16, GATHER_128X256, 1),
            (dgrad_im2col_wgmma_f16_256x128_c2_sm90, dgrad, f16, GATHER_256X128_C2, 2),
            (dgrad_im2col_wgmma_f16_256x128_sm90, dgrad, f16, GATHER_256X128, 1),
            (dgrad_im2col_wgmma_f16_128x128_sm90, dgrad, f16, GATHER_128X128, 1),
            (dgrad_im2col_wgmma_f16_256x64_sm90, dgrad, f16, GATHER_256X64, 1),
            (dgrad_im2col_wgmma_f16_128x64_sm90, dgrad, f16, GATHER_128X64, 1),
            (dgrad_im2col_wgmma_f16_128x128_p32_sm90, dgrad, f16, GATHER_128X128_P32, 1),
            (dgrad_im2col_wgmma_f16_256x64_p32_sm90, dgrad, f16, GATHER_256X64_P32, 1),
        }
    };
}

/// Calls `$callback!` with one row per Hopper kernel of `wgrad`: symbol, element type, tile.
#[macro_export]
macro_rules! conv_im2col_wgrad_kernels {
    ($callback:ident) => {
        $callback! {
            (wgrad_im2col_wgmma_bf16_128x256_sm90, bf16, WGRAD_128X256),
            (wgrad_im2col_wgmma_bf16_128x192_sm90, bf16, WGRAD_128X192),
            (wgrad_im2col_wgmma_bf16_128x128_sm90, bf16, WGRAD_128X128),
            (wgrad_im2col_wgmma_bf16_128x64_sm90, bf16, WGRAD_128X64),
            (wgrad_im2col_wgmma_bf16_64x256_sm90, bf16, WGRAD_64X256),
            (wgrad_im2col_wgmma_bf16_64x128_sm90, bf16, WGRAD_64X128),
            (wgrad_im2col_wgmma_f16_128x256_sm90, f16, WGRAD_128X256),
            (wgrad_im2col_wgmma_f16_128x192_sm90, f16, WGRAD_128X192),
            (wgrad_im2col_wgmma_f16_128x128_sm90, f16, WGRAD_128X128),
            (wgrad_im2col_wgmma_f16_128x64_sm90, f16, WGRAD_128X64),
            (wgrad_im2col_wgmma_f16_64x256_sm90, f16, WGRAD_64X256),
            (wgrad_im2col_wgmma_f16_64x128_sm90, f16, WGRAD_64X128),
        }
    };
}

/// Calls `$callback!` with one row per kernel that adds partial sums of `wgrad`: symbol, element type.
#[macro_export]
macro_rules! conv_im2col_sum_kernels {
    ($callback:ident) => {
        $callback! {
            (wgrad_im2col_sum_bf16, bf16),
            (wgrad_im2col_sum_f16, f16),
        }
    };
}
