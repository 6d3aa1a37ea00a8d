//! The kernels of f32 on bf16 tensor cores.

/// Calls `$callback!` with one row per f32 kernel of `fprop` and `dgrad` on bf16 tensor cores: symbol, tile.
#[macro_export]
macro_rules! conv_bf16x3_gather_kernels {
    ($callback:ident) => {
        $callback! {
            (convbf16x3_gather_f32_128x128_sm90, PARTS_GATHER_128X128),
            (convbf16x3_gather_f32_256x64_sm90, PARTS_GATHER_256X64),
            (convbf16x3_gather_f32_128x64_sm90, PARTS_GATHER_128X64),
            (convbf16x3_gather_f32_256x16_sm90, PARTS_GATHER_256X16),
        }
    };
}

/// The same for those that take the filter apart themselves.
#[macro_export]
macro_rules! conv_bf16x3_direct_kernels {
    ($callback:ident) => {
        $callback! {
            (convbf16x3_direct_f32_128x128_sm90, PARTS_DIRECT_128X128),
            (convbf16x3_direct_f32_256x64_sm90, PARTS_DIRECT_256X64),
            (convbf16x3_direct_f32_128x64_sm90, PARTS_DIRECT_128X64),
            (convbf16x3_direct_f32_256x16_sm90, PARTS_DIRECT_256X16),
        }
    };
}

/// Calls `$callback!` with one row per f32 kernel of `wgrad` on bf16 tensor cores: symbol, tile.
#[macro_export]
macro_rules! conv_bf16x3_wgrad_kernels {
    ($callback:ident) => {
        $callback! {
            (convbf16x3_wgrad_f32_128x128_sm90, PARTS_WGRAD_128X128),
            (convbf16x3_wgrad_f32_128x64_sm90, PARTS_WGRAD_128X64),
            (convbf16x3_wgrad_f32_64x128_sm90, PARTS_WGRAD_64X128),
        }
    };
}

/// The same for those whose sums are shared by a cluster.
#[macro_export]
macro_rules! conv_bf16x3_cluster_kernels {
    ($callback:ident) => {
        $callback! {
            (convbf16x3_cluster_f32_128x128_sm90, PARTS_WGRAD_128X128),
            (convbf16x3_cluster_f32_128x64_sm90, PARTS_WGRAD_128X64),
            (convbf16x3_cluster_f32_64x128_sm90, PARTS_WGRAD_64X128),
        }
    };
}

/// The same for those of them that read x by threads.
#[macro_export]
macro_rules! conv_bf16x3_windows_kernels {
    ($callback:ident) => {
        $callback! {
            (convbf16x3_windows_f32_64x128_sm90, PARTS_WINDOWS_64X128),
            (convbf16x3_windows_f32_64x64_sm90, PARTS_WINDOWS_64X64),
            (convbf16x3_windows_f32_64x32_sm90, PARTS_WINDOWS_64X32),
        }
    };
}

/// Calls `$callback!` with the symbols of the kernels around them: the one that adds partial sums, the one that takes
/// filters apart, the one that also spreads their columns, the one that copies tensors.
#[macro_export]
macro_rules! conv_bf16x3_side_kernels {
    ($callback:ident) => {
        $callback! {
            (convbf16x3_sum_f32, sum, ConvWgradSumParams),
            (convbf16x3_parts_f32, filter_parts, ConvFilterPartsParams),
            (convbf16x3_spread_f32, spread_parts, ConvPackSpreadParams),
            (convbf16x3_pack_f32, pack, ConvPackF32Params),
        }
    };
}
