//! The kernels of 16-bit types that gather with the copy engine, for Hopper.

/// Calls `$callback!` with one row per Hopper kernel of `fprop` and `dgrad`: symbol, pass, element type, tile, blocks of
/// a cluster.
#[macro_export]
macro_rules! conv_im2col_gather_kernels {
    ($callback:ident) => {
        $callback! {
            (fprop_im2col_wgmma_bf16_128x256_c2_sm90, fprop, bf16, GATHER_128X256_C2, 2),
            (fprop_im2col_wgmma_bf16_128x256_sm90, fprop, bf16, GATHER_128X256, 1),
            (fprop_im2col_wgmma_bf16_128x192_sm90, fprop, bf16, GATHER_128X192, 1),
            (fprop_im2col_wgmma_bf16_256x128_c2_sm90, fprop, bf16, GATHER_256X128_C2, 2),
            (fprop_im2col_wgmma_bf16_256x128_sm90, fprop, bf16, GATHER_256X128, 1),
            (fprop_im2col_wgmma_bf16_128x128_sm90, fprop, bf16, GATHER_128X128, 1),
            (fprop_im2col_wgmma_bf16_256x64_sm90, fprop, bf16, GATHER_256X64, 1),
            (fprop_im2col_wgmma_bf16_128x64_sm90, fprop, bf16, GATHER_128X64, 1),
            (fprop_im2col_wgmma_bf16_128x128_p32_sm90, fprop, bf16, GATHER_128X128_P32, 1),
            (fprop_im2col_wgmma_bf16_256x64_p32_sm90, fprop, bf16, GATHER_256X64_P32, 1),
            (fprop_im2col_wgmma_f16_128x256_c2_sm90, fprop, f16, GATHER_128X256_C2, 2),
            (fprop_im2col_wgmma_f16_128x256_sm90, fprop, f16, GATHER_128X256, 1),
            (fprop_im2col_wgmma_f16_128x192_sm90, fprop, f16, GATHER_128X192, 1),
            (fprop_im2col_wgmma_f16_256x128_c2_sm90, fprop, f16, GATHER_256X128_C2, 2),
            (fprop_im2col_wgmma_f16_256x128_sm90, fprop, f16, GATHER_256X128, 1),
            (fprop_im2col_wgmma_f16_128x128_sm90, fprop, f16, GATHER_128X128, 1),
            (fprop_im2col_wgmma_f16_256x64_sm90, fprop, f16, GATHER_256X64, 1),
            (fprop_im2col_wgmma_f16_128x64_sm90, fprop, f16, GATHER_128X64, 1),
            (fprop_im2col_wgmma_f16_128x128_p32_sm90, fprop, f16, GATHER_128X128_P32, 1),
            (fprop_im2col_wgmma_f16_256x64_p32_sm90, fprop, f16, GATHER_256X64_P32, 1),
            (dgrad_im2col_wgmma_bf16_128x256_c2_sm90, dgrad, bf16, GATHER_128X256_C2, 2),
            (dgrad_im2col_wgmma_bf16_128x256_sm90, dgrad, bf16, GATHER_128X256, 1),
            (dgrad_im2col_wgmma_bf16_128x192_sm90, dgrad, bf16, GATHER_128X192, 1),
            (dgrad_im2col_wgmma_bf16_256x128_c2_sm90, dgrad, bf16, GATHER_256X128_C2, 2),
            (dgrad_im2col_wgmma_bf16_256x128_sm90, dgrad, bf16, GATHER_256X128, 1),
            (dgrad_im2col_wgmma_bf16_128x128_sm90, dgrad, bf16, GATHER_128X128, 1),
            (dgrad_im2col_wgmma_bf16_256x64_sm90, dgrad, bf16, GATHER_256X64, 1),
            (dgrad_im2col_wgmma_bf16_128x64_sm90, dgrad, bf16, GATHER_128X64, 1),
            (dgrad_im2col_wgmma_bf16_128x128_p32_sm90, dgrad, bf16, GATHER_128X128_P32, 1),
            (dgrad_im2col_wgmma_bf16_256x64_p32_sm90, dgrad, bf16, GATHER_256X64_P32, 1),
            (dgrad_im2col_wgmma_f16_128x256_c2_sm90, dgrad, f16, GATHER_128X256_C2, 2),
            (dgrad_im2col_wgmma_f16_128x256_sm90, dgrad, f16, GATHER_128X256, 1),
            (dgrad_im2col_wgmma_f16_128x192_sm90, dgrad, f16, GATHER_128X192, 1),
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

/// Convolution for Hopper whose workers share the stages of all tiles evenly: symbol, pass, element type, tile, blocks of
/// a cluster.
#[macro_export]
macro_rules! conv_stream_k_kernels {
    ($callback:ident) => {
        $callback! {
            (convstreamk_fprop_wgmma_bf16_128x128_c2_sm90, fprop, bf16, STREAM_128X128_C2, 2),
            (convstreamk_fprop_wgmma_bf16_128x128_sm90, fprop, bf16, STREAM_128X128, 1),
            (convstreamk_fprop_wgmma_bf16_128x160_sm90, fprop, bf16, STREAM_128X160, 1),
            (convstreamk_fprop_wgmma_bf16_128x256_c2_sm90, fprop, bf16, GATHER_128X256_C2, 2),
            (convstreamk_fprop_wgmma_bf16_128x256_sm90, fprop, bf16, GATHER_128X256, 1),
            (convstreamk_fprop_wgmma_f16_128x128_c2_sm90, fprop, f16, STREAM_128X128_C2, 2),
            (convstreamk_fprop_wgmma_f16_128x128_sm90, fprop, f16, STREAM_128X128, 1),
            (convstreamk_fprop_wgmma_f16_128x160_sm90, fprop, f16, STREAM_128X160, 1),
            (convstreamk_fprop_wgmma_f16_128x256_c2_sm90, fprop, f16, GATHER_128X256_C2, 2),
            (convstreamk_fprop_wgmma_f16_128x256_sm90, fprop, f16, GATHER_128X256, 1),
            (convstreamk_dgrad_wgmma_bf16_128x128_c2_sm90, dgrad, bf16, STREAM_128X128_C2, 2),
            (convstreamk_dgrad_wgmma_bf16_128x128_sm90, dgrad, bf16, STREAM_128X128, 1),
            (convstreamk_dgrad_wgmma_bf16_128x160_sm90, dgrad, bf16, STREAM_128X160, 1),
            (convstreamk_dgrad_wgmma_bf16_128x256_c2_sm90, dgrad, bf16, GATHER_128X256_C2, 2),
            (convstreamk_dgrad_wgmma_bf16_128x256_sm90, dgrad, bf16, GATHER_128X256, 1),
            (convstreamk_dgrad_wgmma_f16_128x128_c2_sm90, dgrad, f16, STREAM_128X128_C2, 2),
            (convstreamk_dgrad_wgmma_f16_128x128_sm90, dgrad, f16, STREAM_128X128, 1),
            (convstreamk_dgrad_wgmma_f16_128x160_sm90, dgrad, f16, STREAM_128X160, 1),
            (convstreamk_dgrad_wgmma_f16_128x256_c2_sm90, dgrad, f16, GATHER_128X256_C2, 2),
            (convstreamk_dgrad_wgmma_f16_128x256_sm90, dgrad, f16, GATHER_128X256, 1),
        }
    };
}

/// Calls `$callback!` with one row per Hopper kernel of `fprop` and `dgrad` whose sums are split over a cluster: symbol,
/// pass, element type, tile.
#[macro_export]
macro_rules! conv_cluster_gather_kernels {
    ($callback:ident) => {
        $callback! {
            (convcluster_fprop_wgmma_bf16_64x64_sm90, fprop, bf16, CLUSTER_64X64),
            (convcluster_fprop_wgmma_bf16_64x32_sm90, fprop, bf16, CLUSTER_64X32),
            (convcluster_fprop_wgmma_bf16_128x64_sm90, fprop, bf16, CLUSTER_128X64),
            (convcluster_fprop_wgmma_bf16_64x64_s12_sm90, fprop, bf16, CLUSTER_64X64_S12),
            (convcluster_fprop_wgmma_bf16_128x64_s8_sm90, fprop, bf16, CLUSTER_128X64_S8),
            (convcluster_fprop_wgmma_bf16_128x128_s5_sm90, fprop, bf16, CLUSTER_128X128_S5),
            (convcluster_fprop_wgmma_f16_64x64_sm90, fprop, f16, CLUSTER_64X64),
            (convcluster_fprop_wgmma_f16_64x32_sm90, fprop, f16, CLUSTER_64X32),
            (convcluster_fprop_wgmma_f16_128x64_sm90, fprop, f16, CLUSTER_128X64),
            (convcluster_fprop_wgmma_f16_64x64_s12_sm90, fprop, f16, CLUSTER_64X64_S12),
            (convcluster_fprop_wgmma_f16_128x64_s8_sm90, fprop, f16, CLUSTER_128X64_S8),
            (convcluster_fprop_wgmma_f16_128x128_s5_sm90, fprop, f16, CLUSTER_128X128_S5),
            (convcluster_dgrad_wgmma_bf16_64x64_sm90, dgrad, bf16, CLUSTER_64X64),
            (convcluster_dgrad_wgmma_bf16_64x32_sm90, dgrad, bf16, CLUSTER_64X32),
            (convcluster_dgrad_wgmma_bf16_128x64_sm90, dgrad, bf16, CLUSTER_128X64),
            (convcluster_dgrad_wgmma_bf16_64x64_s12_sm90, dgrad, bf16, CLUSTER_64X64_S12),
            (convcluster_dgrad_wgmma_bf16_128x64_s8_sm90, dgrad, bf16, CLUSTER_128X64_S8),
            (convcluster_dgrad_wgmma_bf16_128x128_s5_sm90, dgrad, bf16, CLUSTER_128X128_S5),
            (convcluster_dgrad_wgmma_f16_64x64_sm90, dgrad, f16, CLUSTER_64X64),
            (convcluster_dgrad_wgmma_f16_64x32_sm90, dgrad, f16, CLUSTER_64X32),
            (convcluster_dgrad_wgmma_f16_128x64_sm90, dgrad, f16, CLUSTER_128X64),
            (convcluster_dgrad_wgmma_f16_64x64_s12_sm90, dgrad, f16, CLUSTER_64X64_S12),
            (convcluster_dgrad_wgmma_f16_128x64_s8_sm90, dgrad, f16, CLUSTER_128X64_S8),
            (convcluster_dgrad_wgmma_f16_128x128_s5_sm90, dgrad, f16, CLUSTER_128X128_S5),
        }
    };
}

/// Calls `$callback!` with one row per Hopper kernel of `wgrad` whose sums are split over a cluster: symbol, element
/// type, tile.
#[macro_export]
macro_rules! conv_cluster_wgrad_kernels {
    ($callback:ident) => {
        $callback! {
            (convcluster_wgrad_wgmma_bf16_64x64_sm90, bf16, CLUSTER_WGRAD_64X64),
            (convcluster_wgrad_wgmma_bf16_64x128_sm90, bf16, CLUSTER_WGRAD_64X128),
            (convcluster_wgrad_wgmma_f16_64x64_sm90, f16, CLUSTER_WGRAD_64X64),
            (convcluster_wgrad_wgmma_f16_64x128_sm90, f16, CLUSTER_WGRAD_64X128),
        }
    };
}

/// Calls `$callback!` with one row per Hopper kernel of `wgrad`: symbol, element type, tile.
#[macro_export]
macro_rules! conv_im2col_wgrad_kernels {
    ($callback:ident) => {
        $callback! {
            (wgrad_im2col_wgmma_bf16_128x256_sm90, bf16, WGRAD_128X256, 1),
            (wgrad_im2col_wgmma_bf16_128x256_c2_sm90, bf16, WGRAD_128X256_C2, 2),
            (wgrad_im2col_wgmma_bf16_128x128_c2_sm90, bf16, WGRAD_128X128_C2, 2),
            (wgrad_im2col_wgmma_bf16_128x192_sm90, bf16, WGRAD_128X192, 1),
            (wgrad_im2col_wgmma_bf16_128x128_sm90, bf16, WGRAD_128X128, 1),
            (wgrad_im2col_wgmma_bf16_128x64_sm90, bf16, WGRAD_128X64, 1),
            (wgrad_im2col_wgmma_bf16_64x256_sm90, bf16, WGRAD_64X256, 1),
            (wgrad_im2col_wgmma_bf16_64x128_sm90, bf16, WGRAD_64X128, 1),
            (wgrad_im2col_wgmma_bf16_64x256_p32_sm90, bf16, WGRAD_64X256_P32, 1),
            (wgrad_im2col_wgmma_bf16_64x320_p32_sm90, bf16, WGRAD_64X320_P32, 1),
            (wgrad_im2col_wgmma_f16_128x256_sm90, f16, WGRAD_128X256, 1),
            (wgrad_im2col_wgmma_f16_128x256_c2_sm90, f16, WGRAD_128X256_C2, 2),
            (wgrad_im2col_wgmma_f16_128x128_c2_sm90, f16, WGRAD_128X128_C2, 2),
            (wgrad_im2col_wgmma_f16_128x192_sm90, f16, WGRAD_128X192, 1),
            (wgrad_im2col_wgmma_f16_128x128_sm90, f16, WGRAD_128X128, 1),
            (wgrad_im2col_wgmma_f16_128x64_sm90, f16, WGRAD_128X64, 1),
            (wgrad_im2col_wgmma_f16_64x256_sm90, f16, WGRAD_64X256, 1),
            (wgrad_im2col_wgmma_f16_64x128_sm90, f16, WGRAD_64X128, 1),
            (wgrad_im2col_wgmma_f16_64x256_p32_sm90, f16, WGRAD_64X256_P32, 1),
            (wgrad_im2col_wgmma_f16_64x320_p32_sm90, f16, WGRAD_64X320_P32, 1),
        }
    };
}

/// Calls `$callback!` with one row per Hopper kernel of `wgrad` that adds the parts of a sum itself: symbol, element
/// type, tile, blocks of a cluster.
#[macro_export]
macro_rules! conv_im2col_fixup_kernels {
    ($callback:ident) => {
        $callback! {
            (wgrad_im2col_fixup_bf16_128x256_sm90, bf16, WGRAD_128X256, 1),
            (wgrad_im2col_fixup_bf16_128x256_c2_sm90, bf16, WGRAD_128X256_C2, 2),
            (wgrad_im2col_fixup_bf16_128x128_c2_sm90, bf16, FIXUP_128X128_C2, 2),
            (wgrad_im2col_fixup_bf16_128x192_sm90, bf16, WGRAD_128X192, 1),
            (wgrad_im2col_fixup_bf16_128x128_sm90, bf16, FIXUP_128X128, 1),
            (wgrad_im2col_fixup_bf16_128x64_sm90, bf16, FIXUP_128X64, 1),
            (wgrad_im2col_fixup_bf16_64x256_sm90, bf16, WGRAD_64X256, 1),
            (wgrad_im2col_fixup_f16_128x256_sm90, f16, WGRAD_128X256, 1),
            (wgrad_im2col_fixup_f16_128x256_c2_sm90, f16, WGRAD_128X256_C2, 2),
            (wgrad_im2col_fixup_f16_128x128_c2_sm90, f16, FIXUP_128X128_C2, 2),
            (wgrad_im2col_fixup_f16_128x192_sm90, f16, WGRAD_128X192, 1),
            (wgrad_im2col_fixup_f16_128x128_sm90, f16, FIXUP_128X128, 1),
            (wgrad_im2col_fixup_f16_128x64_sm90, f16, FIXUP_128X64, 1),
            (wgrad_im2col_fixup_f16_64x256_sm90, f16, WGRAD_64X256, 1),
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
