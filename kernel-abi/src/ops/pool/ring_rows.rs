//! Launch parameters and shared-memory layout of `ring_rows`.

use crate::division::Divisor;

/// Rows and columns of a window.
pub const RING_ROWS_SIDE: u32 = 3;
/// Rows and columns from one window to the next.
pub const RING_ROWS_STRIDE: u32 = 2;
/// Windows before one, along an axis, that meet elements which it is the last to meet.
pub const RING_ROWS_HALO: u32 = 1;
/// Bytes of a column's channels in shared memory: a swizzled row.
pub const RING_ROWS_COLUMN_BYTES: u32 = 128;
/// Vectors of 16 bytes of channels that a block works on at a time.
pub const RING_ROWS_VECTORS: u32 = RING_ROWS_COLUMN_BYTES / 16;
/// Vectors of a warp.
pub const RING_ROWS_LANES: u32 = 4;
/// Warps that share a slice of channels out.
pub const RING_ROWS_PARTS: u32 = RING_ROWS_VECTORS / RING_ROWS_LANES;
/// Columns of windows of a warp.
pub const RING_ROWS_SPAN: u32 = 32 / RING_ROWS_LANES;
/// Columns of windows from one span to the next: the first of a span repeats the last of the span before.
pub const RING_ROWS_STEP: u32 = RING_ROWS_SPAN - RING_ROWS_HALO;
/// Warps that compute, at most.
pub const RING_ROWS_WARPS: u32 = 8;
/// Warps that do not: one brings rows, one takes those of results away, and two make them a warpgroup, which leaves registers
/// to the others.
pub const RING_ROWS_MOVERS: u32 = 4;
/// Blocks of a multiprocessor.
pub const RING_ROWS_BLOCKS: u32 = 2;
/// Steps' results that have a place in shared memory.
pub const RING_ROWS_RESULTS: u32 = 2;
/// Period of the swizzle: what the copy engine moves lies at multiples of it.
const PERIOD: u32 = 1024;
/// The same in columns.
pub const RING_ROWS_PERIOD: u32 = PERIOD / RING_ROWS_COLUMN_BYTES;
/// The column of a stage that stands for those beside the image. No copy writes it.
pub const RING_ROWS_OUTSIDE: u32 = 0;
/// The one that stands for dy of windows that are none.
pub const RING_ROWS_NO_WINDOW: u32 = 1;

/// What a block works on at a time, and where in shared memory. Images are cut into tiles of columns of dx; of x and dy, a tile
/// has what its windows have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RingRowsTile {
    /// Images beside each other.
    pub images: u32,
    /// Spans of windows of an image.
    pub spans: u32,
    /// Steps that have a place in shared memory: two rows of x and one of dy each.
    pub stages: u32,
    /// Columns of dx: even, unless there is one tile.
    pub columns: u32,
    /// Columns of x that are brought.
    pub image_columns: u32,
    /// Columns of dy that are brought.
    pub output_columns: u32,
    /// The first ones of the first tile, which may lie before the image's.
    pub image_begin: i32,
    /// The same of dy.
    pub output_begin: i32,
}

impl RingRowsTile {
    /// Windows of so many spans.
    pub const fn windows_of(spans: u32) -> u32 {
        RING_ROWS_SPAN + (spans - 1) * RING_ROWS_STEP
    }

    /// The first window that meets a tile, of the first one, where windows begin so much before the image.
    #[inline(always)]
    pub const fn first_window(padding: u32) -> i32 {
        if padding == 0 { -1 } else { 0 }
    }

    /// The column, from the begin of a step's results on, where a row of them lies.
    #[inline(always)]
    pub const fn result_at(self, row: u32) -> u32 {
        row * (self.images * self.columns).next_multiple_of(RING_ROWS_PERIOD)
    }

    /// The column, from a stage's begin on, where a row of x lies, or, behind the rows of x, that of dy.
    #[inline(always)]
    pub const fn row_at(self, row: u32) -> u32 {
        RING_ROWS_PERIOD + row * (self.images * self.image_columns).next_multiple_of(RING_ROWS_PERIOD)
    }

    /// Bytes of a stage.
    #[inline(always)]
    pub const fn stage_bytes(self) -> u32 {
        let columns = self.row_at(RING_ROWS_STRIDE) + self.images * self.output_columns;
        columns.next_multiple_of(RING_ROWS_PERIOD) * RING_ROWS_COLUMN_BYTES
    }

    /// Where results lie on their way out.
    #[inline(always)]
    pub const fn results_at(self) -> u32 {
        self.stages * self.stage_bytes()
    }

    /// Bytes of a step's results.
    #[inline(always)]
    pub const fn result_bytes(self) -> u32 {
        self.result_at(RING_ROWS_STRIDE) * RING_ROWS_COLUMN_BYTES
    }

    /// Warps that compute.
    #[inline(always)]
    pub const fn warps(self) -> u32 {
        self.images * self.spans * RING_ROWS_PARTS
    }

    /// Where the barriers lie: two a stage, and two a step's results.
    #[inline(always)]
    pub const fn barriers_at(self) -> u32 {
        self.results_at() + RING_ROWS_RESULTS * self.result_bytes()
    }

    /// Dynamic shared memory of a block, with what aligns it.
    pub const fn smem_bytes(self) -> u32 {
        PERIOD + self.barriers_at() + 16 * (self.stages + RING_ROWS_RESULTS)
    }
}

crate::abi_struct! {
    /// Launch parameters of `ring_rows`. Spatial arrays are height, width. The maps stand first: the hardware wants each at an
    /// address that is a multiple of 64.
    ///
    /// Window `o` owns the rows from its first one to that of window `o + 1`; behind the last window there are others that have
    /// no gradient, as many as there are rows to own.
    pub struct PoolRingRowsParams {
        /// Map of x, `[C, W, H, N]`, fastest first, for a row of a tile's images.
        pub x_map: [u64; 16],
        /// Map of dy, likewise.
        pub dy_map: [u64; 16],
        /// Map of dx, likewise.
        pub dx_map: [u64; 16],
        /// Extents of x and dx.
        pub image: [u32; 2],
        /// Extents of dy.
        pub output: [u32; 2],
        /// Positions that the first window begins before the first element.
        pub padding: [u32; 2],
        /// What a block works on at a time.
        pub tile: RingRowsTile,
        /// Slices of channels, times tiles of columns: blocks beside each other have the same rows.
        pub parts: Divisor,
        /// Slices of channels.
        pub slices: Divisor,
        /// Strips of an image.
        pub strips: Divisor,
        /// Spans of an image's tile.
        pub spans: Divisor,
        /// Rows of windows of a strip.
        pub steps: u32,
        /// Strips that have one more: the first ones.
        pub n_longer: u32,
    }
}
