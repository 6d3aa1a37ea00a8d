//! Launch parameters, kernel list and shared-memory layout of `diagonal_mma`.

use super::ConvPass;

/// Threads of a block.
pub const DIAGONAL_THREADS: u32 = 128;
/// Channels of a block, eight a warp.
pub const DIAGONAL_SLICE: u32 = 32;
/// Distance of pixels in shared memory: their 64 bytes and 16 more, so that eight neighbours lie in different banks.
pub const DIAGONAL_PIXEL_BYTES: u32 = 80;
/// Columns of the target that half a product takes.
pub const DIAGONAL_UNIT: u32 = 8;
/// Steps whose rows are on their way while one is computed.
pub const DIAGONAL_AHEAD: u32 = 3;
/// Rows of results that have a place: one is written to, the other is on its way out.
pub const DIAGONAL_RESULTS: u32 = 2;
/// Bytes of an entry of the tables of pixels.
pub const DIAGONAL_PIXEL_ENTRY: u32 = 16;
/// Bytes of an entry of the table of units.
pub const DIAGONAL_UNIT_ENTRY: u32 = 4;

crate::abi_struct! {
    /// Launch parameters of `diagonal_mma`.
    ///
    /// The *source* is gathered: x in `fprop` and `wgrad`, dy in `dgrad`. The *target* is the other image: y, dx, dy.
    /// A *row* holds the same row of `images` images, or a part of one: all columns that a *tile* of the target's
    /// columns meets. *Step* u of such a group of images brings the `stride` rows of the source that end with row
    /// `stride · (u + 1) - 1 - padding`, whose windows are of rows u and before of the target; a *band* is a range of
    /// steps, and an *item* a band of a tile of a group.
    pub struct ConvDiagonalParams {
        /// The source.
        pub source: u64,
        /// The target.
        pub target: u64,
        /// w, or dw, which `wgrad` writes where there is a single slab.
        pub filter: u64,
        /// Partial sums of `wgrad` where there are several: f32 `[slab][K][R][S]`.
        pub partials: u64,
        /// N.
        pub n: u32,
        /// C = K.
        pub channels: u32,
        /// Height and width of the source.
        pub source_extents: [u32; 2],
        /// Height and width of the target.
        pub target_extents: [u32; 2],
        /// Rows and columns before the source.
        pub padding: [u32; 2],
        /// 1 when the filter is read from its far end.
        pub flip: u32,
        /// Images of a row.
        pub images: u32,
        /// Groups of eight columns of the target in an image's tile.
        pub units: u32,
        /// Tiles of columns.
        pub tiles: u32,
        /// Columns of the source that are copied, counted from a tile's first: all that may exist.
        pub source_columns: [u32; 2],
        /// How many columns of the target are copied.
        pub target_columns: u32,
        /// Steps of a group of images; those behind the last row of the target not counted.
        pub steps: u32,
        /// Steps of a band.
        pub band_steps: u32,
        /// Bands of a group of images.
        pub bands: u32,
        /// Items of a slice of channels.
        pub items: u32,
        /// Blocks that share the items of a slice of channels.
        pub slabs: u32,
        /// Slices of channels.
        pub slices: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
        /// Not used: makes the size a multiple of the alignment.
        pub unused: u32,
    }
}

/// A filter's extent and its stride along both axes: what a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagonalTaps {
    /// R = S.
    pub extent: u32,
    /// 1 or 2.
    pub stride: u32,
}

impl DiagonalTaps {
    /// Rows of the target that a row of the source may meet.
    #[inline(always)]
    pub const fn held(self) -> u32 {
        self.extent.div_ceil(self.stride)
    }

    /// Taps of a row by twos.
    #[inline(always)]
    pub const fn pairs(self) -> u32 {
        self.extent.div_ceil(2)
    }

    /// Columns of the source that the units of an image meet.
    #[inline(always)]
    pub const fn columns(self, units: u32) -> u32 {
        let columns = self.stride * (DIAGONAL_UNIT * units - 1) + 2 * self.pairs();
        columns.next_multiple_of(self.stride)
    }

    /// Where a column of the source stands in its row in shared memory. With stride 2 odd columns stand behind even
    /// ones, so that neighbouring windows begin at neighbouring pixels.
    #[inline(always)]
    pub const fn column_bytes(self, units: u32, column: u32) -> u32 {
        let place = if self.stride == 1 { column } else { column % 2 * (self.columns(units) / 2) + column / 2 };
        place * DIAGONAL_PIXEL_BYTES
    }
}

impl ConvDiagonalParams {
    /// Units of a row, the one that fills up the last product too.
    #[inline(always)]
    pub const fn row_units(&self) -> u32 {
        (self.images * self.units).next_multiple_of(2)
    }

    /// Pixels of the source that are copied for a row.
    #[inline(always)]
    pub const fn source_pixels(&self) -> u32 {
        self.images * self.source_columns[1]
    }

    /// Pixels of the target that are copied for a row.
    #[inline(always)]
    pub const fn target_pixels(&self) -> u32 {
        self.images * self.target_columns
    }

    /// Where the table of the target's pixels begins, behind that of the source's.
    #[inline(always)]
    pub const fn target_table_at(&self) -> u32 {
        DIAGONAL_PIXEL_ENTRY * self.source_pixels()
    }

    /// Where the table of units begins.
    #[inline(always)]
    pub const fn unit_table_at(&self) -> u32 {
        self.target_table_at() + DIAGONAL_PIXEL_ENTRY * self.target_pixels()
    }

    /// Where rows of the source begin.
    #[inline(always)]
    pub const fn source_at(&self) -> u32 {
        (self.unit_table_at() + DIAGONAL_UNIT_ENTRY * self.row_units()).next_multiple_of(16)
    }

    /// Bytes of an image's row of the source.
    #[inline(always)]
    pub const fn source_image_bytes(&self, taps: DiagonalTaps) -> u32 {
        taps.columns(self.units) * DIAGONAL_PIXEL_BYTES
    }

    /// Bytes of a row of the source.
    #[inline(always)]
    pub const fn source_row_bytes(&self, taps: DiagonalTaps) -> u32 {
        self.images * self.source_image_bytes(taps)
    }

    /// Steps whose rows of the source have a place.
    #[inline(always)]
    pub const fn source_slots() -> u32 {
        DIAGONAL_AHEAD + 1
    }

    /// Where rows of the target begin.
    #[inline(always)]
    pub const fn target_at(&self, taps: DiagonalTaps) -> u32 {
        self.source_at() + Self::source_slots() * taps.stride * self.source_row_bytes(taps)
    }

    /// Bytes of a row of the target.
    #[inline(always)]
    pub const fn target_row_bytes(&self) -> u32 {
        self.row_units() * DIAGONAL_UNIT * DIAGONAL_PIXEL_BYTES
    }

    /// Rows of dy that have a place in `wgrad`.
    #[inline(always)]
    pub const fn target_slots(taps: DiagonalTaps) -> u32 {
        taps.held() + DIAGONAL_AHEAD
    }

    /// Dynamic shared memory of a block.
    #[inline(always)]
    pub const fn smem_bytes(&self, taps: DiagonalTaps, pass: ConvPass) -> u32 {
        let rows = match pass {
            ConvPass::Wgrad => Self::target_slots(taps),
            ConvPass::Fprop | ConvPass::Dgrad => DIAGONAL_RESULTS,
        };
        self.target_at(taps) + rows * self.target_row_bytes()
    }
}

/// Calls `$callback!` with one row per kernel of `fprop`, and of `dgrad` with stride 1, where it takes less time than
/// scalar sums do: symbol, filter extent, stride, pairs of units that a row may have, blocks of a multiprocessor that its
/// registers allow, element type.
#[macro_export]
macro_rules! conv_diagonal_gather_kernels {
    ($callback:ident) => {
        $callback! {
            (convdiagonal_gather_bf16_5x5_s2, 5, 2, 4, 3, bf16),
            (convdiagonal_gather_bf16_7x7_s1, 7, 1, 2, 3, bf16),
            (convdiagonal_gather_bf16_7x7_s2, 7, 2, 2, 3, bf16),
            (convdiagonal_gather_f16_5x5_s2, 5, 2, 4, 3, f16),
            (convdiagonal_gather_f16_7x7_s1, 7, 1, 2, 3, f16),
            (convdiagonal_gather_f16_7x7_s2, 7, 2, 2, 3, f16),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `wgrad`: symbol, filter extent, stride, blocks of a multiprocessor that
/// its registers allow, element type.
#[macro_export]
macro_rules! conv_diagonal_wgrad_kernels {
    ($callback:ident) => {
        $callback! {
            (convdiagonal_wgrad_bf16_3x3_s1, 3, 1, 5, bf16),
            (convdiagonal_wgrad_bf16_3x3_s2, 3, 2, 5, bf16),
            (convdiagonal_wgrad_bf16_5x5_s1, 5, 1, 4, bf16),
            (convdiagonal_wgrad_bf16_5x5_s2, 5, 2, 4, bf16),
            (convdiagonal_wgrad_bf16_7x7_s1, 7, 1, 3, bf16),
            (convdiagonal_wgrad_bf16_7x7_s2, 7, 2, 3, bf16),
            (convdiagonal_wgrad_f16_3x3_s1, 3, 1, 5, f16),
            (convdiagonal_wgrad_f16_3x3_s2, 3, 2, 5, f16),
            (convdiagonal_wgrad_f16_5x5_s1, 5, 1, 4, f16),
            (convdiagonal_wgrad_f16_5x5_s2, 5, 2, 4, f16),
            (convdiagonal_wgrad_f16_7x7_s1, 7, 1, 3, f16),
            (convdiagonal_wgrad_f16_7x7_s2, 7, 2, 3, f16),
        }
    };
}
