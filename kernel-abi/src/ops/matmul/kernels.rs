//! The only list of matmul kernels.
//!
//! A kernel's PTX file is its symbol's first word, and is compiled as a whole when a kernel of it is first used: hence
//! the many first words.

/// Calls `$callback!` with one row per portable kernel: symbol, pass, element type.
#[macro_export]
macro_rules! matmul_kernels {
    ($callback:ident) => {
        $callback! {
            (matmul_forward_naive_f32, forward, f32),
            (matmul_forward_naive_f64, forward, f64),
            (matmul_forward_naive_f16, forward, f16),
            (matmul_forward_naive_bf16, forward, bf16),
        }
    };
}

/// Calls `$callback!` with one row per portable kernel of 8-bit elements: symbol, element types of a, b and c.
#[macro_export]
macro_rules! matmul_narrow_kernels {
    ($callback:ident) => {
        $callback! {
            (matmul_forward_naive_i8_i8_i8, i8, i8, i8),
            (matmul_forward_naive_i8_i8_i32, i8, i8, i32),
            (matmul_forward_naive_i8_i8_f32, i8, i8, f32),
            (matmul_forward_naive_f8e4m3_f8e4m3_f32, f8e4m3, f8e4m3, f32),
            (matmul_forward_naive_f8e4m3_f8e4m3_f16, f8e4m3, f8e4m3, f16),
            (matmul_forward_naive_f8e4m3_f8e4m3_bf16, f8e4m3, f8e4m3, bf16),
            (matmul_forward_naive_f8e4m3_f8e4m3_f8e4m3, f8e4m3, f8e4m3, f8e4m3),
            (matmul_forward_naive_f8e4m3_f8e4m3_f8e5m2, f8e4m3, f8e4m3, f8e5m2),
            (matmul_forward_naive_f8e4m3_f8e5m2_f32, f8e4m3, f8e5m2, f32),
            (matmul_forward_naive_f8e4m3_f8e5m2_f16, f8e4m3, f8e5m2, f16),
            (matmul_forward_naive_f8e4m3_f8e5m2_bf16, f8e4m3, f8e5m2, bf16),
            (matmul_forward_naive_f8e4m3_f8e5m2_f8e4m3, f8e4m3, f8e5m2, f8e4m3),
            (matmul_forward_naive_f8e4m3_f8e5m2_f8e5m2, f8e4m3, f8e5m2, f8e5m2),
            (matmul_forward_naive_f8e5m2_f8e4m3_f32, f8e5m2, f8e4m3, f32),
            (matmul_forward_naive_f8e5m2_f8e4m3_f16, f8e5m2, f8e4m3, f16),
            (matmul_forward_naive_f8e5m2_f8e4m3_bf16, f8e5m2, f8e4m3, bf16),
            (matmul_forward_naive_f8e5m2_f8e4m3_f8e4m3, f8e5m2, f8e4m3, f8e4m3),
            (matmul_forward_naive_f8e5m2_f8e4m3_f8e5m2, f8e5m2, f8e4m3, f8e5m2),
            (matmul_forward_naive_f8e5m2_f8e5m2_f32, f8e5m2, f8e5m2, f32),
            (matmul_forward_naive_f8e5m2_f8e5m2_f16, f8e5m2, f8e5m2, f16),
            (matmul_forward_naive_f8e5m2_f8e5m2_bf16, f8e5m2, f8e5m2, bf16),
            (matmul_forward_naive_f8e5m2_f8e5m2_f8e4m3, f8e5m2, f8e5m2, f8e4m3),
            (matmul_forward_naive_f8e5m2_f8e5m2_f8e5m2, f8e5m2, f8e5m2, f8e5m2),
        }
    };
}

/// Calls `$callback!` with one row per Hopper kernel: symbol, element type, tile, blocks of a cluster, whether a and
/// b lie with the dimension of the sum contiguous (`k`) or the other one (`mn`).
///
/// The letters before `sm90` say the same as BLAS does of row-major matrices.
#[macro_export]
macro_rules! matmul_tma_wgmma_kernels {
    ($callback:ident) => {
        $callback! {
            (matmul256_forward_tma_wgmma_bf16f32bf16_128x256x64_s4_c2_nn_sm90, bf16, TILE_128X256_C2, 2, k, mn),
            (matmul256_forward_tma_wgmma_bf16f32bf16_128x256x64_s4_c2_nt_sm90, bf16, TILE_128X256_C2, 2, k, k),
            (matmul256_forward_tma_wgmma_bf16f32bf16_128x256x64_s4_c2_tn_sm90, bf16, TILE_128X256_C2, 2, mn, mn),
            (matmul256_forward_tma_wgmma_bf16f32bf16_128x256x64_s4_c2_tt_sm90, bf16, TILE_128X256_C2, 2, mn, k),
            (matmul256_forward_tma_wgmma_bf16f32bf16_128x256x64_s4_nn_sm90, bf16, TILE_128X256, 1, k, mn),
            (matmul256_forward_tma_wgmma_bf16f32bf16_128x256x64_s4_nt_sm90, bf16, TILE_128X256, 1, k, k),
            (matmul256_forward_tma_wgmma_bf16f32bf16_128x256x64_s4_tn_sm90, bf16, TILE_128X256, 1, mn, mn),
            (matmul256_forward_tma_wgmma_bf16f32bf16_128x256x64_s4_tt_sm90, bf16, TILE_128X256, 1, mn, k),
            (matmul160_forward_tma_wgmma_bf16f32bf16_128x160x64_s4_nn_sm90, bf16, TILE_128X160, 1, k, mn),
            (matmul160_forward_tma_wgmma_bf16f32bf16_128x160x64_s4_nt_sm90, bf16, TILE_128X160, 1, k, k),
            (matmul160_forward_tma_wgmma_bf16f32bf16_128x160x64_s4_tn_sm90, bf16, TILE_128X160, 1, mn, mn),
            (matmul160_forward_tma_wgmma_bf16f32bf16_128x160x64_s4_tt_sm90, bf16, TILE_128X160, 1, mn, k),
            (matmul160resident_forward_tma_wgmma_bf16f32bf16_128x160x64_s6_nn_sm90, bf16, RESIDENT_128X160, 1, k, mn),
            (matmul160resident_forward_tma_wgmma_bf16f32bf16_128x160x64_s6_nt_sm90, bf16, RESIDENT_128X160, 1, k, k),
            (matmul192turns_forward_tma_wgmma_bf16f32bf16_128x192x64_s5_c2_nn_sm90, bf16, TURNS_128X192_C2, 2, k, mn),
            (matmul192turns_forward_tma_wgmma_bf16f32bf16_128x192x64_s5_c2_nt_sm90, bf16, TURNS_128X192_C2, 2, k, k),
            (matmul192turns_forward_tma_wgmma_bf16f32bf16_128x192x64_s5_c2_tn_sm90, bf16, TURNS_128X192_C2, 2, mn, mn),
            (matmul192turns_forward_tma_wgmma_bf16f32bf16_128x192x64_s5_c2_tt_sm90, bf16, TURNS_128X192_C2, 2, mn, k),
            (matmul160turns_forward_tma_wgmma_bf16f32bf16_128x160x64_s5_c2_nn_sm90, bf16, TURNS_128X160_C2, 2, k, mn),
            (matmul160turns_forward_tma_wgmma_bf16f32bf16_128x160x64_s4_c2_nn_sm90, bf16, TURNS_128X160_S4_C2, 2, k, mn),
            (matmul160turns_forward_tma_wgmma_bf16f32bf16_128x160x64_s5_c2_nt_sm90, bf16, TURNS_128X160_C2, 2, k, k),
            (matmul160turns_forward_tma_wgmma_bf16f32bf16_128x160x64_s4_c2_nt_sm90, bf16, TURNS_128X160_S4_C2, 2, k, k),
            (matmul160turns_forward_tma_wgmma_bf16f32bf16_128x160x64_s5_c2_tn_sm90, bf16, TURNS_128X160_C2, 2, mn, mn),
            (matmul160turns_forward_tma_wgmma_bf16f32bf16_128x160x64_s4_c2_tn_sm90, bf16, TURNS_128X160_S4_C2, 2, mn, mn),
            (matmul160turns_forward_tma_wgmma_bf16f32bf16_128x160x64_s5_c2_tt_sm90, bf16, TURNS_128X160_C2, 2, mn, k),
            (matmul160turns_forward_tma_wgmma_bf16f32bf16_128x160x64_s4_c2_tt_sm90, bf16, TURNS_128X160_S4_C2, 2, mn, k),
            (matmul128turns_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_c2_nn_sm90, bf16, TURNS_128X128_C2, 2, k, mn),
            (matmul128turns_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_c2_nt_sm90, bf16, TURNS_128X128_C2, 2, k, k),
            (matmul128turns_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_c2_tn_sm90, bf16, TURNS_128X128_C2, 2, mn, mn),
            (matmul128turns_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_c2_tt_sm90, bf16, TURNS_128X128_C2, 2, mn, k),
            (matmul128turns_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_nn_sm90, bf16, TURNS_128X128, 1, k, mn),
            (matmul128turns_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_nt_sm90, bf16, TURNS_128X128, 1, k, k),
            (matmul128turns_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_tn_sm90, bf16, TURNS_128X128, 1, mn, mn),
            (matmul128turns_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_tt_sm90, bf16, TURNS_128X128, 1, mn, k),
            (matmul128_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_nn_sm90, bf16, TILE_128X128, 1, k, mn),
            (matmul128_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_nt_sm90, bf16, TILE_128X128, 1, k, k),
            (matmul128_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_tn_sm90, bf16, TILE_128X128, 1, mn, mn),
            (matmul128_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_tt_sm90, bf16, TILE_128X128, 1, mn, k),
            (matmul128_forward_tma_wgmma_bf16f32bf16_64x128x64_s8_nn_sm90, bf16, TILE_64X128, 1, k, mn),
            (matmul128_forward_tma_wgmma_bf16f32bf16_64x128x64_s8_nt_sm90, bf16, TILE_64X128, 1, k, k),
            (matmul128_forward_tma_wgmma_bf16f32bf16_64x128x64_s8_tn_sm90, bf16, TILE_64X128, 1, mn, mn),
            (matmul128_forward_tma_wgmma_bf16f32bf16_64x128x64_s8_tt_sm90, bf16, TILE_64X128, 1, mn, k),
            (matmul256_forward_tma_wgmma_f16f32f16_128x256x64_s4_c2_nn_sm90, f16, TILE_128X256_C2, 2, k, mn),
            (matmul256_forward_tma_wgmma_f16f32f16_128x256x64_s4_c2_nt_sm90, f16, TILE_128X256_C2, 2, k, k),
            (matmul256_forward_tma_wgmma_f16f32f16_128x256x64_s4_c2_tn_sm90, f16, TILE_128X256_C2, 2, mn, mn),
            (matmul256_forward_tma_wgmma_f16f32f16_128x256x64_s4_c2_tt_sm90, f16, TILE_128X256_C2, 2, mn, k),
            (matmul256_forward_tma_wgmma_f16f32f16_128x256x64_s4_nn_sm90, f16, TILE_128X256, 1, k, mn),
            (matmul256_forward_tma_wgmma_f16f32f16_128x256x64_s4_nt_sm90, f16, TILE_128X256, 1, k, k),
            (matmul256_forward_tma_wgmma_f16f32f16_128x256x64_s4_tn_sm90, f16, TILE_128X256, 1, mn, mn),
            (matmul256_forward_tma_wgmma_f16f32f16_128x256x64_s4_tt_sm90, f16, TILE_128X256, 1, mn, k),
            (matmul160_forward_tma_wgmma_f16f32f16_128x160x64_s4_nn_sm90, f16, TILE_128X160, 1, k, mn),
            (matmul160_forward_tma_wgmma_f16f32f16_128x160x64_s4_nt_sm90, f16, TILE_128X160, 1, k, k),
            (matmul160_forward_tma_wgmma_f16f32f16_128x160x64_s4_tn_sm90, f16, TILE_128X160, 1, mn, mn),
            (matmul160_forward_tma_wgmma_f16f32f16_128x160x64_s4_tt_sm90, f16, TILE_128X160, 1, mn, k),
            (matmul160resident_forward_tma_wgmma_f16f32f16_128x160x64_s6_nn_sm90, f16, RESIDENT_128X160, 1, k, mn),
            (matmul160resident_forward_tma_wgmma_f16f32f16_128x160x64_s6_nt_sm90, f16, RESIDENT_128X160, 1, k, k),
            (matmul192turns_forward_tma_wgmma_f16f32f16_128x192x64_s5_c2_nn_sm90, f16, TURNS_128X192_C2, 2, k, mn),
            (matmul192turns_forward_tma_wgmma_f16f32f16_128x192x64_s5_c2_nt_sm90, f16, TURNS_128X192_C2, 2, k, k),
            (matmul192turns_forward_tma_wgmma_f16f32f16_128x192x64_s5_c2_tn_sm90, f16, TURNS_128X192_C2, 2, mn, mn),
            (matmul192turns_forward_tma_wgmma_f16f32f16_128x192x64_s5_c2_tt_sm90, f16, TURNS_128X192_C2, 2, mn, k),
            (matmul160turns_forward_tma_wgmma_f16f32f16_128x160x64_s5_c2_nn_sm90, f16, TURNS_128X160_C2, 2, k, mn),
            (matmul160turns_forward_tma_wgmma_f16f32f16_128x160x64_s4_c2_nn_sm90, f16, TURNS_128X160_S4_C2, 2, k, mn),
            (matmul160turns_forward_tma_wgmma_f16f32f16_128x160x64_s5_c2_nt_sm90, f16, TURNS_128X160_C2, 2, k, k),
            (matmul160turns_forward_tma_wgmma_f16f32f16_128x160x64_s4_c2_nt_sm90, f16, TURNS_128X160_S4_C2, 2, k, k),
            (matmul160turns_forward_tma_wgmma_f16f32f16_128x160x64_s5_c2_tn_sm90, f16, TURNS_128X160_C2, 2, mn, mn),
            (matmul160turns_forward_tma_wgmma_f16f32f16_128x160x64_s4_c2_tn_sm90, f16, TURNS_128X160_S4_C2, 2, mn, mn),
            (matmul160turns_forward_tma_wgmma_f16f32f16_128x160x64_s5_c2_tt_sm90, f16, TURNS_128X160_C2, 2, mn, k),
            (matmul160turns_forward_tma_wgmma_f16f32f16_128x160x64_s4_c2_tt_sm90, f16, TURNS_128X160_S4_C2, 2, mn, k),
            (matmul128turns_forward_tma_wgmma_f16f32f16_128x128x64_s6_c2_nn_sm90, f16, TURNS_128X128_C2, 2, k, mn),
            (matmul128turns_forward_tma_wgmma_f16f32f16_128x128x64_s6_c2_nt_sm90, f16, TURNS_128X128_C2, 2, k, k),
            (matmul128turns_forward_tma_wgmma_f16f32f16_128x128x64_s6_c2_tn_sm90, f16, TURNS_128X128_C2, 2, mn, mn),
            (matmul128turns_forward_tma_wgmma_f16f32f16_128x128x64_s6_c2_tt_sm90, f16, TURNS_128X128_C2, 2, mn, k),
            (matmul128turns_forward_tma_wgmma_f16f32f16_128x128x64_s6_nn_sm90, f16, TURNS_128X128, 1, k, mn),
            (matmul128turns_forward_tma_wgmma_f16f32f16_128x128x64_s6_nt_sm90, f16, TURNS_128X128, 1, k, k),
            (matmul128turns_forward_tma_wgmma_f16f32f16_128x128x64_s6_tn_sm90, f16, TURNS_128X128, 1, mn, mn),
            (matmul128turns_forward_tma_wgmma_f16f32f16_128x128x64_s6_tt_sm90, f16, TURNS_128X128, 1, mn, k),
            (matmul128_forward_tma_wgmma_f16f32f16_128x128x64_s6_nn_sm90, f16, TILE_128X128, 1, k, mn),
            (matmul128_forward_tma_wgmma_f16f32f16_128x128x64_s6_nt_sm90, f16, TILE_128X128, 1, k, k),
            (matmul128_forward_tma_wgmma_f16f32f16_128x128x64_s6_tn_sm90, f16, TILE_128X128, 1, mn, mn),
            (matmul128_forward_tma_wgmma_f16f32f16_128x128x64_s6_tt_sm90, f16, TILE_128X128, 1, mn, k),
            (matmul128_forward_tma_wgmma_f16f32f16_64x128x64_s8_nn_sm90, f16, TILE_64X128, 1, k, mn),
            (matmul128_forward_tma_wgmma_f16f32f16_64x128x64_s8_nt_sm90, f16, TILE_64X128, 1, k, k),
            (matmul128_forward_tma_wgmma_f16f32f16_64x128x64_s8_tn_sm90, f16, TILE_64X128, 1, mn, mn),
            (matmul128_forward_tma_wgmma_f16f32f16_64x128x64_s8_tt_sm90, f16, TILE_64X128, 1, mn, k),
            (matmul64_forward_tma_wgmma_bf16f32bf16_128x64x64_s8_nn_sm90, bf16, TILE_128X64, 1, k, mn),
            (matmul64_forward_tma_wgmma_bf16f32bf16_128x64x64_s8_nt_sm90, bf16, TILE_128X64, 1, k, k),
            (matmul64_forward_tma_wgmma_bf16f32bf16_128x64x64_s8_tn_sm90, bf16, TILE_128X64, 1, mn, mn),
            (matmul64_forward_tma_wgmma_bf16f32bf16_128x64x64_s8_tt_sm90, bf16, TILE_128X64, 1, mn, k),
            (matmul32_forward_tma_wgmma_bf16f32bf16_128x32x64_s8_nn_sm90, bf16, TILE_128X32, 1, k, mn),
            (matmul32_forward_tma_wgmma_bf16f32bf16_128x32x64_s8_nt_sm90, bf16, TILE_128X32, 1, k, k),
            (matmul32_forward_tma_wgmma_bf16f32bf16_128x32x64_s8_tn_sm90, bf16, TILE_128X32, 1, mn, mn),
            (matmul32_forward_tma_wgmma_bf16f32bf16_128x32x64_s8_tt_sm90, bf16, TILE_128X32, 1, mn, k),
            (matmul16_forward_tma_wgmma_bf16f32bf16_128x16x64_s8_nn_sm90, bf16, TILE_128X16, 1, k, mn),
            (matmul16_forward_tma_wgmma_bf16f32bf16_128x16x64_s8_nt_sm90, bf16, TILE_128X16, 1, k, k),
            (matmul16_forward_tma_wgmma_bf16f32bf16_128x16x64_s8_tn_sm90, bf16, TILE_128X16, 1, mn, mn),
            (matmul16_forward_tma_wgmma_bf16f32bf16_128x16x64_s8_tt_sm90, bf16, TILE_128X16, 1, mn, k),
            (matmul192_forward_tma_wgmma_bf16f32bf16_192x192x64_s4_nn_sm90, bf16, TILE_192X192, 1, k, mn),
            (matmul192_forward_tma_wgmma_bf16f32bf16_192x192x64_s4_nt_sm90, bf16, TILE_192X192, 1, k, k),
            (matmul192_forward_tma_wgmma_bf16f32bf16_192x192x64_s4_tn_sm90, bf16, TILE_192X192, 1, mn, mn),
            (matmul192_forward_tma_wgmma_bf16f32bf16_192x192x64_s4_tt_sm90, bf16, TILE_192X192, 1, mn, k),
            (matmul128_forward_tma_wgmma_bf16f32bf16_192x128x64_s5_nn_sm90, bf16, TILE_192X128, 1, k, mn),
            (matmul128_forward_tma_wgmma_bf16f32bf16_192x128x64_s5_nt_sm90, bf16, TILE_192X128, 1, k, k),
            (matmul128_forward_tma_wgmma_bf16f32bf16_192x128x64_s5_tn_sm90, bf16, TILE_192X128, 1, mn, mn),
            (matmul128_forward_tma_wgmma_bf16f32bf16_192x128x64_s5_tt_sm90, bf16, TILE_192X128, 1, mn, k),
            (matmul112_forward_tma_wgmma_bf16f32bf16_256x112x64_s4_nn_sm90, bf16, TILE_256X112, 1, k, mn),
            (matmul112_forward_tma_wgmma_bf16f32bf16_256x112x64_s4_nt_sm90, bf16, TILE_256X112, 1, k, k),
            (matmul112_forward_tma_wgmma_bf16f32bf16_256x112x64_s4_tn_sm90, bf16, TILE_256X112, 1, mn, mn),
            (matmul112_forward_tma_wgmma_bf16f32bf16_256x112x64_s4_tt_sm90, bf16, TILE_256X112, 1, mn, k),
            (matmul64_forward_tma_wgmma_bf16f32bf16_64x64x64_s12_nn_sm90, bf16, TILE_64X64, 1, k, mn),
            (matmul64_forward_tma_wgmma_bf16f32bf16_64x64x64_s12_nt_sm90, bf16, TILE_64X64, 1, k, k),
            (matmul64_forward_tma_wgmma_bf16f32bf16_64x64x64_s12_tn_sm90, bf16, TILE_64X64, 1, mn, mn),
            (matmul64_forward_tma_wgmma_bf16f32bf16_64x64x64_s12_tt_sm90, bf16, TILE_64X64, 1, mn, k),
            (matmul32_forward_tma_wgmma_bf16f32bf16_64x32x64_s12_nn_sm90, bf16, TILE_64X32, 1, k, mn),
            (matmul32_forward_tma_wgmma_bf16f32bf16_64x32x64_s12_nt_sm90, bf16, TILE_64X32, 1, k, k),
            (matmul32_forward_tma_wgmma_bf16f32bf16_64x32x64_s12_tn_sm90, bf16, TILE_64X32, 1, mn, mn),
            (matmul32_forward_tma_wgmma_bf16f32bf16_64x32x64_s12_tt_sm90, bf16, TILE_64X32, 1, mn, k),
            (matmul16_forward_tma_wgmma_bf16f32bf16_64x16x64_s12_nn_sm90, bf16, TILE_64X16, 1, k, mn),
            (matmul16_forward_tma_wgmma_bf16f32bf16_64x16x64_s12_nt_sm90, bf16, TILE_64X16, 1, k, k),
            (matmul16_forward_tma_wgmma_bf16f32bf16_64x16x64_s12_tn_sm90, bf16, TILE_64X16, 1, mn, mn),
            (matmul16_forward_tma_wgmma_bf16f32bf16_64x16x64_s12_tt_sm90, bf16, TILE_64X16, 1, mn, k),
            (matmul64_forward_tma_wgmma_f16f32f16_128x64x64_s8_nn_sm90, f16, TILE_128X64, 1, k, mn),
            (matmul64_forward_tma_wgmma_f16f32f16_128x64x64_s8_nt_sm90, f16, TILE_128X64, 1, k, k),
            (matmul64_forward_tma_wgmma_f16f32f16_128x64x64_s8_tn_sm90, f16, TILE_128X64, 1, mn, mn),
            (matmul64_forward_tma_wgmma_f16f32f16_128x64x64_s8_tt_sm90, f16, TILE_128X64, 1, mn, k),
            (matmul32_forward_tma_wgmma_f16f32f16_128x32x64_s8_nn_sm90, f16, TILE_128X32, 1, k, mn),
            (matmul32_forward_tma_wgmma_f16f32f16_128x32x64_s8_nt_sm90, f16, TILE_128X32, 1, k, k),
            (matmul32_forward_tma_wgmma_f16f32f16_128x32x64_s8_tn_sm90, f16, TILE_128X32, 1, mn, mn),
            (matmul32_forward_tma_wgmma_f16f32f16_128x32x64_s8_tt_sm90, f16, TILE_128X32, 1, mn, k),
            (matmul16_forward_tma_wgmma_f16f32f16_128x16x64_s8_nn_sm90, f16, TILE_128X16, 1, k, mn),
            (matmul16_forward_tma_wgmma_f16f32f16_128x16x64_s8_nt_sm90, f16, TILE_128X16, 1, k, k),
            (matmul16_forward_tma_wgmma_f16f32f16_128x16x64_s8_tn_sm90, f16, TILE_128X16, 1, mn, mn),
            (matmul16_forward_tma_wgmma_f16f32f16_128x16x64_s8_tt_sm90, f16, TILE_128X16, 1, mn, k),
            (matmul192_forward_tma_wgmma_f16f32f16_192x192x64_s4_nn_sm90, f16, TILE_192X192, 1, k, mn),
            (matmul192_forward_tma_wgmma_f16f32f16_192x192x64_s4_nt_sm90, f16, TILE_192X192, 1, k, k),
            (matmul192_forward_tma_wgmma_f16f32f16_192x192x64_s4_tn_sm90, f16, TILE_192X192, 1, mn, mn),
            (matmul192_forward_tma_wgmma_f16f32f16_192x192x64_s4_tt_sm90, f16, TILE_192X192, 1, mn, k),
            (matmul128_forward_tma_wgmma_f16f32f16_192x128x64_s5_nn_sm90, f16, TILE_192X128, 1, k, mn),
            (matmul128_forward_tma_wgmma_f16f32f16_192x128x64_s5_nt_sm90, f16, TILE_192X128, 1, k, k),
            (matmul128_forward_tma_wgmma_f16f32f16_192x128x64_s5_tn_sm90, f16, TILE_192X128, 1, mn, mn),
            (matmul128_forward_tma_wgmma_f16f32f16_192x128x64_s5_tt_sm90, f16, TILE_192X128, 1, mn, k),
            (matmul112_forward_tma_wgmma_f16f32f16_256x112x64_s4_nn_sm90, f16, TILE_256X112, 1, k, mn),
            (matmul112_forward_tma_wgmma_f16f32f16_256x112x64_s4_nt_sm90, f16, TILE_256X112, 1, k, k),
            (matmul112_forward_tma_wgmma_f16f32f16_256x112x64_s4_tn_sm90, f16, TILE_256X112, 1, mn, mn),
            (matmul112_forward_tma_wgmma_f16f32f16_256x112x64_s4_tt_sm90, f16, TILE_256X112, 1, mn, k),
            (matmul64_forward_tma_wgmma_f16f32f16_64x64x64_s12_nn_sm90, f16, TILE_64X64, 1, k, mn),
            (matmul64_forward_tma_wgmma_f16f32f16_64x64x64_s12_nt_sm90, f16, TILE_64X64, 1, k, k),
            (matmul64_forward_tma_wgmma_f16f32f16_64x64x64_s12_tn_sm90, f16, TILE_64X64, 1, mn, mn),
            (matmul64_forward_tma_wgmma_f16f32f16_64x64x64_s12_tt_sm90, f16, TILE_64X64, 1, mn, k),
            (matmul32_forward_tma_wgmma_f16f32f16_64x32x64_s12_nn_sm90, f16, TILE_64X32, 1, k, mn),
            (matmul32_forward_tma_wgmma_f16f32f16_64x32x64_s12_nt_sm90, f16, TILE_64X32, 1, k, k),
            (matmul32_forward_tma_wgmma_f16f32f16_64x32x64_s12_tn_sm90, f16, TILE_64X32, 1, mn, mn),
            (matmul32_forward_tma_wgmma_f16f32f16_64x32x64_s12_tt_sm90, f16, TILE_64X32, 1, mn, k),
            (matmul16_forward_tma_wgmma_f16f32f16_64x16x64_s12_nn_sm90, f16, TILE_64X16, 1, k, mn),
            (matmul16_forward_tma_wgmma_f16f32f16_64x16x64_s12_nt_sm90, f16, TILE_64X16, 1, k, k),
            (matmul16_forward_tma_wgmma_f16f32f16_64x16x64_s12_tn_sm90, f16, TILE_64X16, 1, mn, mn),
            (matmul16_forward_tma_wgmma_f16f32f16_64x16x64_s12_tt_sm90, f16, TILE_64X16, 1, mn, k),
            (matmul256draws_forward_tma_wgmma_bf16f32bf16_128x256x64_s4_nn_sm90, bf16, DRAWS_128X256, 1, k, mn),
            (matmul256draws_forward_tma_wgmma_bf16f32bf16_128x256x64_s4_nt_sm90, bf16, DRAWS_128X256, 1, k, k),
            (matmul256draws_forward_tma_wgmma_bf16f32bf16_128x256x64_s4_tn_sm90, bf16, DRAWS_128X256, 1, mn, mn),
            (matmul256draws_forward_tma_wgmma_bf16f32bf16_128x256x64_s4_tt_sm90, bf16, DRAWS_128X256, 1, mn, k),
            (matmul128draws_forward_tma_wgmma_bf16f32bf16_192x128x64_s5_nn_sm90, bf16, DRAWS_192X128, 1, k, mn),
            (matmul128draws_forward_tma_wgmma_bf16f32bf16_192x128x64_s5_nt_sm90, bf16, DRAWS_192X128, 1, k, k),
            (matmul128draws_forward_tma_wgmma_bf16f32bf16_192x128x64_s5_tn_sm90, bf16, DRAWS_192X128, 1, mn, mn),
            (matmul128draws_forward_tma_wgmma_bf16f32bf16_192x128x64_s5_tt_sm90, bf16, DRAWS_192X128, 1, mn, k),
            (matmul112draws_forward_tma_wgmma_bf16f32bf16_256x112x64_s4_nn_sm90, bf16, DRAWS_256X112, 1, k, mn),
            (matmul112draws_forward_tma_wgmma_bf16f32bf16_256x112x64_s4_nt_sm90, bf16, DRAWS_256X112, 1, k, k),
            (matmul112draws_forward_tma_wgmma_bf16f32bf16_256x112x64_s4_tn_sm90, bf16, DRAWS_256X112, 1, mn, mn),
            (matmul112draws_forward_tma_wgmma_bf16f32bf16_256x112x64_s4_tt_sm90, bf16, DRAWS_256X112, 1, mn, k),
            (matmul128draws_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_nn_sm90, bf16, DRAWS_128X128, 1, k, mn),
            (matmul128draws_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_nt_sm90, bf16, DRAWS_128X128, 1, k, k),
            (matmul128draws_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_tn_sm90, bf16, DRAWS_128X128, 1, mn, mn),
            (matmul128draws_forward_tma_wgmma_bf16f32bf16_128x128x64_s6_tt_sm90, bf16, DRAWS_128X128, 1, mn, k),
            (matmul64draws_forward_tma_wgmma_bf16f32bf16_128x64x64_s8_nn_sm90, bf16, DRAWS_128X64, 1, k, mn),
            (matmul64draws_forward_tma_wgmma_bf16f32bf16_128x64x64_s8_nt_sm90, bf16, DRAWS_128X64, 1, k, k),
            (matmul64draws_forward_tma_wgmma_bf16f32bf16_128x64x64_s8_tn_sm90, bf16, DRAWS_128X64, 1, mn, mn),
            (matmul64draws_forward_tma_wgmma_bf16f32bf16_128x64x64_s8_tt_sm90, bf16, DRAWS_128X64, 1, mn, k),
            (matmul256draws_forward_tma_wgmma_f16f32f16_128x256x64_s4_nn_sm90, f16, DRAWS_128X256, 1, k, mn),
            (matmul256draws_forward_tma_wgmma_f16f32f16_128x256x64_s4_nt_sm90, f16, DRAWS_128X256, 1, k, k),
            (matmul256draws_forward_tma_wgmma_f16f32f16_128x256x64_s4_tn_sm90, f16, DRAWS_128X256, 1, mn, mn),
            (matmul256draws_forward_tma_wgmma_f16f32f16_128x256x64_s4_tt_sm90, f16, DRAWS_128X256, 1, mn, k),
            (matmul128draws_forward_tma_wgmma_f16f32f16_192x128x64_s5_nn_sm90, f16, DRAWS_192X128, 1, k, mn),
            (matmul128draws_forward_tma_wgmma_f16f32f16_192x128x64_s5_nt_sm90, f16, DRAWS_192X128, 1, k, k),
            (matmul128draws_forward_tma_wgmma_f16f32f16_192x128x64_s5_tn_sm90, f16, DRAWS_192X128, 1, mn, mn),
            (matmul128draws_forward_tma_wgmma_f16f32f16_192x128x64_s5_tt_sm90, f16, DRAWS_192X128, 1, mn, k),
            (matmul112draws_forward_tma_wgmma_f16f32f16_256x112x64_s4_nn_sm90, f16, DRAWS_256X112, 1, k, mn),
            (matmul112draws_forward_tma_wgmma_f16f32f16_256x112x64_s4_nt_sm90, f16, DRAWS_256X112, 1, k, k),
            (matmul112draws_forward_tma_wgmma_f16f32f16_256x112x64_s4_tn_sm90, f16, DRAWS_256X112, 1, mn, mn),
            (matmul112draws_forward_tma_wgmma_f16f32f16_256x112x64_s4_tt_sm90, f16, DRAWS_256X112, 1, mn, k),
            (matmul128draws_forward_tma_wgmma_f16f32f16_128x128x64_s6_nn_sm90, f16, DRAWS_128X128, 1, k, mn),
            (matmul128draws_forward_tma_wgmma_f16f32f16_128x128x64_s6_nt_sm90, f16, DRAWS_128X128, 1, k, k),
            (matmul128draws_forward_tma_wgmma_f16f32f16_128x128x64_s6_tn_sm90, f16, DRAWS_128X128, 1, mn, mn),
            (matmul128draws_forward_tma_wgmma_f16f32f16_128x128x64_s6_tt_sm90, f16, DRAWS_128X128, 1, mn, k),
            (matmul64draws_forward_tma_wgmma_f16f32f16_128x64x64_s8_nn_sm90, f16, DRAWS_128X64, 1, k, mn),
            (matmul64draws_forward_tma_wgmma_f16f32f16_128x64x64_s8_nt_sm90, f16, DRAWS_128X64, 1, k, k),
            (matmul64draws_forward_tma_wgmma_f16f32f16_128x64x64_s8_tn_sm90, f16, DRAWS_128X64, 1, mn, mn),
            (matmul64draws_forward_tma_wgmma_f16f32f16_128x64x64_s8_tt_sm90, f16, DRAWS_128X64, 1, mn, k),
        }
    };
}

/// Calls `$callback!` with one row per kernel that adds up the parts of sums which Hopper kernels split: symbol, element
/// type.
#[macro_export]
macro_rules! matmul_tma_wgmma_partials_kernels {
    ($callback:ident) => {
        $callback! {
            (matmulsplit_forward_tma_wgmma_partials_bf16_sm90, bf16),
            (matmulsplit_forward_tma_wgmma_partials_f16_sm90, f16),
        }
    };
}

/// Calls `$callback!` with one row per kernel that copies an input into the workspace: symbol.
#[macro_export]
macro_rules! matmul_tma_wgmma_pack_kernels {
    ($callback:ident) => {
        $callback! {
            (matmulsplit_forward_tma_wgmma_pack_b16_sm90),
        }
    };
}

/// Calls `$callback!` with one row per kernel on portable tensor cores: symbol, element type, tile, whether a and b lie
/// with the dimension of the sum contiguous (`k`) or the other one (`mn`).
#[macro_export]
macro_rules! matmul_cp_async_mma_kernels {
    ($callback:ident) => {
        $callback! {
            (matmulmma_forward_cp_async_mma_bf16f32bf16_128x128x32_s4_nn, bf16, CP_ASYNC_128X128, k, mn),
            (matmulmma_forward_cp_async_mma_bf16f32bf16_128x128x32_s4_nt, bf16, CP_ASYNC_128X128, k, k),
            (matmulmma_forward_cp_async_mma_bf16f32bf16_128x128x32_s4_tn, bf16, CP_ASYNC_128X128, mn, mn),
            (matmulmma_forward_cp_async_mma_bf16f32bf16_128x128x32_s4_tt, bf16, CP_ASYNC_128X128, mn, k),
            (matmulmma_forward_cp_async_mma_bf16f32bf16_64x64x32_s4_nn, bf16, CP_ASYNC_64X64, k, mn),
            (matmulmma_forward_cp_async_mma_bf16f32bf16_64x64x32_s4_nt, bf16, CP_ASYNC_64X64, k, k),
            (matmulmma_forward_cp_async_mma_bf16f32bf16_64x64x32_s4_tn, bf16, CP_ASYNC_64X64, mn, mn),
            (matmulmma_forward_cp_async_mma_bf16f32bf16_64x64x32_s4_tt, bf16, CP_ASYNC_64X64, mn, k),
            (matmulmma_forward_cp_async_mma_f16f32f16_128x128x32_s4_nn, f16, CP_ASYNC_128X128, k, mn),
            (matmulmma_forward_cp_async_mma_f16f32f16_128x128x32_s4_nt, f16, CP_ASYNC_128X128, k, k),
            (matmulmma_forward_cp_async_mma_f16f32f16_128x128x32_s4_tn, f16, CP_ASYNC_128X128, mn, mn),
            (matmulmma_forward_cp_async_mma_f16f32f16_128x128x32_s4_tt, f16, CP_ASYNC_128X128, mn, k),
            (matmulmma_forward_cp_async_mma_f16f32f16_64x64x32_s4_nn, f16, CP_ASYNC_64X64, k, mn),
            (matmulmma_forward_cp_async_mma_f16f32f16_64x64x32_s4_nt, f16, CP_ASYNC_64X64, k, k),
            (matmulmma_forward_cp_async_mma_f16f32f16_64x64x32_s4_tn, f16, CP_ASYNC_64X64, mn, mn),
            (matmulmma_forward_cp_async_mma_f16f32f16_64x64x32_s4_tt, f16, CP_ASYNC_64X64, mn, k),
        }
    };
}

/// Calls `$callback!` with one row per scalar f32 kernel, columns as those of `matmul_cp_async_mma_kernels!`.
#[macro_export]
macro_rules! matmul_ffma_kernels {
    ($callback:ident) => {
        $callback! {
            (matmulffma_forward_ffma_f32_128x128x16_nn, f32, FFMA_128X128, k, mn),
            (matmulffma_forward_ffma_f32_128x128x16_nt, f32, FFMA_128X128, k, k),
            (matmulffma_forward_ffma_f32_128x128x16_tn, f32, FFMA_128X128, mn, mn),
            (matmulffma_forward_ffma_f32_128x128x16_tt, f32, FFMA_128X128, mn, k),
            (matmulffma_forward_ffma_f32_64x64x16_nn, f32, FFMA_64X64, k, mn),
            (matmulffma_forward_ffma_f32_64x64x16_nt, f32, FFMA_64X64, k, k),
            (matmulffma_forward_ffma_f32_64x64x16_tn, f32, FFMA_64X64, mn, mn),
            (matmulffma_forward_ffma_f32_64x64x16_tt, f32, FFMA_64X64, mn, k),
        }
    };
}

/// Calls `$callback!` with one row per kernel that adds up the parts of sums which portable kernels split: symbol,
/// element type.
#[macro_export]
macro_rules! matmul_split_kernels {
    ($callback:ident) => {
        $callback! {
            (matmulsplit_forward_split_f32, f32),
            (matmulsplit_forward_split_f16, f16),
            (matmulsplit_forward_split_bf16, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel for f32 on Hopper's tensor cores: symbol, whether a and b lie with the
/// dimension of the sum contiguous (`k`) or the other one (`mn`).
#[macro_export]
macro_rules! matmul_bf16x3_wgmma_kernels {
    ($callback:ident) => {
        $callback! {
            (matmulbf16x3_forward_bf16x3_wgmma_128x128x64_s6_nn_sm90, k, mn),
            (matmulbf16x3_forward_bf16x3_wgmma_128x128x64_s6_nt_sm90, k, k),
            (matmulbf16x3_forward_bf16x3_wgmma_128x128x64_s6_tn_sm90, mn, mn),
            (matmulbf16x3_forward_bf16x3_wgmma_128x128x64_s6_tt_sm90, mn, k),
        }
    };
}

/// Calls `$callback!` with one row per kernel that takes f32 elements apart: symbol.
#[macro_export]
macro_rules! matmul_bf16x3_wgmma_parts_kernels {
    ($callback:ident) => {
        $callback! {
            (matmulbf16x3_forward_bf16x3_wgmma_parts_sm90),
        }
    };
}

/// Calls `$callback!` with one row per Hopper kernel whose operands have the dimension of the sum contiguous: symbol,
/// element types of a and b, tile.
#[macro_export]
macro_rules! matmul_kmajor_wgmma_kernels {
    ($callback:ident) => {
        $callback! {
            (matmulkmajor_forward_wgmma_i8_128x256_sm90, i8, i8, TILE_128X256),
            (matmulkmajor_forward_wgmma_i8_128x128_sm90, i8, i8, TILE_128X128),
            (matmulkmajor_forward_wgmma_i8_128x64_sm90, i8, i8, TILE_128X64),
            (matmulkmajor_forward_wgmma_tf32_128x256_sm90, tf32, tf32, TILE_128X256),
            (matmulkmajor_forward_wgmma_tf32_128x128_sm90, tf32, tf32, TILE_128X128),
            (matmulkmajor_forward_wgmma_tf32_128x64_sm90, tf32, tf32, TILE_128X64),
            (matmulkmajor_forward_wgmma_f8e4m3_128x256_sm90, f8e4m3, f8e4m3, TILE_128X256),
            (matmulkmajor_forward_wgmma_f8e4m3_128x128_sm90, f8e4m3, f8e4m3, TILE_128X128),
            (matmulkmajor_forward_wgmma_f8e4m3_128x64_sm90, f8e4m3, f8e4m3, TILE_128X64),
            (matmulkmajor_forward_wgmma_f8e5m2_128x256_sm90, f8e5m2, f8e5m2, TILE_128X256),
            (matmulkmajor_forward_wgmma_f8e5m2_128x128_sm90, f8e5m2, f8e5m2, TILE_128X128),
            (matmulkmajor_forward_wgmma_f8e5m2_128x64_sm90, f8e5m2, f8e5m2, TILE_128X64),
            (matmulkmajor_forward_wgmma_f8e4m3_f8e5m2_128x256_sm90, f8e4m3, f8e5m2, TILE_128X256),
            (matmulkmajor_forward_wgmma_f8e4m3_f8e5m2_128x128_sm90, f8e4m3, f8e5m2, TILE_128X128),
            (matmulkmajor_forward_wgmma_f8e4m3_f8e5m2_128x64_sm90, f8e4m3, f8e5m2, TILE_128X64),
            (matmulkmajor_forward_wgmma_f8e5m2_f8e4m3_128x256_sm90, f8e5m2, f8e4m3, TILE_128X256),
            (matmulkmajor_forward_wgmma_f8e5m2_f8e4m3_128x128_sm90, f8e5m2, f8e4m3, TILE_128X128),
            (matmulkmajor_forward_wgmma_f8e5m2_f8e4m3_128x64_sm90, f8e5m2, f8e4m3, TILE_128X64),
        }
    };
}
