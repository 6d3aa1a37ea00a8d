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
macro_rules! conv_f16x2_direct_kernels {
    ($callback:ident) => {
        $callback! {
            (convf16x2_direct_f32_128x128_sm90, PARTS_DIRECT_128X128),
            (convf16x2_direct_f32_256x64_sm90, PARTS_DIRECT_256X64),
            (convf16x2_direct_f32_128x64_sm90, PARTS_DIRECT_128X64),
            (convf16x2_direct_f32_256x16_sm90, PARTS_DIRECT_256X16),
        }
    };
}

/// The same for those that take apart what the copy engine loads of the filter: symbol, tile, and whether the filter's
/// columns lie side by side.
#[macro_export]
macro_rules! conv_f16x2_staged_kernels {
    ($callback:ident) => {
        $callback! {
            (convf16x2_staged_f32_128x128_sm90, PARTS_STAGED_128X128, false),
            (convf16x2_staged_f32_256x64_sm90, PARTS_STAGED_256X64, false),
            (convf16x2_staged_f32_128x64_sm90, PARTS_STAGED_128X64, false),
            (convf16x2_staged_t_f32_128x128_sm90, PARTS_STAGED_128X128, true),
            (convf16x2_staged_t_f32_256x64_sm90, PARTS_STAGED_256X64, true),
            (convf16x2_staged_t_f32_128x64_sm90, PARTS_STAGED_128X64, true),
        }
    };
}

/// Calls `$callback!` with one row per f32 kernel of `wgrad` on bf16 tensor cores: symbol, tile.
#[macro_export]
macro_rules! conv_f16x2_wgrad_kernels {
    ($callback:ident) => {
        $callback! {
            (convf16x2_wgrad_f32_128x128_sm90, PARTS_WGRAD_128X128),
            (convf16x2_wgrad_f32_128x64_sm90, PARTS_WGRAD_128X64),
            (convf16x2_wgrad_f32_64x128_sm90, PARTS_WGRAD_64X128),
        }
    };
}

/// The same for those whose sums are shared by a cluster.
#[macro_export]
macro_rules! conv_f16x2_cluster_kernels {
    ($callback:ident) => {
        $callback! {
            (convf16x2_cluster_f32_128x128_sm90, PARTS_WGRAD_128X128),
            (convf16x2_cluster_f32_128x64_sm90, PARTS_WGRAD_128X64),
            (convf16x2_cluster_f32_64x128_sm90, PARTS_WGRAD_64X128),
        }
    };
}

/// The same for those of them that read x by threads.
#[macro_export]
macro_rules! conv_f16x2_windows_kernels {
    ($callback:ident) => {
        $callback! {
            (convf16x2_windows_f32_64x128_sm90, PARTS_WINDOWS_64X128),
            (convf16x2_windows_f32_64x64_sm90, PARTS_WINDOWS_64X64),
            (convf16x2_windows_f32_64x32_sm90, PARTS_WINDOWS_64X32),
        }
    };
}

/// Calls `$callback!` with the symbols of the kernels around them: the one that adds partial sums, the one that takes
/// filters apart, the one that also spreads their columns, the one that copies tensors.
#[macro_export]
macro_rules! conv_bf16x3_side_kernels {
    ($callback:ident) => {
        $callback! {
            (convf16x2_sum_f32, sum, ConvWgradSumParams),
            (convbf16x3_parts_f32, filter_parts, ConvFilterPartsParams),
            (convbf16x3_spread_f32, spread_parts, ConvPackSpreadParams),
            (convbf16x3_pack_f32, pack, ConvPackF32Params),
        }
    };
}
