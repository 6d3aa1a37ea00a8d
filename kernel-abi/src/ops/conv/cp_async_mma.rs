//! Launch parameters and shared-memory layout of the kernels that gather with `cp.async`.

use super::ConvPass;

crate::abi_struct! {
    /// Launch parameters of the kernels that gather with `cp.async`, all passes. Spatial arrays are in the order depth,
    /// height, width.
    ///
    /// The *source* is the tensor that is gathered: x in `fprop` and `wgrad`, dy in `dgrad`. The *target* is the other
    /// one: y, dx, and dy in `wgrad`. All tensors lie channels-last without gaps.
    pub struct CpAsyncMmaParams {
        /// The source.
        pub source: u64,
        /// w; not used by `wgrad`.
        pub filter: u64,
        /// The target.
        pub target: u64,
        /// Partial sums of `wgrad`: f32 `[slab][K][T][R][S][C / G]`.
        pub partials: u64,
        /// N.
        pub n: u32,
        /// Groups.
        pub groups: u32,
        /// Channels of the source, of one group.
        pub source_group: u32,
        /// Channels of the target, of one group.
        pub target_group: u32,
        /// Spatial extents of the source.
        pub source_extents: [u32; 3],
        /// Spatial extents of the target.
        pub target_extents: [u32; 3],
        /// T, R, S.
        pub filter_extents: [u32; 3],
        /// Padding at the begin.
        pub padding: [i32; 3],
        /// Stride.
        pub stride: [u32; 3],
        /// Dilation.
        pub dilation: [u32; 3],
        /// In `dgrad`, positions of dx fall into as many classes along each axis, by their remainder after division
        /// by the stride: those of a class meet the same taps. 1 in the other passes.
        pub classes: [u32; 3],
        /// 1 when the filter is read from its far end.
        pub flip: u32,
        /// Tiles along the rows of the product: pixels, or in `wgrad` channels of dy.
        pub m_tiles: u32,
        /// Tiles along its columns: channels, or in `wgrad` filter elements of a channel of dy.
        pub n_tiles: u32,
        /// In `wgrad`, pixels that a slab adds up: a multiple of [`CP_ASYNC_K`].
        pub slab_pixels: u32,
        /// In `wgrad`, slabs.
        pub slabs: u32,
        /// 1 when two neighbouring channels of the target may be written as one.
        pub pairs: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
    }
}

/// Length of the sums between two barriers.
pub const CP_ASYNC_K: u32 = 32;
/// Tiles in shared memory: the one that is computed with, and those under way.
pub const CP_ASYNC_STAGES: u32 = 4;
/// Distance of rows in shared memory that hold [`CP_ASYNC_K`] elements: eight of them lie in different banks.
pub const CP_ASYNC_ROW_BYTES: u32 = CP_ASYNC_K * 2 + 16;
/// Bytes of an entry of the tables, and of the word that belongs to it in a second one.
pub const CP_ASYNC_ENTRY_BYTES: u32 = 16;

/// Rows and columns of a block's square tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpAsyncTile(pub u32);

impl CpAsyncTile {
    /// Threads of a block: a warp for 64 × 32 elements of the large tile, and for 32 × 32 of the small one.
    pub const fn threads(self) -> u32 {
        2 * self.0
    }

    /// Distance of rows of a tile whose contiguous dimension is not the one that is summed over.
    pub const fn wide_row_bytes(self) -> u32 {
        self.0 * 2 + 16
    }

    /// Bytes of one operand in one stage.
    pub const fn operand_bytes(self, sums_contiguous: bool) -> u32 {
        if sums_contiguous { self.0 * CP_ASYNC_ROW_BYTES } else { CP_ASYNC_K * self.wide_row_bytes() }
    }

    /// Entries of the table of pixels: those of the tile, or in `wgrad` those of every stage.
    pub const fn pixel_entries(self, pass: ConvPass) -> u32 {
        match pass {
            ConvPass::Wgrad => CP_ASYNC_STAGES * CP_ASYNC_K,
            _ => self.0,
        }
    }

    /// Where the table of pixels begins, behind that of taps.
    pub const fn pixels_at(self, taps: u32) -> u32 {
        (taps * (CP_ASYNC_ENTRY_BYTES + 4)).next_multiple_of(16)
    }

    /// Where the stages begin.
    pub const fn stages_at(self, taps: u32, pass: ConvPass) -> u32 {
        self.pixels_at(taps) + self.pixel_entries(pass) * (CP_ASYNC_ENTRY_BYTES + 4)
    }

    /// Bytes of one stage.
    pub const fn stage_bytes(self, pass: ConvPass) -> u32 {
        let (a, b) = match pass {
            ConvPass::Fprop => (true, true),
            ConvPass::Dgrad => (true, false),
            ConvPass::Wgrad => (false, false),
        };
        self.operand_bytes(a) + self.operand_bytes(b)
    }

    /// Dynamic shared memory of a block.
    pub const fn smem_bytes(self, taps: u32, pass: ConvPass) -> u32 {
        self.stages_at(taps, pass) + CP_ASYNC_STAGES * self.stage_bytes(pass)
    }
}

impl CpAsyncMmaParams {
    /// T · R · S.
    #[inline(always)]
    pub const fn taps(&self) -> u32 {
        self.filter_extents[0] * self.filter_extents[1] * self.filter_extents[2]
    }
}
