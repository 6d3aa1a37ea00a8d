//! The kernels that read a tile with its halo once.

/// Calls `$callback!` with one row per Hopper kernel that reads a tile with its halo once: symbol, pass, element type,
/// form: positions (P) or channels (C) as rows, the others as columns; with the filter resident or streamed.
#[macro_export]
macro_rules! conv_halo_kernels {
    ($callback:ident) => {
        $callback! {
            (halo_fprop_wgmma_bf16_256x16_sm90, fprop, bf16, P256_C16),
            (halo_fprop_wgmma_bf16_256x16_resident_sm90, fprop, bf16, P256_C16_RESIDENT),
            (halo_fprop_wgmma_bf16_64x64_sm90, fprop, bf16, C64_P64),
            (halo_fprop_wgmma_bf16_64x256_sm90, fprop, bf16, C64_P256),
            (halo_fprop_wgmma_bf16_64x256_d32_sm90, fprop, bf16, C64_P256_D32),
            (halo_fprop_wgmma_bf16_64x256_d48_sm90, fprop, bf16, C64_P256_D48),
            (halo_fprop_wgmma_bf16_64x256_resident_sm90, fprop, bf16, C64_P256_RESIDENT),
            (halo_fprop_wgmma_bf16_64x256_d32_resident_sm90, fprop, bf16, C64_P256_D32_RESIDENT),
            (halo_fprop_wgmma_bf16_128x192_sm90, fprop, bf16, C128_P192),
            (halo_fprop_wgmma_bf16_128x256_sm90, fprop, bf16, C128_P256),
            (halo_fprop_wgmma_bf16_128x256_d32_sm90, fprop, bf16, C128_P256_D32),
            (halo_fprop_wgmma_bf16_128x256_d48_sm90, fprop, bf16, C128_P256_D48),
            (halo_dgrad_wgmma_bf16_64x64_sm90, dgrad, bf16, C64_P64),
            (halo_dgrad_wgmma_bf16_64x256_sm90, dgrad, bf16, C64_P256),
            (halo_dgrad_wgmma_bf16_64x256_d32_sm90, dgrad, bf16, C64_P256_D32),
            (halo_dgrad_wgmma_bf16_64x256_d48_sm90, dgrad, bf16, C64_P256_D48),
            (halo_dgrad_wgmma_bf16_64x256_resident_sm90, dgrad, bf16, C64_P256_RESIDENT),
            (halo_dgrad_wgmma_bf16_64x256_d32_resident_sm90, dgrad, bf16, C64_P256_D32_RESIDENT),
            (halo_dgrad_wgmma_bf16_128x192_sm90, dgrad, bf16, C128_P192),
            (halo_dgrad_wgmma_bf16_128x256_sm90, dgrad, bf16, C128_P256),
            (halo_dgrad_wgmma_bf16_128x256_d32_sm90, dgrad, bf16, C128_P256_D32),
            (halo_dgrad_wgmma_bf16_128x256_d48_sm90, dgrad, bf16, C128_P256_D48),
            (halo_fprop_wgmma_f16_256x16_sm90, fprop, f16, P256_C16),
            (halo_fprop_wgmma_f16_256x16_resident_sm90, fprop, f16, P256_C16_RESIDENT),
            (halo_fprop_wgmma_f16_64x64_sm90, fprop, f16, C64_P64),
            (halo_fprop_wgmma_f16_64x256_sm90, fprop, f16, C64_P256),
            (halo_fprop_wgmma_f16_64x256_d32_sm90, fprop, f16, C64_P256_D32),
            (halo_fprop_wgmma_f16_64x256_d48_sm90, fprop, f16, C64_P256_D48),
            (halo_fprop_wgmma_f16_64x256_resident_sm90, fprop, f16, C64_P256_RESIDENT),
            (halo_fprop_wgmma_f16_64x256_d32_resident_sm90, fprop, f16, C64_P256_D32_RESIDENT),
            (halo_fprop_wgmma_f16_128x192_sm90, fprop, f16, C128_P192),
            (halo_fprop_wgmma_f16_128x256_sm90, fprop, f16, C128_P256),
            (halo_fprop_wgmma_f16_128x256_d32_sm90, fprop, f16, C128_P256_D32),
            (halo_fprop_wgmma_f16_128x256_d48_sm90, fprop, f16, C128_P256_D48),
            (halo_dgrad_wgmma_f16_64x64_sm90, dgrad, f16, C64_P64),
            (halo_dgrad_wgmma_f16_64x256_sm90, dgrad, f16, C64_P256),
            (halo_dgrad_wgmma_f16_64x256_d32_sm90, dgrad, f16, C64_P256_D32),
            (halo_dgrad_wgmma_f16_64x256_d48_sm90, dgrad, f16, C64_P256_D48),
            (halo_dgrad_wgmma_f16_64x256_resident_sm90, dgrad, f16, C64_P256_RESIDENT),
            (halo_dgrad_wgmma_f16_64x256_d32_resident_sm90, dgrad, f16, C64_P256_D32_RESIDENT),
            (halo_dgrad_wgmma_f16_128x192_sm90, dgrad, f16, C128_P192),
            (halo_dgrad_wgmma_f16_128x256_sm90, dgrad, f16, C128_P256),
            (halo_dgrad_wgmma_f16_128x256_d32_sm90, dgrad, f16, C128_P256_D32),
            (halo_dgrad_wgmma_f16_128x256_d48_sm90, dgrad, f16, C128_P256_D48),
        }
    };
}

/// Calls `$callback!` with one row per Hopper kernel of `wgrad` that reads a strip with its halo once: symbol, element
/// type, form.
#[macro_export]
macro_rules! conv_halo_wgrad_kernels {
    ($callback:ident) => {
        $callback! {
            (halowgrad_wgmma_bf16_64x192_sm90, bf16, WIDE),
            (halowgrad_wgmma_bf16_64x96_sm90, bf16, NARROW),
            (halowgrad_wgmma_bf16_64x40_sm90, bf16, FEW_K),
            (halowgrad_wgmma_f16_64x192_sm90, f16, WIDE),
            (halowgrad_wgmma_f16_64x96_sm90, f16, NARROW),
            (halowgrad_wgmma_f16_64x40_sm90, f16, FEW_K),
        }
    };
}

/// Calls `$callback!` with one row per kernel that adds their partial sums: symbol, element type.
#[macro_export]
macro_rules! conv_halo_wgrad_sum_kernels {
    ($callback:ident) => {
        $callback! {
            (halowgrad_sum_bf16, bf16),
            (halowgrad_sum_f16, f16),
        }
    };
}
