//! The only lists of convolution kernels.

mod f32_parts;
mod halo;
mod im2col;

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

/// Calls `$callback!` with one row per `fprop` kernel of 8-bit elements: symbol, element type of x and w, that of y.
#[macro_export]
macro_rules! conv_narrow_kernels {
    ($callback:ident) => {
        $callback! {
            (conv_fprop_naive_i8_i8, i8, i8),
            (conv_fprop_naive_i8_i32, i8, i32),
            (conv_fprop_naive_i8_f32, i8, f32),
            (conv_fprop_naive_f8e4m3_f32, f8e4m3, f32),
            (conv_fprop_naive_f8e4m3_f16, f8e4m3, f16),
            (conv_fprop_naive_f8e4m3_bf16, f8e4m3, bf16),
            (conv_fprop_naive_f8e4m3_f8e4m3, f8e4m3, f8e4m3),
            (conv_fprop_naive_f8e4m3_f8e5m2, f8e4m3, f8e5m2),
            (conv_fprop_naive_f8e5m2_f32, f8e5m2, f32),
            (conv_fprop_naive_f8e5m2_f16, f8e5m2, f16),
            (conv_fprop_naive_f8e5m2_bf16, f8e5m2, bf16),
            (conv_fprop_naive_f8e5m2_f8e4m3, f8e5m2, f8e4m3),
            (conv_fprop_naive_f8e5m2_f8e5m2, f8e5m2, f8e5m2),
        }
    };
}

/// Calls `$callback!` with one row per kernel for narrow groups: symbol, what it computes, element type, width of a
/// group (8 stands for its divisors too).
#[macro_export]
macro_rules! conv_grouped_mma_kernels {
    ($callback:ident) => {
        $callback! {
            (convmma_fprop_grouped_bf16_w8, fprop, bf16, 8),
            (convmma_dgrad_grouped_bf16_w8, dgrad, bf16, 8),
            (convmma_dgrad_grouped_bf16_w8_stride2, dgrad_stride2, bf16, 8),
            (convmma_wgrad_grouped_bf16_w8, wgrad, bf16, 8),
            (convmma_fprop_grouped_bf16_w16, fprop, bf16, 16),
            (convmma_dgrad_grouped_bf16_w16, dgrad, bf16, 16),
            (convmma_dgrad_grouped_bf16_w16_stride2, dgrad_stride2, bf16, 16),
            (convmma_wgrad_grouped_bf16_w16, wgrad, bf16, 16),
            (convmma_fprop_grouped_bf16_w32, fprop, bf16, 32),
            (convmma_dgrad_grouped_bf16_w32, dgrad, bf16, 32),
            (convmma_dgrad_grouped_bf16_w32_stride2, dgrad_stride2, bf16, 32),
            (convmma_wgrad_grouped_bf16_w32, wgrad, bf16, 32),
            (convmma_fprop_grouped_f16_w8, fprop, f16, 8),
            (convmma_dgrad_grouped_f16_w8, dgrad, f16, 8),
            (convmma_dgrad_grouped_f16_w8_stride2, dgrad_stride2, f16, 8),
            (convmma_wgrad_grouped_f16_w8, wgrad, f16, 8),
            (convmma_fprop_grouped_f16_w16, fprop, f16, 16),
            (convmma_dgrad_grouped_f16_w16, dgrad, f16, 16),
            (convmma_dgrad_grouped_f16_w16_stride2, dgrad_stride2, f16, 16),
            (convmma_wgrad_grouped_f16_w16, wgrad, f16, 16),
            (convmma_fprop_grouped_f16_w32, fprop, f16, 32),
            (convmma_dgrad_grouped_f16_w32, dgrad, f16, 32),
            (convmma_dgrad_grouped_f16_w32_stride2, dgrad_stride2, f16, 32),
            (convmma_wgrad_grouped_f16_w32, wgrad, f16, 32),
        }
    };
}

/// Calls `$callback!` with one row per kernel that adds up partial sums of `wgrad`: symbol, element type.
#[macro_export]
macro_rules! conv_partials_kernels {
    ($callback:ident) => {
        $callback! {
            (convmma_wgrad_partials_bf16, bf16),
            (convmma_wgrad_partials_f16, f16),
            (convmma_wgrad_partials_f32, f32),
        }
    };
}

/// Calls `$callback!` with one row per kernel that gathers with `cp.async`: symbol, pass, element type, rows and columns
/// of a tile, elements of a copy.
#[macro_export]
macro_rules! conv_cp_async_mma_kernels {
    ($callback:ident) => {
        $callback! {
            (convmma_fprop_cp_async_bf16_128x128x32_v8, fprop, bf16, 128, 8),
            (convmma_fprop_cp_async_bf16_64x64x32_v8, fprop, bf16, 64, 8),
            (convmma_fprop_cp_async_bf16_64x64x32_v4, fprop, bf16, 64, 4),
            (convmma_fprop_cp_async_bf16_64x64x32_v2, fprop, bf16, 64, 2),
            (convmma_fprop_cp_async_bf16_64x64x32_v1, fprop, bf16, 64, 1),
            (convmma_dgrad_cp_async_bf16_128x128x32_v8, dgrad, bf16, 128, 8),
            (convmma_dgrad_cp_async_bf16_64x64x32_v8, dgrad, bf16, 64, 8),
            (convmma_dgrad_cp_async_bf16_64x64x32_v4, dgrad, bf16, 64, 4),
            (convmma_dgrad_cp_async_bf16_64x64x32_v2, dgrad, bf16, 64, 2),
            (convmma_dgrad_cp_async_bf16_64x64x32_v1, dgrad, bf16, 64, 1),
            (convmma_wgrad_cp_async_bf16_128x128x32_v8, wgrad, bf16, 128, 8),
            (convmma_wgrad_cp_async_bf16_64x64x32_v8, wgrad, bf16, 64, 8),
            (convmma_wgrad_cp_async_bf16_64x64x32_v4, wgrad, bf16, 64, 4),
            (convmma_wgrad_cp_async_bf16_64x64x32_v2, wgrad, bf16, 64, 2),
            (convmma_wgrad_cp_async_bf16_64x64x32_v1, wgrad, bf16, 64, 1),
            (convmma_fprop_cp_async_f16_128x128x32_v8, fprop, f16, 128, 8),
            (convmma_fprop_cp_async_f16_64x64x32_v8, fprop, f16, 64, 8),
            (convmma_fprop_cp_async_f16_64x64x32_v4, fprop, f16, 64, 4),
            (convmma_fprop_cp_async_f16_64x64x32_v2, fprop, f16, 64, 2),
            (convmma_fprop_cp_async_f16_64x64x32_v1, fprop, f16, 64, 1),
            (convmma_dgrad_cp_async_f16_128x128x32_v8, dgrad, f16, 128, 8),
            (convmma_dgrad_cp_async_f16_64x64x32_v8, dgrad, f16, 64, 8),
            (convmma_dgrad_cp_async_f16_64x64x32_v4, dgrad, f16, 64, 4),
            (convmma_dgrad_cp_async_f16_64x64x32_v2, dgrad, f16, 64, 2),
            (convmma_dgrad_cp_async_f16_64x64x32_v1, dgrad, f16, 64, 1),
            (convmma_wgrad_cp_async_f16_128x128x32_v8, wgrad, f16, 128, 8),
            (convmma_wgrad_cp_async_f16_64x64x32_v8, wgrad, f16, 64, 8),
            (convmma_wgrad_cp_async_f16_64x64x32_v4, wgrad, f16, 64, 4),
            (convmma_wgrad_cp_async_f16_64x64x32_v2, wgrad, f16, 64, 2),
            (convmma_wgrad_cp_async_f16_64x64x32_v1, wgrad, f16, 64, 1),
        }
    };
}

/// Calls `$callback!` with one row per f32 kernel of tf32 products: symbol, pass, rows and columns of a tile.
#[macro_export]
macro_rules! conv_tf32x3_mma_kernels {
    ($callback:ident) => {
        $callback! {
            (convtf32x3_fprop_mma_f32_128x128x32, fprop, 128),
            (convtf32x3_fprop_mma_f32_64x64x32, fprop, 64),
            (convtf32x3_dgrad_mma_f32_128x128x32, dgrad, 128),
            (convtf32x3_dgrad_mma_f32_64x64x32, dgrad, 64),
            (convtf32x3_wgrad_mma_f32_128x128x32, wgrad, 128),
            (convtf32x3_wgrad_mma_f32_64x64x32, wgrad, 64),
        }
    };
}

/// The same for `wgrad` on Hopper, whose sums are split over a cluster: symbol, rows and columns of a tile.
#[macro_export]
macro_rules! conv_tf32x3_cluster_kernels {
    ($callback:ident) => {
        $callback! {
            (convtf32x3_wgrad_mma_f32_128x128x32_sm90, 128),
            (convtf32x3_wgrad_mma_f32_64x64x32_sm90, 64),
        }
    };
}

/// Calls `$callback!` with one row per kernel for overlapping windows, `fprop`: symbol, element type, columns of a
/// product instruction.
#[macro_export]
macro_rules! conv_overlap_fprop_kernels {
    ($callback:ident) => {
        $callback! {
            (overlap_fprop_wgmma_bf16_n96_sm90, bf16, 96),
            (overlap_fprop_wgmma_bf16_n64_sm90, bf16, 64),
            (overlap_fprop_wgmma_bf16_n32_sm90, bf16, 32),
            (overlap_fprop_wgmma_bf16_n16_sm90, bf16, 16),
            (overlap_fprop_wgmma_f16_n96_sm90, f16, 96),
            (overlap_fprop_wgmma_f16_n64_sm90, f16, 64),
            (overlap_fprop_wgmma_f16_n32_sm90, f16, 32),
            (overlap_fprop_wgmma_f16_n16_sm90, f16, 16),
        }
    };
}

/// Calls `$callback!` with one row per kernel for overlapping windows, `fprop` of strips: symbol, element type, columns
/// of a strip, instructions of all taps along d and h.
#[macro_export]
macro_rules! conv_overlap_rows_kernels {
    ($callback:ident) => {
        $callback! {
            (overlap_fprop_rows_bf16_n112_i14_sm90, bf16, 112, 14),
            (overlap_fprop_rows_f16_n112_i14_sm90, f16, 112, 14),
        }
    };
}

/// Calls `$callback!` with one row per kernel for overlapping windows, `wgrad`: symbol, element type, columns of a
/// product instruction, products of the first and of the second warpgroup. A product is a tap along d and h; with 24
/// columns, every second part of its windows.
#[macro_export]
macro_rules! conv_overlap_wgrad_kernels {
    ($callback:ident) => {
        $callback! {
            (overlap_wgrad_wgmma_bf16_7x32_sm90, bf16, 32, 4, 3),
            (overlap_wgrad_wgmma_bf16_5x32_sm90, bf16, 32, 3, 2),
            (overlap_wgrad_wgmma_bf16_3x32_sm90, bf16, 32, 2, 1),
            (overlap_wgrad_wgmma_bf16_7x16_sm90, bf16, 16, 4, 3),
            (overlap_wgrad_wgmma_bf16_5x16_sm90, bf16, 16, 3, 2),
            (overlap_wgrad_wgmma_bf16_3x16_sm90, bf16, 16, 2, 1),
            (overlap_wgrad_wgmma_bf16_6x48_sm90, bf16, 48, 3, 3),
            (overlap_wgrad_wgmma_bf16_12x24_sm90, bf16, 24, 6, 6),
            (overlap_wgrad_wgmma_f16_7x32_sm90, f16, 32, 4, 3),
            (overlap_wgrad_wgmma_f16_5x32_sm90, f16, 32, 3, 2),
            (overlap_wgrad_wgmma_f16_3x32_sm90, f16, 32, 2, 1),
            (overlap_wgrad_wgmma_f16_7x16_sm90, f16, 16, 4, 3),
            (overlap_wgrad_wgmma_f16_5x16_sm90, f16, 16, 3, 2),
            (overlap_wgrad_wgmma_f16_3x16_sm90, f16, 16, 2, 1),
            (overlap_wgrad_wgmma_f16_6x48_sm90, f16, 48, 3, 3),
            (overlap_wgrad_wgmma_f16_12x24_sm90, f16, 24, 6, 6),
        }
    };
}

/// Calls `$callback!` with one row per kernel for overlapping windows, `wgrad` whose warpgroups take positions in turns:
/// symbol, element type, columns of a product instruction, products, each a tap along d and h.
#[macro_export]
macro_rules! conv_overlap_turns_kernels {
    ($callback:ident) => {
        $callback! {
            (overlap_wgrad_turns_bf16_7x32_sm90, bf16, 32, 7),
            (overlap_wgrad_turns_f16_7x32_sm90, f16, 32, 7),
        }
    };
}

/// Calls `$callback!` with one row per kernel that packs rows for `packed_rows_wgmma`: symbol.
#[macro_export]
macro_rules! conv_pack_rows_kernels {
    ($callback:ident) => {
        $callback! {
            (packrows_forward_b16),
        }
    };
}

/// Calls `$callback!` with one row per kernel that copies tensors for `padded_channels`: symbol.
#[macro_export]
macro_rules! conv_pad_kernels {
    ($callback:ident) => {
        $callback! {
            (padchannels_forward_b16),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `pointwise_lanes`: symbol, whether few channels are written (`gather`) or
/// read (`spread`), element type, the most of them.
#[macro_export]
macro_rules! conv_pointwise_lanes_kernels {
    ($callback:ident) => {
        $callback! {
            (convlanes_gather_f32_f4, gather, f32, 4),
            (convlanes_gather_f32_f8, gather, f32, 8),
            (convlanes_gather_f16_f4, gather, f16, 4),
            (convlanes_gather_f16_f8, gather, f16, 8),
            (convlanes_gather_bf16_f4, gather, bf16, 4),
            (convlanes_gather_bf16_f8, gather, bf16, 8),
            (convlanes_spread_f32_f4, spread, f32, 4),
            (convlanes_spread_f32_f8, spread, f32, 8),
            (convlanes_spread_f16_f4, spread, f16, 4),
            (convlanes_spread_f16_f8, spread, f16, 8),
            (convlanes_spread_bf16_f4, spread, bf16, 4),
            (convlanes_spread_bf16_f8, spread, bf16, 8),
        }
    };
}

/// Calls `$callback!` with one row per kernel between filters and those of merged groups, for `merged_groups`: symbol,
/// what it does.
#[macro_export]
macro_rules! conv_merge_kernels {
    ($callback:ident) => {
        $callback! {
            (mergegroups_merge_b16, merge),
            (mergegroups_pick_b16, pick),
        }
    };
}

/// Calls `$callback!` with one row per kernel that packs filters for `spread_columns`: symbol.
#[macro_export]
macro_rules! conv_pack_spread_kernels {
    ($callback:ident) => {
        $callback! {
            (packspread_forward_b16),
        }
    };
}

/// Calls `$callback!` with one row per kernel between planes and their picked positions, for `pointwise_strided`: symbol,
/// what it does, element type.
#[macro_export]
macro_rules! conv_strided_planes_kernels {
    ($callback:ident) => {
        $callback! {
            (stridedplanes_pick_bf16, pick, bf16),
            (stridedplanes_pick_f16, pick, f16),
            (stridedplanes_spread_bf16, spread, bf16),
            (stridedplanes_spread_f16, spread, f16),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `fft_tiled` and `fft`: symbol, how it transforms, what, its parameters,
/// size of a tile, threads of a block, blocks of a multiprocessor.
#[macro_export]
macro_rules! conv_fft_kernels {
    ($callback:ident) => {
        $callback! {
            (convfft_tiles_forward_f32_16, tiled, tiles_forward, ConvFftTilesParams, 16, 256, 2),
            (convfft_tiles_forward_f32_32, tiled, tiles_forward, ConvFftTilesParams, 32, 128, 2),
            (convfft_tiles_forward_f32_64, whole, tiles_forward, ConvFftTilesParams, 64, 128, 2),
            (convfft_tiles_forward_f32_128, whole, tiles_forward, ConvFftTilesParams, 128, 256, 1),
            (convfft_tiles_inverse_f32_16, tiled, tiles_inverse, ConvFftTilesParams, 16, 256, 2),
            (convfft_tiles_inverse_f32_32, tiled, tiles_inverse, ConvFftTilesParams, 32, 128, 2),
            (convfft_tiles_inverse_f32_64, whole, tiles_inverse, ConvFftTilesParams, 64, 128, 2),
            (convfft_tiles_inverse_f32_128, whole, tiles_inverse, ConvFftTilesParams, 128, 256, 1),
            (convfft_filter_forward_f32_16, tiled, filter_forward, ConvFftFilterParams, 16, 256, 2),
            (convfft_filter_forward_f32_32, tiled, filter_forward, ConvFftFilterParams, 32, 128, 2),
            (convfft_filter_forward_f32_64, whole, filter_forward, ConvFftFilterParams, 64, 128, 2),
            (convfft_filter_forward_f32_128, whole, filter_forward, ConvFftFilterParams, 128, 256, 1),
            (convfft_filter_inverse_f32_16, tiled, filter_inverse, ConvFftFilterParams, 16, 256, 2),
            (convfft_filter_inverse_f32_32, tiled, filter_inverse, ConvFftFilterParams, 32, 128, 2),
            (convfft_filter_inverse_f32_64, whole, filter_inverse, ConvFftFilterParams, 64, 128, 2),
            (convfft_filter_inverse_f32_128, whole, filter_inverse, ConvFftFilterParams, 128, 256, 1),
        }
    };
}

/// Calls `$callback!` with one row per kernel between images and the matrix of their windows, for `explicit_gemm`:
/// symbol, what it does, what it copies or adds.
#[macro_export]
macro_rules! conv_windows_kernels {
    ($callback:ident) => {
        $callback! {
            (windows_gather_b16, gather, u16),
            (windows_gather_b32, gather, u32),
            (windows_gather_b128, gather, Vector),
            (windows_add_f32, add, f32),
        }
    };
}

/// Calls `$callback!` with one row per scalar f32 kernel: symbol, what it computes, its launch parameters, rows and
/// columns of its tile.
#[macro_export]
macro_rules! conv_ffma_kernels {
    ($callback:ident) => {
        $callback! {
            (convffma_gather_f32_128, gather, ConvFfmaParams, 128),
            (convffma_gather_f32_64, gather, ConvFfmaParams, 64),
            (convffma_wgrad_f32_128, wgrad, ConvFfmaWgradParams, 128),
            (convffma_wgrad_f32_64, wgrad, ConvFfmaWgradParams, 64),
        }
    };
}

/// Calls `$callback!` with one row per Hopper kernel whose operands have the dimension of the sum contiguous: symbol,
/// element type of x and w, tile.
#[macro_export]
macro_rules! conv_kmajor_wgmma_kernels {
    ($callback:ident) => {
        $callback! {
            (convkmajor_gather_wgmma_i8_128x256_sm90, i8, KMAJOR_128X256),
            (convkmajor_gather_wgmma_i8_128x128_sm90, i8, KMAJOR_128X128),
            (convkmajor_gather_wgmma_i8_128x64_sm90, i8, KMAJOR_128X64),
            (convkmajor_gather_wgmma_f8e4m3_128x256_sm90, f8e4m3, KMAJOR_128X256),
            (convkmajor_gather_wgmma_f8e4m3_128x128_sm90, f8e4m3, KMAJOR_128X128),
            (convkmajor_gather_wgmma_f8e4m3_128x64_sm90, f8e4m3, KMAJOR_128X64),
            (convkmajor_gather_wgmma_f8e5m2_128x256_sm90, f8e5m2, KMAJOR_128X256),
            (convkmajor_gather_wgmma_f8e5m2_128x128_sm90, f8e5m2, KMAJOR_128X128),
            (convkmajor_gather_wgmma_f8e5m2_128x64_sm90, f8e5m2, KMAJOR_128X64),
            (convkmajor_gather_wgmma_tf32_128x256_sm90, tf32, KMAJOR_128X256),
            (convkmajor_gather_wgmma_tf32_128x128_sm90, tf32, KMAJOR_128X128),
            (convkmajor_gather_wgmma_tf32_128x64_sm90, tf32, KMAJOR_128X64),
        }
    };
}

/// Calls `$callback!` with one row per kernel that transforms for `winograd` on Hopper, in chains of launches: symbol,
/// what it does, its launch parameters, results along an axis of a tile.
#[macro_export]
macro_rules! conv_winograd_sm90_kernels {
    ($callback:ident) => {
        $callback! {
            (winograd_image_f32_f2x2_sm90, image, WinogradImageParams, F2),
            (winograd_image_f32_f4x4_sm90, image, WinogradImageParams, F4),
            (winograd_filter_f32_f2x2_sm90, filter_parts, WinogradFilterParams, F2),
            (winograd_filter_f32_f4x4_sm90, filter_parts, WinogradFilterParams, F4),
            (winograd_output_f32_f2x2_sm90, output, WinogradOutputParams, F2),
            (winograd_output_f32_f4x4_sm90, output, WinogradOutputParams, F4),
            (winograd_gradient_f32_f2x2_sm90, gradient, WinogradImageParams, F2),
            (winograd_gradient_f32_f4x4_sm90, gradient, WinogradImageParams, F4),
            (winograd_taps_f32_f2x2_sm90, taps, WinogradFilterParams, F2),
            (winograd_taps_f32_f4x4_sm90, taps, WinogradFilterParams, F4),
        }
    };
}

/// The same for kernels that run everywhere.
#[macro_export]
macro_rules! conv_winograd_kernels {
    ($callback:ident) => {
        $callback! {
            (winogradffma_image_f32_f2x2, image, WinogradImageParams, F2),
            (winogradffma_image_f32_f4x4, image, WinogradImageParams, F4),
            (winogradffma_filter_f32_f2x2, filter, WinogradFilterParams, F2),
            (winogradffma_filter_f32_f4x4, filter, WinogradFilterParams, F4),
            (winogradffma_output_f32_f2x2, output, WinogradOutputParams, F2),
            (winogradffma_output_f32_f4x4, output, WinogradOutputParams, F4),
            (winogradffma_gradient_f32_f2x2, gradient, WinogradImageParams, F2),
            (winogradffma_gradient_f32_f4x4, gradient, WinogradImageParams, F4),
            (winogradffma_taps_f32_f2x2, taps, WinogradFilterParams, F2),
            (winogradffma_taps_f32_f4x4, taps, WinogradFilterParams, F4),
        }
    };
}
