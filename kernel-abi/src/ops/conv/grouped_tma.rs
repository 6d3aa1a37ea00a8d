//! Launch parameters, kernel list and shared-memory layout of `grouped_tma`.

use crate::division::Divisor;

/// Channels that a block may work on, its slice: 128 or 64 bytes of a position, a swizzled row of shared memory.
pub const GROUPED_TMA_SLICES: [u32; 2] = [64, 32];
/// Positions of a product.
pub const GROUPED_TMA_PRODUCT: u32 = 16;
/// Rows of results that have a place in shared memory.
pub const GROUPED_TMA_RESULTS: u32 = 4;
/// The most positions of a copy along a dimension.
pub const GROUPED_TMA_MAX_BOX: u32 = 256;
/// Period of the swizzle: places in shared memory are multiples of it.
const PERIOD: u32 = 1024;

/// What a kernel is made for, as far as it decides where things lie.
#[derive(Clone, Copy, Debug)]
pub struct GroupedTmaForm {
    /// Of both axes.
    pub stride: u32,
    /// R = S.
    pub taps: u32,
    /// Whether positions are what is summed over.
    pub wgrad: bool,
}

impl GroupedTmaForm {
    /// Channels of a warp: as few as a product has, where all taps of more would not fit its registers.
    #[inline(always)]
    pub const fn channels(self) -> u32 {
        if self.taps == 3 { 16 } else { 8 }
    }

    /// Positions of a warp, a strip: two products of 8 channels.
    #[inline(always)]
    pub const fn strip(self) -> u32 {
        2 * GROUPED_TMA_PRODUCT * 8 / self.channels()
    }

    /// Warps that compute so many channels of a strip; in `wgrad` of groups of 32 channels, 16 of dy and 16 of x each.
    #[inline(always)]
    pub const fn warps(self, channels: u32, width: u32) -> u32 {
        channels.div_ceil(self.channels()) * if self.wgrad && width == 32 { 2 } else { 1 }
    }

    /// Warps that do not compute: one brings rows, and one takes those of results away. In `wgrad` of 5 × 5 taps and more, where
    /// none is to spare, one that computes brings them too.
    #[inline(always)]
    pub const fn movers(self) -> u32 {
        if !self.wgrad {
            2
        } else if self.taps == 3 {
            1
        } else {
            0
        }
    }

    /// Sums of a thread in `wgrad`: of each tap, or, where groups are up to 8 channels wide, of pairs of taps in a row.
    #[inline(always)]
    pub const fn sums(self, width: u32) -> u32 {
        let columns = if width == 8 { self.taps.div_ceil(2) } else { self.taps };
        self.taps * columns * self.channels() / 8 * 4
    }
}

/// What a block works on at a time, and where in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct GroupedTmaTile {
    /// Images beside each other.
    pub images: u32,
    /// Rows of the positions' tensor.
    pub rows: u32,
    /// Columns of the positions' tensor.
    pub columns: u32,
    /// Rows of the source that have a place in shared memory.
    pub stages: u32,
    /// Channels of the block's slice, of [`GROUPED_TMA_SLICES`].
    pub channels: u32,
}

impl GroupedTmaTile {
    /// Positions of a row.
    #[inline(always)]
    pub const fn positions(self) -> u32 {
        self.images * self.columns
    }

    /// Bytes of a position's channels in shared memory.
    #[inline(always)]
    pub const fn position_bytes(self) -> u32 {
        2 * self.channels
    }

    /// Strips of a row.
    #[inline(always)]
    pub const fn strips(self, form: GroupedTmaForm) -> u32 {
        self.positions().div_ceil(form.strip())
    }

    /// Bytes of a row of the positions' tensor, whose last strip is filled up.
    #[inline(always)]
    pub const fn target_bytes(self, form: GroupedTmaForm) -> u32 {
        self.strips(form) * form.strip() * self.position_bytes()
    }

    /// Columns of the source that the columns of a tile meet.
    #[inline(always)]
    pub const fn source_columns(self, form: GroupedTmaForm) -> u32 {
        (self.columns - 1) * form.stride + form.taps
    }

    /// Bytes of a row of the source.
    #[inline(always)]
    pub const fn source_bytes(self, form: GroupedTmaForm) -> u32 {
        self.images * self.source_columns(form) * self.position_bytes()
    }

    /// Where, in a stage, a row of the positions' tensor lies in `wgrad`.
    #[inline(always)]
    pub const fn target_at(self, form: GroupedTmaForm) -> u32 {
        self.source_bytes(form).next_multiple_of(PERIOD)
    }

    /// Bytes of a stage.
    #[inline(always)]
    pub const fn stage_bytes(self, form: GroupedTmaForm) -> u32 {
        let target = if form.wgrad { self.target_bytes(form) } else { 0 };
        self.target_at(form) + target.next_multiple_of(PERIOD)
    }

    /// Bytes of the sums that warps of `wgrad` of all strips but one leave for the others, where the ring was.
    #[inline(always)]
    pub const fn sums_bytes(self, form: GroupedTmaForm, warps: u32, width: u32) -> u32 {
        (self.strips(form) - 1) * warps * form.sums(width) * 32 * 4
    }

    /// Where rows of results lie on their way out, in `fprop` and `dgrad`.
    #[inline(always)]
    pub const fn results_at(self, form: GroupedTmaForm) -> u32 {
        self.stages * self.stage_bytes(form)
    }

    /// Where the barriers lie: two a stage, and two a row of results.
    #[inline(always)]
    pub const fn barriers_at(self, form: GroupedTmaForm) -> u32 {
        let results = if form.wgrad { 0 } else { GROUPED_TMA_RESULTS * self.target_bytes(form) };
        self.results_at(form) + results
    }

    /// Dynamic shared memory of a block, with what aligns it.
    pub const fn smem_bytes(self, form: GroupedTmaForm) -> u32 {
        let results = if form.wgrad { 0 } else { GROUPED_TMA_RESULTS };
        PERIOD + self.barriers_at(form) + 16 * (self.stages + results)
    }
}

crate::abi_struct! {
    /// Launch parameters of `grouped_tma`.
    ///
    /// As in [`grouped_mma`](super::grouped_mma), the *source* is the image whose positions are gathered, and *positions* are
    /// those of the other one, the *target*. The maps stand first: the hardware wants each at an address that is a multiple
    /// of 64.
    pub struct ConvGroupedTmaParams {
        /// Map of the source, `[C, W, H, N]`, fastest first, for a row of a tile.
        pub source_map: [u64; 16],
        /// Map of the target, likewise; `wgrad` reads it, the others write it.
        pub target_map: [u64; 16],
        /// Address of the target, for its prior values; not used by `wgrad`.
        pub target: u64,
        /// Address of w; not used by `wgrad`.
        pub filter: u64,
        /// Partial sums of `wgrad`: f32 `[slab][K][R][S][C / G]`.
        pub partials: u64,
        /// N.
        pub n: u32,
        /// C = K.
        pub channels: u32,
        /// C / G = K / G.
        pub width: u32,
        /// 1 when the filter is read from its far end.
        pub flip: u32,
        /// Height of the source.
        pub source_rows: u32,
        /// Height and width of the target.
        pub target_dims: [u32; 2],
        /// The source position that position 0 and tap 0 meet, negated; any sign.
        pub padding: [i32; 2],
        /// What a block works on at a time.
        pub tile: GroupedTmaTile,
        /// Columns of a tile.
        pub columns: Divisor,
        /// Tiles of a row of positions.
        pub column_tiles: Divisor,
        /// Tiles of a column of positions.
        pub bands: Divisor,
        /// Slices of channels.
        pub slices: Divisor,
        /// Tiles of a slice.
        pub n_tiles: u32,
        /// Blocks that share the tiles of a slice.
        pub slabs: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
    }
}

/// Calls `$callback!` with one row per kernel: symbol, pass, element type, width of a group (8 stands for its divisors
/// too), taps of an axis, stride, the most threads of a block.
///
/// `dgrad` is `fprop` with the filter turned around. Those of wide groups and of 7 × 7 taps have fewer threads with more
/// registers.
#[macro_export]
macro_rules! conv_grouped_tma_kernels {
    ($callback:ident) => {
        $callback! {
            (convgrouped_fprop_bf16_w8_s1_sm90, fprop, bf16, 8, 3, 1, 576),
            (convgrouped_fprop_bf16_w8_s2_sm90, fprop, bf16, 8, 3, 2, 576),
            (convgrouped_fprop_bf16_w16_s1_sm90, fprop, bf16, 16, 3, 1, 576),
            (convgrouped_fprop_bf16_w16_s2_sm90, fprop, bf16, 16, 3, 2, 576),
            (convgrouped_fprop_bf16_w32_s1_sm90, fprop, bf16, 32, 3, 1, 320),
            (convgrouped_fprop_bf16_w32_s2_sm90, fprop, bf16, 32, 3, 2, 320),
            (convgrouped_dgrad_bf16_w8_s1_sm90, dgrad, bf16, 8, 3, 1, 576),
            (convgrouped_dgrad_bf16_w16_s1_sm90, dgrad, bf16, 16, 3, 1, 576),
            (convgrouped_dgrad_bf16_w32_s1_sm90, dgrad, bf16, 32, 3, 1, 320),
            (convgrouped_wgrad_bf16_w8_s1_sm90, wgrad, bf16, 8, 3, 1, 544),
            (convgrouped_wgrad_bf16_w8_s2_sm90, wgrad, bf16, 8, 3, 2, 544),
            (convgrouped_wgrad_bf16_w16_s1_sm90, wgrad, bf16, 16, 3, 1, 416),
            (convgrouped_wgrad_bf16_w16_s2_sm90, wgrad, bf16, 16, 3, 2, 416),
            (convgrouped_wgrad_bf16_w32_s1_sm90, wgrad, bf16, 32, 3, 1, 288),
            (convgrouped_wgrad_bf16_w32_s2_sm90, wgrad, bf16, 32, 3, 2, 288),
            (convgrouped_fprop_bf16_w8_5x5_s1_sm90, fprop, bf16, 8, 5, 1, 576),
            (convgrouped_fprop_bf16_w8_5x5_s2_sm90, fprop, bf16, 8, 5, 2, 576),
            (convgrouped_dgrad_bf16_w8_5x5_s1_sm90, dgrad, bf16, 8, 5, 1, 576),
            (convgrouped_wgrad_bf16_w8_5x5_s1_sm90, wgrad, bf16, 8, 5, 1, 512),
            (convgrouped_wgrad_bf16_w8_5x5_s2_sm90, wgrad, bf16, 8, 5, 2, 512),
            (convgrouped_fprop_bf16_w8_7x7_s1_sm90, fprop, bf16, 8, 7, 1, 320),
            (convgrouped_dgrad_bf16_w8_7x7_s1_sm90, dgrad, bf16, 8, 7, 1, 320),
            (convgrouped_wgrad_bf16_w8_7x7_s1_sm90, wgrad, bf16, 8, 7, 1, 256),
            (convgrouped_fprop_f16_w8_s1_sm90, fprop, f16, 8, 3, 1, 576),
            (convgrouped_fprop_f16_w8_s2_sm90, fprop, f16, 8, 3, 2, 576),
            (convgrouped_fprop_f16_w16_s1_sm90, fprop, f16, 16, 3, 1, 576),
            (convgrouped_fprop_f16_w16_s2_sm90, fprop, f16, 16, 3, 2, 576),
            (convgrouped_fprop_f16_w32_s1_sm90, fprop, f16, 32, 3, 1, 320),
            (convgrouped_fprop_f16_w32_s2_sm90, fprop, f16, 32, 3, 2, 320),
            (convgrouped_dgrad_f16_w8_s1_sm90, dgrad, f16, 8, 3, 1, 576),
            (convgrouped_dgrad_f16_w16_s1_sm90, dgrad, f16, 16, 3, 1, 576),
            (convgrouped_dgrad_f16_w32_s1_sm90, dgrad, f16, 32, 3, 1, 320),
            (convgrouped_wgrad_f16_w8_s1_sm90, wgrad, f16, 8, 3, 1, 544),
            (convgrouped_wgrad_f16_w8_s2_sm90, wgrad, f16, 8, 3, 2, 544),
            (convgrouped_wgrad_f16_w16_s1_sm90, wgrad, f16, 16, 3, 1, 416),
            (convgrouped_wgrad_f16_w16_s2_sm90, wgrad, f16, 16, 3, 2, 416),
            (convgrouped_wgrad_f16_w32_s1_sm90, wgrad, f16, 32, 3, 1, 288),
            (convgrouped_wgrad_f16_w32_s2_sm90, wgrad, f16, 32, 3, 2, 288),
            (convgrouped_fprop_f16_w8_5x5_s1_sm90, fprop, f16, 8, 5, 1, 576),
            (convgrouped_fprop_f16_w8_5x5_s2_sm90, fprop, f16, 8, 5, 2, 576),
            (convgrouped_dgrad_f16_w8_5x5_s1_sm90, dgrad, f16, 8, 5, 1, 576),
            (convgrouped_wgrad_f16_w8_5x5_s1_sm90, wgrad, f16, 8, 5, 1, 512),
            (convgrouped_wgrad_f16_w8_5x5_s2_sm90, wgrad, f16, 8, 5, 2, 512),
            (convgrouped_fprop_f16_w8_7x7_s1_sm90, fprop, f16, 8, 7, 1, 320),
            (convgrouped_dgrad_f16_w8_7x7_s1_sm90, dgrad, f16, 8, 7, 1, 320),
            (convgrouped_wgrad_f16_w8_7x7_s1_sm90, wgrad, f16, 8, 7, 1, 256),
        }
    };
}
