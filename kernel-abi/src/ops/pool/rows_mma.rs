//! Launch parameters, kernel list and shared-memory layout of `rows_mma`.

use crate::division::Divisor;

/// Channels that a block works on at a time: a swizzled row of shared memory.
pub const ROWS_MMA_SLICE: u32 = 64;
/// Channels of a warp.
pub const ROWS_MMA_CHANNELS: u32 = 16;
/// Warps that share a slice out.
pub const ROWS_MMA_PARTS: u32 = ROWS_MMA_SLICE / ROWS_MMA_CHANNELS;
/// Bytes of a column's channels in shared memory.
pub const ROWS_MMA_COLUMN_BYTES: u32 = 2 * ROWS_MMA_SLICE;
/// Windows of a span: what a product adds up over.
pub const ROWS_MMA_SPAN: u32 = 16;
/// Windows from one span to the next: the first columns that a span meets get the rest from the one before.
pub const ROWS_MMA_STEP: u32 = ROWS_MMA_SPAN - ROWS_MMA_HALO;
/// Windows before one that meet elements which it is the last to meet: windows are 3 wide, 1 apart.
pub const ROWS_MMA_HALO: u32 = 2;
/// Warps that compute, at most.
pub const ROWS_MMA_WARPS: u32 = 16;
/// Warps that do not: one brings rows, one takes those of results away, and two make them a warpgroup, which leaves registers to
/// the others.
pub const ROWS_MMA_MOVERS: u32 = 4;
/// Rows of results that have a place in shared memory.
pub const ROWS_MMA_RESULTS: u32 = 4;
/// Period of the swizzle: images begin at multiples of it.
const PERIOD: u32 = 1024;
/// Columns in front of the first image's: one of them stands for what is left of it.
pub const ROWS_MMA_MARGIN: u32 = PERIOD / ROWS_MMA_COLUMN_BYTES;
/// Bytes of a warp where results go that other spans have, or nobody.
pub const ROWS_MMA_SCRAP_BYTES: u32 = 32 * 16;

/// What a block works on at a time, and where in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RowsMmaTile {
    /// Images beside each other.
    pub images: u32,
    /// Spans of an image.
    pub spans: u32,
    /// Rows of dx of a band.
    pub rows: u32,
    /// Rows of x, and of dy, that have a place in shared memory.
    pub stages: u32,
    /// Columns of x and dx.
    pub image_columns: u32,
    /// Columns of dy.
    pub output_columns: u32,
}

impl RowsMmaTile {
    /// Spans of so many columns of dx, windows beginning so much before the first one.
    pub const fn spans_of(columns: u32, padding: u32) -> u32 {
        let spans = (columns + padding - ROWS_MMA_HALO).div_ceil(ROWS_MMA_STEP);
        if spans == 0 { 1 } else { spans }
    }

    /// Columns from one image of x to the next: one or more behind each row stand for what is beside it.
    #[inline(always)]
    pub const fn image_pitch(self) -> u32 {
        (self.image_columns + 1).next_multiple_of(ROWS_MMA_MARGIN)
    }

    /// The same of dy.
    #[inline(always)]
    pub const fn output_pitch(self) -> u32 {
        (self.output_columns + 1).next_multiple_of(ROWS_MMA_MARGIN)
    }

    /// Where, in a stage, a row of dy lies: behind that of x.
    #[inline(always)]
    pub const fn output_at(self) -> u32 {
        (ROWS_MMA_MARGIN + self.images * self.image_pitch()) * ROWS_MMA_COLUMN_BYTES
    }

    /// Bytes of a stage.
    #[inline(always)]
    pub const fn stage_bytes(self) -> u32 {
        self.output_at() + self.images * self.output_pitch() * ROWS_MMA_COLUMN_BYTES
    }

    /// Where rows of results lie on their way out.
    #[inline(always)]
    pub const fn results_at(self) -> u32 {
        self.stages * self.stage_bytes()
    }

    /// Bytes of a row of results.
    #[inline(always)]
    pub const fn result_bytes(self) -> u32 {
        (self.images * self.image_columns * ROWS_MMA_COLUMN_BYTES).next_multiple_of(PERIOD)
    }

    /// Where results go that nobody has.
    #[inline(always)]
    pub const fn scrap_at(self) -> u32 {
        self.results_at() + ROWS_MMA_RESULTS * self.result_bytes()
    }

    /// Warps that compute.
    #[inline(always)]
    pub const fn warps(self) -> u32 {
        self.images * self.spans * ROWS_MMA_PARTS
    }

    /// Where the barriers lie: two a stage, and two a row of results.
    #[inline(always)]
    pub const fn barriers_at(self) -> u32 {
        self.scrap_at() + self.warps() * ROWS_MMA_SCRAP_BYTES
    }

    /// Dynamic shared memory of a block, with what aligns it.
    pub const fn smem_bytes(self) -> u32 {
        PERIOD + self.barriers_at() + 16 * (self.stages + ROWS_MMA_RESULTS)
    }
}

crate::abi_struct! {
    /// Launch parameters of `rows_mma`. Spatial arrays are height, width. The maps stand first: the hardware wants each at an
    /// address that is a multiple of 64.
    pub struct PoolRowsMmaParams {
        /// Map of x, `[C, W, H, N]`, fastest first, for a row of an image.
        pub x_map: [u64; 16],
        /// Map of dy, likewise.
        pub dy_map: [u64; 16],
        /// Map of dx, for a row of a tile's images.
        pub dx_map: [u64; 16],
        /// Extents of x and dx.
        pub image: [u32; 2],
        /// Extents of dy.
        pub output: [u32; 2],
        /// Positions that the first window begins before the first element.
        pub padding: [u32; 2],
        /// What a block works on at a time.
        pub tile: RowsMmaTile,
        /// Spans of an image.
        pub spans: Divisor,
        /// Slices of channels.
        pub slices: Divisor,
        /// Bands of an image.
        pub bands: Divisor,
        /// Bands of all images and slices.
        pub n_items: u32,
        /// Not used: makes the size a multiple of the alignment.
        pub unused: u32,
    }
}
