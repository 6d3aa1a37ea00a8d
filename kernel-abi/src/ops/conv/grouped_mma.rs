//! Launch parameters and shared-memory layout of the kernels for narrow groups.

use super::ConvPass;

/// Threads of a block.
pub const GROUPED_THREADS: u32 = 256;
/// Channels that a block works on: what eight copies of 16 bytes bring of a pixel.
pub const GROUPED_SLICE: u32 = 64;
/// Distance of pixels in shared memory: their 128 bytes and 16 more, so that eight neighbours lie in different banks.
pub const GROUPED_PIXEL_BYTES: u32 = 144;
/// Positions of one product.
pub const GROUPED_ROWS: u32 = 16;
/// Tiles in shared memory: the one that is computed with, and the one that is loaded.
pub const GROUPED_STAGES: u32 = 2;

crate::abi_struct! {
    /// Launch parameters of the kernels for narrow groups, all passes.
    ///
    /// The *source* is the tensor whose positions are gathered: x in `fprop` and `wgrad`, dy in `dgrad`. *Positions*
    /// are those of the other one, which `fprop` and `dgrad` write: y, dx, dy. In `dgrad` with stride 2, positions of
    /// the tile are cells of 2 × 2 elements of dx.
    pub struct GroupedMmaParams {
        /// The source.
        pub source: u64,
        /// w; not used by `wgrad`.
        pub filter: u64,
        /// The tensor of positions.
        pub target: u64,
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
        /// Height and width of the source.
        pub source_extents: [u32; 2],
        /// Height and width of the positions' tensor.
        pub target_extents: [u32; 2],
        /// Source position of output position 0 and tap 0, counted negative: may itself be negative.
        pub padding: [i32; 2],
        /// Distance of neighbouring windows in the source.
        pub stride: [u32; 2],
        /// Distance of neighbouring taps in the source.
        pub dilation: [u32; 2],
        /// Elements of the target along each axis that a position of a tile stands for: 2 for cells, else 1.
        pub cell: [u32; 2],
        /// In `dgrad` with stride 2, 1 where the first cell begins one element before dx.
        pub cell_shift: [u32; 2],
        /// Images, rows and columns of positions in a tile.
        pub tile: [u32; 3],
        /// Rows and columns of source pixels that a tile meets in an image.
        pub halo: [u32; 2],
        /// Bytes between rows of source pixels in shared memory: such that positions that follow each other around a
        /// row's end lie in different banks as others do.
        pub row_bytes: u32,
        /// Bytes between images, likewise.
        pub image_bytes: u32,
        /// With a stride of 2 along rows, the number of even columns: odd ones stand behind them, so that neighbouring
        /// windows begin at neighbouring pixels. Else 0.
        pub even_columns: u32,
        /// Number of tiles along images, rows and columns.
        pub n_tiles: [u32; 3],
        /// Blocks that share the tiles of a slice of channels.
        pub slabs: u32,
        /// Slices of channels.
        pub slices: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
    }
}

impl GroupedMmaParams {
    /// Pixels of the source in a tile.
    #[inline(always)]
    pub const fn halo_pixels(&self) -> u32 {
        self.tile[0] * self.halo[0] * self.halo[1]
    }

    /// Positions in a tile.
    #[inline(always)]
    pub const fn positions(&self) -> u32 {
        self.tile[0] * self.tile[1] * self.tile[2]
    }

    /// Positions in a tile, with those that fill up its last product.
    #[inline(always)]
    pub const fn padded_positions(&self) -> u32 {
        self.positions().next_multiple_of(GROUPED_ROWS)
    }

    /// Where the table of the positions' offsets in the tile begins, behind that of source pixels.
    #[inline(always)]
    pub const fn offsets_at(&self) -> u32 {
        8 * self.halo_pixels()
    }

    /// Where the table of the positions' places begins.
    #[inline(always)]
    pub const fn places_at(&self) -> u32 {
        self.offsets_at() + 4 * self.padded_positions()
    }

    /// Where the table of the positions' indices, counted from the tile's first, begins.
    #[inline(always)]
    pub const fn indices_at(&self) -> u32 {
        self.places_at() + 4 * self.padded_positions()
    }

    /// Where the tiles begin.
    #[inline(always)]
    pub const fn tiles_at(&self) -> u32 {
        (self.indices_at() + 4 * self.padded_positions()).next_multiple_of(16)
    }

    /// Bytes of the source's part of a tile.
    #[inline(always)]
    pub const fn halo_bytes(&self) -> u32 {
        self.tile[0] * self.image_bytes
    }

    /// Where a column of source pixels stands in its row in shared memory.
    #[inline(always)]
    pub const fn column_bytes(&self, column: u32) -> u32 {
        if self.even_columns == 0 {
            column * GROUPED_PIXEL_BYTES
        } else {
            (column % 2 * self.even_columns + column / 2) * GROUPED_PIXEL_BYTES
        }
    }

    /// Bytes of a tile: `wgrad` keeps the positions' tensor there too.
    #[inline(always)]
    pub const fn stage_bytes(&self, with_target: bool) -> u32 {
        let target = if with_target { self.padded_positions() * GROUPED_PIXEL_BYTES } else { 0 };
        self.halo_bytes() + target
    }

    /// Dynamic shared memory of a block.
    pub const fn smem_bytes(&self, pass: ConvPass) -> u32 {
        self.tiles_at() + GROUPED_STAGES * self.stage_bytes(matches!(pass, ConvPass::Wgrad))
    }

    /// Number of tiles of a slice.
    #[inline(always)]
    pub const fn tiles(&self) -> u32 {
        self.n_tiles[0] * self.n_tiles[1] * self.n_tiles[2]
    }
}

/// Three small numbers in one word: image, row and column within a tile.
#[inline(always)]
pub const fn pack_place(n: u32, row: u32, col: u32) -> u32 {
    n << 24 | row << 12 | col
}

/// What [`pack_place`] packed.
#[inline(always)]
pub const fn unpack_place(place: u32) -> [u32; 3] {
    [place >> 24, place >> 12 & 0xfff, place & 0xfff]
}

/// The place, and the index, of positions that only fill up a product: no tile is as large.
pub const NO_PLACE: u32 = u32::MAX;

crate::abi_struct! {
    /// Launch parameters of the kernels that add up partial sums of `wgrad`.
    pub struct SplitReduceParams {
        /// f32 `[slab][element]`.
        pub partials: u64,
        /// dw, dense, its elements in the order of the partial sums.
        pub target: u64,
        /// Elements of dw.
        pub n_elems: u64,
        /// Slabs.
        pub slabs: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of dw's prior value.
        pub beta: f32,
        /// Not used: makes the size a multiple of the alignment.
        pub unused: u32,
    }
}

/// Elements that a block of the adding kernel takes at a time.
pub const REDUCE_ELEMS: u32 = 32;
/// Rows of threads of such a block, which share the slabs.
pub const REDUCE_ROWS: u32 = 8;

/// Warps of `wgrad` that share a tile's positions; each writes a slab of its own.
#[inline(always)]
pub const fn wgrad_row_parts(kernel_width: u32) -> u32 {
    if kernel_width == 32 { 1 } else { 2 }
}
