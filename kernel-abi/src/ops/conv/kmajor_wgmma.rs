//! What launcher and kernels of `kmajor_wgmma` agree on: convolution of element types whose products need operands with
//! the dimension of the sum contiguous.
//!
//! Tiles, classes and places are those of [`im2col_wgmma`](super::im2col_wgmma). A row of shared memory has 128 bytes:
//! 128 elements of 8 bits, or 32 of f32. So that all counts stay those of 16-bit elements, channels are counted in
//! units of 2 bytes: `ConvGatherParams::channels` is half of the bytes of a group's channels.

use super::im2col_wgmma::{ConvGatherParams, ConvTile, MAX_SHARED_BYTES};
use crate::store::StoreParams;

macro_rules! tiles {
    ($($(#[$meta:meta])* $name:ident = [$m:literal x $n:literal, stages $s:literal];)*) => { $(
        $(#[$meta])*
        pub const $name: ConvTile = ConvTile {
            gemm_m: $m,
            gemm_n: $n,
            panel_k: 64,
            stages: $s,
            cluster: 1,
            out_panels: 1,
            in_turns: false,
            parts: 1,
            converted: 0,
        };
        const _: () = assert!($name.smem_bytes() <= MAX_SHARED_BYTES);
    )* };
}

tiles! {
    /// Many channels.
    KMAJOR_128X256 = [128 x 256, stages 4];
    /// For 128 channels, or fewer tiles.
    KMAJOR_128X128 = [128 x 128, stages 6];
    /// For 64 channels.
    KMAJOR_128X64 = [128 x 64, stages 8];
}

crate::abi_struct! {
    /// Launch parameters.
    pub struct ConvKMajorParams {
        /// As for 16-bit types, but for what is written.
        pub gather: ConvGatherParams,
        /// How it is written.
        pub store: StoreParams,
    }
}

const _: () = assert!(size_of::<ConvKMajorParams>() <= 4096);
