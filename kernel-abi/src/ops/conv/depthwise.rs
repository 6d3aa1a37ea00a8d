//! Depthwise convolution: launch parameters and kernel lists.
//!
//! Every channel is a convolution of its own: one filter, nothing summed over channels. The kernels speak of a *source*
//! and a *target*: x and y in `fprop` and `wgrad`, dy and dx in `dgrad`.

use crate::division::Divisor;

crate::abi_struct! {
    /// Launch parameters of the depthwise kernels. Spatial arrays are in the order height, width; numbers within an
    /// image fit 32 bits. First stands what the kernels need whose threads read a window each: they wait for every line of
    /// the constant cache that they read.
    pub struct DepthwiseParams {
        /// Address of the tensor that is read; of x in `wgrad`.
        pub source: u64,
        /// Address of the tensor that is written; of dy in `wgrad`.
        pub target: u64,
        /// Address of w, or dw.
        pub w: u64,
        /// Work items of the whole grid, as each kernel counts them.
        pub n_items: i64,
        /// C.
        pub c: i32,
        /// Extents of the source.
        pub source_dims: [i32; 2],
        /// Extents of the target.
        pub target_dims: [i32; 2],
        /// Source position, with its zeros in between counted, of tap 0 at target position 0, negated; any sign.
        pub padding: [i32; 2],
        /// 1 when tap 0 is the filter's last element.
        pub flip: u32,
        /// What the kernels whose threads read a window each divide an item's number by, one after the other: groups of
        /// channels where they are last, strips of a row, rows, and channels where they are first.
        pub divisors: [Divisor; 3],
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
        /// Address of the sums of slabs, `[slab][tap][channel]`, in `wgrad`.
        pub partials: u64,
        /// N.
        pub n: i64,
        /// Distances in w between neighbouring channels, rows and columns, in elements.
        pub w_strides: [i64; 3],
        /// R, S.
        pub filter: [i32; 2],
        /// Steps of the source, with its zeros in between counted, between neighbouring target positions.
        pub stride: [i32; 2],
        /// Steps of the source, with its zeros in between counted, between neighbouring taps.
        pub dilation: [i32; 2],
        /// One more than the zeros between neighbouring source positions.
        pub spread: [i32; 2],
        /// Groups of channels that are walked before the next position; images of an item of the kernels with Toeplitz
        /// matrices; channels of a block that have a warp each.
        pub channel_run: i32,
        /// Target rows of a work item.
        pub item_rows: i32,
        /// Parts that `wgrad` cuts its sums into.
        pub n_slabs: i32,
    }
}

/// Target positions of an item of the kernels with loops over taps, and the taps of one of their `wgrad` items.
pub const LOOPED_STRIP: i32 = 8;

/// The largest filter extent of the kernels with loops over taps.
pub const LOOPED_MAX_FILTER: i32 = 64;

/// Calls `$callback!` with one row per kernel that loops over taps: symbol, what it does, layout, element type.
/// `gather` serves `fprop` and `dgrad`.
#[macro_export]
macro_rules! depthwise_looped_kernels {
    ($callback:ident) => {
        $callback! {
            (depthwise_gather_looped_nhwc_f32, gather, nhwc, f32),
            (depthwise_gather_looped_nhwc_f16, gather, nhwc, f16),
            (depthwise_gather_looped_nhwc_bf16, gather, nhwc, bf16),
            (depthwise_gather_looped_nchw_f32, gather, nchw, f32),
            (depthwise_gather_looped_nchw_f16, gather, nchw, f16),
            (depthwise_gather_looped_nchw_bf16, gather, nchw, bf16),
            (depthwise_wgrad_looped_nhwc_f32, wgrad, nhwc, f32),
            (depthwise_wgrad_looped_nhwc_f16, wgrad, nhwc, f16),
            (depthwise_wgrad_looped_nhwc_bf16, wgrad, nhwc, bf16),
            (depthwise_wgrad_looped_nchw_f32, wgrad, nchw, f32),
            (depthwise_wgrad_looped_nchw_f16, wgrad, nchw, f16),
            (depthwise_wgrad_looped_nchw_bf16, wgrad, nchw, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel that adds up the slabs of `wgrad`: symbol, element type.
#[macro_export]
macro_rules! depthwise_reduce_kernels {
    ($callback:ident) => {
        $callback! {
            (depthwise_reduce_f32, f32),
            (depthwise_reduce_f16, f16),
            (depthwise_reduce_bf16, bf16),
        }
    };
}

/// Shared memory of a warp of the kernels for packed planes.
pub const REGION_BYTES: i32 = 6144;

/// The most groups of channels in a run of the channels-last kernels.
pub const RUN_MAX: i32 = 32;

/// Calls `$callback!` with one row per kernel for channels-last images: symbol, what it does, filter extent, stride,
/// rows under way, channels of an access, columns of a strip, columns it loads, element type.
///
/// `gather` serves `fprop`, and `dgrad` where the stride is 1; `spread` serves `dgrad`. The `narrow` ones have more rows
/// under way in the registers that shorter strips leave.
#[macro_export]
macro_rules! depthwise_channels_last_kernels {
    ($callback:ident) => {
        $callback! {
            (depthwise_gather_nhwc_3x3_s1_f32, gather, 3, 1, 3, 2, 4, 6, f32),
            (depthwise_gather_nhwc_3x3_s1_f16, gather, 3, 1, 3, 2, 7, 9, f16),
            (depthwise_gather_nhwc_3x3_s1_narrow_f16, gather, 3, 1, 3, 2, 4, 6, f16),
            (depthwise_gather_nhwc_3x3_s1_bf16, gather, 3, 1, 3, 2, 7, 9, bf16),
            (depthwise_gather_nhwc_3x3_s1_narrow_bf16, gather, 3, 1, 3, 2, 4, 6, bf16),
            (depthwise_gather_nhwc_3x3_s2_f32, gather, 3, 2, 2, 2, 2, 5, f32),
            (depthwise_gather_nhwc_3x3_s2_f16, gather, 3, 2, 2, 2, 4, 9, f16),
            (depthwise_gather_nhwc_3x3_s2_narrow_f16, gather, 3, 2, 2, 2, 2, 5, f16),
            (depthwise_gather_nhwc_3x3_s2_bf16, gather, 3, 2, 2, 2, 4, 9, bf16),
            (depthwise_gather_nhwc_3x3_s2_narrow_bf16, gather, 3, 2, 2, 2, 2, 5, bf16),
            (depthwise_gather_nhwc_5x5_s1_f32, gather, 5, 1, 5, 1, 7, 11, f32),
            (depthwise_gather_nhwc_5x5_s1_f16, gather, 5, 1, 5, 1, 7, 11, f16),
            (depthwise_gather_nhwc_5x5_s1_bf16, gather, 5, 1, 5, 1, 7, 11, bf16),
            (depthwise_gather_nhwc_5x5_s2_f32, gather, 5, 2, 3, 1, 4, 11, f32),
            (depthwise_gather_nhwc_5x5_s2_f16, gather, 5, 2, 3, 1, 4, 11, f16),
            (depthwise_gather_nhwc_5x5_s2_bf16, gather, 5, 2, 3, 1, 4, 11, bf16),
            (depthwise_gather_nhwc_7x7_s1_f32, gather, 7, 1, 7, 1, 4, 10, f32),
            (depthwise_gather_nhwc_7x7_s1_f16, gather, 7, 1, 7, 1, 4, 10, f16),
            (depthwise_gather_nhwc_7x7_s1_bf16, gather, 7, 1, 7, 1, 4, 10, bf16),
            (depthwise_gather_nhwc_7x7_s2_f32, gather, 7, 2, 4, 1, 2, 9, f32),
            (depthwise_gather_nhwc_7x7_s2_f16, gather, 7, 2, 4, 1, 2, 9, f16),
            (depthwise_gather_nhwc_7x7_s2_bf16, gather, 7, 2, 4, 1, 2, 9, bf16),
            (depthwise_spread_nhwc_3x3_s2_f32, spread, 3, 2, 2, 4, 2, 3, f32),
            (depthwise_spread_nhwc_3x3_s2_f16, spread, 3, 2, 2, 4, 2, 3, f16),
            (depthwise_spread_nhwc_3x3_s2_bf16, spread, 3, 2, 2, 4, 2, 3, bf16),
            (depthwise_spread_nhwc_5x5_s2_f32, spread, 5, 2, 3, 2, 2, 4, f32),
            (depthwise_spread_nhwc_5x5_s2_f16, spread, 5, 2, 3, 2, 2, 4, f16),
            (depthwise_spread_nhwc_5x5_s2_bf16, spread, 5, 2, 3, 2, 2, 4, bf16),
            (depthwise_spread_nhwc_7x7_s2_f32, spread, 7, 2, 4, 1, 2, 5, f32),
            (depthwise_spread_nhwc_7x7_s2_f16, spread, 7, 2, 4, 1, 2, 5, f16),
            (depthwise_spread_nhwc_7x7_s2_bf16, spread, 7, 2, 4, 1, 2, 5, bf16),
            (depthwise_wgrad_nhwc_3x3_s1_f32, wgrad, 3, 1, 3, 2, 4, 6, f32),
            (depthwise_wgrad_nhwc_3x3_s1_f16, wgrad, 3, 1, 3, 2, 7, 9, f16),
            (depthwise_wgrad_nhwc_3x3_s1_bf16, wgrad, 3, 1, 3, 2, 7, 9, bf16),
            (depthwise_wgrad_nhwc_3x3_s2_f32, wgrad, 3, 2, 2, 2, 2, 5, f32),
            (depthwise_wgrad_nhwc_3x3_s2_f16, wgrad, 3, 2, 2, 2, 4, 9, f16),
            (depthwise_wgrad_nhwc_3x3_s2_bf16, wgrad, 3, 2, 2, 2, 4, 9, bf16),
            (depthwise_wgrad_nhwc_5x5_s1_f32, wgrad, 5, 1, 5, 1, 4, 8, f32),
            (depthwise_wgrad_nhwc_5x5_s1_f16, wgrad, 5, 1, 5, 1, 4, 8, f16),
            (depthwise_wgrad_nhwc_5x5_s1_bf16, wgrad, 5, 1, 5, 1, 4, 8, bf16),
            (depthwise_wgrad_nhwc_5x5_s2_f32, wgrad, 5, 2, 3, 1, 2, 7, f32),
            (depthwise_wgrad_nhwc_5x5_s2_f16, wgrad, 5, 2, 3, 1, 2, 7, f16),
            (depthwise_wgrad_nhwc_5x5_s2_bf16, wgrad, 5, 2, 3, 1, 2, 7, bf16),
            (depthwise_wgrad_nhwc_7x7_s1_f32, wgrad, 7, 1, 7, 1, 1, 7, f32),
            (depthwise_wgrad_nhwc_7x7_s1_f16, wgrad, 7, 1, 7, 1, 2, 8, f16),
            (depthwise_wgrad_nhwc_7x7_s1_bf16, wgrad, 7, 1, 7, 1, 2, 8, bf16),
            (depthwise_wgrad_nhwc_7x7_s2_f32, wgrad, 7, 2, 4, 1, 1, 7, f32),
            (depthwise_wgrad_nhwc_7x7_s2_f16, wgrad, 7, 2, 4, 1, 2, 9, f16),
            (depthwise_wgrad_nhwc_7x7_s2_bf16, wgrad, 7, 2, 4, 1, 2, 9, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel for packed planes: symbol, what it does, filter extent, stride, rows under
/// way, element type.
///
/// `gather` serves `fprop`, and `dgrad` where the stride is 1; `spread` serves `dgrad`.
#[macro_export]
macro_rules! depthwise_planes_kernels {
    ($callback:ident) => {
        $callback! {
            (depthwise_gather_nchw_3x3_s1_f32, gather, 3, 1, 3, f32),
            (depthwise_gather_nchw_3x3_s1_f16, gather, 3, 1, 3, f16),
            (depthwise_gather_nchw_3x3_s1_bf16, gather, 3, 1, 3, bf16),
            (depthwise_gather_nchw_3x3_s2_f32, gather, 3, 2, 2, f32),
            (depthwise_gather_nchw_3x3_s2_f16, gather, 3, 2, 2, f16),
            (depthwise_gather_nchw_3x3_s2_bf16, gather, 3, 2, 2, bf16),
            (depthwise_gather_nchw_5x5_s1_f32, gather, 5, 1, 5, f32),
            (depthwise_gather_nchw_5x5_s1_f16, gather, 5, 1, 5, f16),
            (depthwise_gather_nchw_5x5_s1_bf16, gather, 5, 1, 5, bf16),
            (depthwise_gather_nchw_5x5_s2_f32, gather, 5, 2, 3, f32),
            (depthwise_gather_nchw_5x5_s2_f16, gather, 5, 2, 3, f16),
            (depthwise_gather_nchw_5x5_s2_bf16, gather, 5, 2, 3, bf16),
            (depthwise_gather_nchw_7x7_s1_f32, gather, 7, 1, 7, f32),
            (depthwise_gather_nchw_7x7_s1_f16, gather, 7, 1, 7, f16),
            (depthwise_gather_nchw_7x7_s1_bf16, gather, 7, 1, 7, bf16),
            (depthwise_gather_nchw_7x7_s2_f32, gather, 7, 2, 4, f32),
            (depthwise_gather_nchw_7x7_s2_f16, gather, 7, 2, 4, f16),
            (depthwise_gather_nchw_7x7_s2_bf16, gather, 7, 2, 4, bf16),
            (depthwise_spread_nchw_3x3_s2_f32, spread, 3, 2, 2, f32),
            (depthwise_spread_nchw_3x3_s2_f16, spread, 3, 2, 2, f16),
            (depthwise_spread_nchw_3x3_s2_bf16, spread, 3, 2, 2, bf16),
            (depthwise_spread_nchw_5x5_s2_f32, spread, 5, 2, 3, f32),
            (depthwise_spread_nchw_5x5_s2_f16, spread, 5, 2, 3, f16),
            (depthwise_spread_nchw_5x5_s2_bf16, spread, 5, 2, 3, bf16),
            (depthwise_spread_nchw_7x7_s2_f32, spread, 7, 2, 4, f32),
            (depthwise_spread_nchw_7x7_s2_f16, spread, 7, 2, 4, f16),
            (depthwise_spread_nchw_7x7_s2_bf16, spread, 7, 2, 4, bf16),
            (depthwise_wgrad_nchw_3x3_s1_f32, wgrad, 3, 1, 3, f32),
            (depthwise_wgrad_nchw_3x3_s1_f16, wgrad, 3, 1, 3, f16),
            (depthwise_wgrad_nchw_3x3_s1_bf16, wgrad, 3, 1, 3, bf16),
            (depthwise_wgrad_nchw_3x3_s2_f32, wgrad, 3, 2, 2, f32),
            (depthwise_wgrad_nchw_3x3_s2_f16, wgrad, 3, 2, 2, f16),
            (depthwise_wgrad_nchw_3x3_s2_bf16, wgrad, 3, 2, 2, bf16),
            (depthwise_wgrad_nchw_5x5_s1_f32, wgrad, 5, 1, 5, f32),
            (depthwise_wgrad_nchw_5x5_s1_f16, wgrad, 5, 1, 5, f16),
            (depthwise_wgrad_nchw_5x5_s1_bf16, wgrad, 5, 1, 5, bf16),
            (depthwise_wgrad_nchw_5x5_s2_f32, wgrad, 5, 2, 3, f32),
            (depthwise_wgrad_nchw_5x5_s2_f16, wgrad, 5, 2, 3, f16),
            (depthwise_wgrad_nchw_5x5_s2_bf16, wgrad, 5, 2, 3, bf16),
            (depthwise_wgrad_nchw_7x7_s1_f32, wgrad, 7, 1, 7, f32),
            (depthwise_wgrad_nchw_7x7_s1_f16, wgrad, 7, 1, 7, f16),
            (depthwise_wgrad_nchw_7x7_s1_bf16, wgrad, 7, 1, 7, bf16),
            (depthwise_wgrad_nchw_7x7_s2_f32, wgrad, 7, 2, 4, f32),
            (depthwise_wgrad_nchw_7x7_s2_f16, wgrad, 7, 2, 4, f16),
            (depthwise_wgrad_nchw_7x7_s2_bf16, wgrad, 7, 2, 4, bf16),
        }
    };
}

/// The most threads of a block of the kernels whose threads read a window each, and of their `wgrad`.
pub const WINDOWS_THREADS: [u32; 2] = [256, 512];

/// Groups of channels of a block of their `wgrad` where channels are last.
pub const WINDOWS_GROUPS: u32 = 8;

/// Neighbouring columns of a plane that are read at once, where rows are whole numbers of them.
pub const WINDOWS_QUAD: u32 = 4;

/// Calls `$callback!` with one row per kernel whose threads read a window each: symbol, what it does, layout, filter
/// extent, stride, columns of a strip, element type.
///
/// `gather` serves `fprop`, and `dgrad` where the stride is 1; `spread` serves `dgrad`. `quads` does what `gather` does, for
/// planes whose rows are whole accesses of [`WINDOWS_QUAD`] columns. Short strips (`…_strip2_…`) are for images that give too
/// few others to fill the device.
#[macro_export]
macro_rules! depthwise_windows_kernels {
    ($callback:ident) => {
        $callback! {
            (depthwisewindows_quads_nchw_3x3_s1_f32, quads, nchw, 3, 1, 4, f32),
            (depthwisewindows_quads_nchw_3x3_s1_f16, quads, nchw, 3, 1, 4, f16),
            (depthwisewindows_quads_nchw_3x3_s1_bf16, quads, nchw, 3, 1, 4, bf16),
            (depthwisewindows_quads_nchw_3x3_s2_f32, quads, nchw, 3, 2, 2, f32),
            (depthwisewindows_quads_nchw_3x3_s2_f16, quads, nchw, 3, 2, 2, f16),
            (depthwisewindows_quads_nchw_3x3_s2_bf16, quads, nchw, 3, 2, 2, bf16),
            (depthwisewindows_quads_nchw_5x5_s1_f32, quads, nchw, 5, 1, 4, f32),
            (depthwisewindows_quads_nchw_5x5_s1_f16, quads, nchw, 5, 1, 4, f16),
            (depthwisewindows_quads_nchw_5x5_s1_bf16, quads, nchw, 5, 1, 4, bf16),
            (depthwisewindows_quads_nchw_5x5_s2_f32, quads, nchw, 5, 2, 2, f32),
            (depthwisewindows_quads_nchw_5x5_s2_f16, quads, nchw, 5, 2, 2, f16),
            (depthwisewindows_quads_nchw_5x5_s2_bf16, quads, nchw, 5, 2, 2, bf16),
            (depthwisewindows_gather_nhwc_3x3_s1_f32, gather, nhwc, 3, 1, 4, f32),
            (depthwisewindows_gather_nhwc_3x3_s1_f16, gather, nhwc, 3, 1, 4, f16),
            (depthwisewindows_gather_nhwc_3x3_s1_bf16, gather, nhwc, 3, 1, 4, bf16),
            (depthwisewindows_gather_nhwc_3x3_s2_f32, gather, nhwc, 3, 2, 2, f32),
            (depthwisewindows_gather_nhwc_3x3_s2_f16, gather, nhwc, 3, 2, 2, f16),
            (depthwisewindows_gather_nhwc_3x3_s2_bf16, gather, nhwc, 3, 2, 2, bf16),
            (depthwisewindows_spread_nhwc_3x3_s2_f32, spread, nhwc, 3, 2, 4, f32),
            (depthwisewindows_spread_nhwc_3x3_s2_f16, spread, nhwc, 3, 2, 4, f16),
            (depthwisewindows_spread_nhwc_3x3_s2_bf16, spread, nhwc, 3, 2, 4, bf16),
            (depthwisewindows_gather_nhwc_5x5_s1_f32, gather, nhwc, 5, 1, 4, f32),
            (depthwisewindows_gather_nhwc_5x5_s1_f16, gather, nhwc, 5, 1, 4, f16),
            (depthwisewindows_gather_nhwc_5x5_s1_bf16, gather, nhwc, 5, 1, 4, bf16),
            (depthwisewindows_gather_nhwc_5x5_s2_f32, gather, nhwc, 5, 2, 2, f32),
            (depthwisewindows_gather_nhwc_5x5_s2_f16, gather, nhwc, 5, 2, 2, f16),
            (depthwisewindows_gather_nhwc_5x5_s2_bf16, gather, nhwc, 5, 2, 2, bf16),
            (depthwisewindows_spread_nhwc_5x5_s2_f32, spread, nhwc, 5, 2, 4, f32),
            (depthwisewindows_spread_nhwc_5x5_s2_f16, spread, nhwc, 5, 2, 4, f16),
            (depthwisewindows_spread_nhwc_5x5_s2_bf16, spread, nhwc, 5, 2, 4, bf16),
            (depthwisewindows_wgrad_nhwc_3x3_s1_f32, wgrad, nhwc, 3, 1, 4, f32),
            (depthwisewindows_wgrad_nhwc_3x3_s1_f16, wgrad, nhwc, 3, 1, 4, f16),
            (depthwisewindows_wgrad_nhwc_3x3_s1_bf16, wgrad, nhwc, 3, 1, 4, bf16),
            (depthwisewindows_wgrad_nhwc_3x3_s2_f32, wgrad, nhwc, 3, 2, 2, f32),
            (depthwisewindows_wgrad_nhwc_3x3_s2_f16, wgrad, nhwc, 3, 2, 2, f16),
            (depthwisewindows_wgrad_nhwc_3x3_s2_bf16, wgrad, nhwc, 3, 2, 2, bf16),
            (depthwisewindows_gather_nchw_3x3_s1_f32, gather, nchw, 3, 1, 4, f32),
            (depthwisewindows_gather_nchw_3x3_s1_f16, gather, nchw, 3, 1, 4, f16),
            (depthwisewindows_gather_nchw_3x3_s1_bf16, gather, nchw, 3, 1, 4, bf16),
            (depthwisewindows_gather_nchw_3x3_s2_f32, gather, nchw, 3, 2, 2, f32),
            (depthwisewindows_gather_nchw_3x3_s2_f16, gather, nchw, 3, 2, 2, f16),
            (depthwisewindows_gather_nchw_3x3_s2_bf16, gather, nchw, 3, 2, 2, bf16),
            (depthwisewindows_spread_nchw_3x3_s2_f32, spread, nchw, 3, 2, 4, f32),
            (depthwisewindows_spread_nchw_3x3_s2_f16, spread, nchw, 3, 2, 4, f16),
            (depthwisewindows_spread_nchw_3x3_s2_bf16, spread, nchw, 3, 2, 4, bf16),
            (depthwisewindows_gather_nchw_5x5_s1_f32, gather, nchw, 5, 1, 4, f32),
            (depthwisewindows_gather_nchw_5x5_s1_f16, gather, nchw, 5, 1, 4, f16),
            (depthwisewindows_gather_nchw_5x5_s1_bf16, gather, nchw, 5, 1, 4, bf16),
            (depthwisewindows_gather_nchw_5x5_s2_f32, gather, nchw, 5, 2, 2, f32),
            (depthwisewindows_gather_nchw_5x5_s2_f16, gather, nchw, 5, 2, 2, f16),
            (depthwisewindows_gather_nchw_5x5_s2_bf16, gather, nchw, 5, 2, 2, bf16),
            (depthwisewindows_spread_nchw_5x5_s2_f32, spread, nchw, 5, 2, 4, f32),
            (depthwisewindows_spread_nchw_5x5_s2_f16, spread, nchw, 5, 2, 4, f16),
            (depthwisewindows_spread_nchw_5x5_s2_bf16, spread, nchw, 5, 2, 4, bf16),
            (depthwisewindows_wgrad_nchw_3x3_s1_f32, wgrad, nchw, 3, 1, 4, f32),
            (depthwisewindows_wgrad_nchw_3x3_s1_f16, wgrad, nchw, 3, 1, 4, f16),
            (depthwisewindows_wgrad_nchw_3x3_s1_bf16, wgrad, nchw, 3, 1, 4, bf16),
            (depthwisewindows_wgrad_nchw_3x3_s2_f32, wgrad, nchw, 3, 2, 2, f32),
            (depthwisewindows_wgrad_nchw_3x3_s2_f16, wgrad, nchw, 3, 2, 2, f16),
            (depthwisewindows_wgrad_nchw_3x3_s2_bf16, wgrad, nchw, 3, 2, 2, bf16),
            (depthwisewindows_gather_nchw_3x3_s1_strip1_f32, gather, nchw, 3, 1, 1, f32),
            (depthwisewindows_gather_nchw_3x3_s1_strip1_f16, gather, nchw, 3, 1, 1, f16),
            (depthwisewindows_gather_nchw_3x3_s1_strip1_bf16, gather, nchw, 3, 1, 1, bf16),
            (depthwisewindows_gather_nchw_3x3_s2_strip1_f32, gather, nchw, 3, 2, 1, f32),
            (depthwisewindows_gather_nchw_3x3_s2_strip1_f16, gather, nchw, 3, 2, 1, f16),
            (depthwisewindows_gather_nchw_3x3_s2_strip1_bf16, gather, nchw, 3, 2, 1, bf16),
            (depthwisewindows_gather_nhwc_3x3_s2_strip1_f32, gather, nhwc, 3, 2, 1, f32),
            (depthwisewindows_gather_nhwc_3x3_s2_strip1_f16, gather, nhwc, 3, 2, 1, f16),
            (depthwisewindows_gather_nhwc_3x3_s2_strip1_bf16, gather, nhwc, 3, 2, 1, bf16),
            (depthwisewindows_gather_nhwc_3x3_s1_strip2_f32, gather, nhwc, 3, 1, 2, f32),
            (depthwisewindows_gather_nhwc_3x3_s1_strip2_f16, gather, nhwc, 3, 1, 2, f16),
            (depthwisewindows_gather_nhwc_3x3_s1_strip2_bf16, gather, nhwc, 3, 1, 2, bf16),
            (depthwisewindows_spread_nhwc_3x3_s2_strip2_f32, spread, nhwc, 3, 2, 2, f32),
            (depthwisewindows_spread_nhwc_3x3_s2_strip2_f16, spread, nhwc, 3, 2, 2, f16),
            (depthwisewindows_spread_nhwc_3x3_s2_strip2_bf16, spread, nhwc, 3, 2, 2, bf16),
        }
    };
}

/// Shared memory that an image takes in an item of the kernels with Toeplitz matrices: the source rows of `rows` target
/// rows, and what lies before them in their first word of 16 bytes.
pub const fn toeplitz_pitch(rows: i64, filter: i64, source_width: i64) -> i64 {
    ((rows + filter - 1) * source_width * 2 + 14 + 15) / 16 * 16
}

/// The most lines, rows of all its images, of an item of the kernels with Toeplitz matrices: their image is found by a
/// product with 16 bits behind the point.
pub const TOEPLITZ_MAX_LINES: i32 = 240;

/// Shared memory of a warp of the kernels with Toeplitz matrices; half of it where results do not go through it.
pub const TOEPLITZ_REGION: i32 = 12288;

/// Calls `$callback!` with one row per kernel whose filter rows are Toeplitz matrices: symbol, what it does, whether the
/// target too goes through shared memory, filter extent, element type.
///
/// They take packed planes and stride 1; `gather` serves `fprop` and `dgrad`.
#[macro_export]
macro_rules! depthwise_toeplitz_kernels {
    ($callback:ident) => {
        $callback! {
            (depthwise_toeplitz_nchw_3x3_f16, gather, false, 3, f16),
            (depthwise_toeplitz_nchw_3x3_bf16, gather, false, 3, bf16),
            (depthwise_toeplitz_nchw_5x5_f16, gather, false, 5, f16),
            (depthwise_toeplitz_nchw_5x5_bf16, gather, false, 5, bf16),
            (depthwise_toeplitz_nchw_7x7_f16, gather, false, 7, f16),
            (depthwise_toeplitz_nchw_7x7_bf16, gather, false, 7, bf16),
            (depthwise_toeplitz_staged_nchw_3x3_f16, gather, true, 3, f16),
            (depthwise_toeplitz_staged_nchw_3x3_bf16, gather, true, 3, bf16),
            (depthwise_toeplitz_wgrad_nchw_3x3_f16, wgrad, true, 3, f16),
            (depthwise_toeplitz_wgrad_nchw_3x3_bf16, wgrad, true, 3, bf16),
            (depthwise_toeplitz_wgrad_nchw_5x5_f16, wgrad, true, 5, f16),
            (depthwise_toeplitz_wgrad_nchw_5x5_bf16, wgrad, true, 5, bf16),
            (depthwise_toeplitz_wgrad_nchw_7x7_f16, wgrad, true, 7, f16),
            (depthwise_toeplitz_wgrad_nchw_7x7_bf16, wgrad, true, 7, bf16),
        }
    };
}
