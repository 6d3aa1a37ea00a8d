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
        /// Partial sums of `wgrad`: f32 `[slab][K][T][R][S][C / G]`; of f32, the gradient itself where there is one slab, or
        /// the slabs are added up within a cluster.
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
        /// 1 in a `dgrad` of f32 whose classes are columns beside each other, with the channels of each, and whose rows are
        /// positions of all of them: the table of taps then has the [`CpAsyncMmaParams::spread`] distances that a tap of
        /// any class has.
        pub spread_classes: u32,
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
        /// 1 when neighbouring channels of the target may be written as one: two of 16 bits, or four of f32; in `wgrad`
        /// of f32, elements of the gradient.
        pub wide_stores: u32,
        /// Elements of a copy of the source, where the kernel takes copies of any size.
        pub source_elems: u32,
        /// Elements of a copy of the other operand.
        pub other_elems: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
    }
}

/// Length of the sums between two barriers.
pub const CP_ASYNC_K: u32 = 32;
/// Bytes of an entry of the tables, and of the word that belongs to it in a second one.
pub const CP_ASYNC_ENTRY_BYTES: u32 = 16;

/// A block's square tile, and how its operands lie in shared memory.
///
/// Rows of 16-bit elements are 16 bytes further apart than they are long: `ldmatrix` finds eight of them in different
/// banks. Those of f32 lie without gaps; their pieces of 16 bytes are permuted such that fragments are read, and pieces
/// written, without a conflict of banks. [`CpAsyncTile::along`] and [`CpAsyncTile::across`] say where an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpAsyncTile {
    /// Rows and columns.
    pub size: u32,
    /// Bytes of an element: 2 or 4.
    pub elem_bytes: u32,
    /// Groups of warps that share the terms of a stage.
    pub depth: u32,
}

impl CpAsyncTile {
    /// A tile of elements of 2 or 4 bytes.
    pub const fn new(size: u32, elem_bytes: u32) -> Self {
        CpAsyncTile { size, elem_bytes, depth: 1 }
    }

    /// Threads of a block: a warp for 64 × 32 elements of the large tile, and for 32 × 32 of the small one, in each group.
    pub const fn threads(self) -> u32 {
        2 * self.size * self.depth
    }

    /// Tiles in shared memory: the one that is computed with, and those under way. Of the larger elements fewer, so that
    /// four blocks of the small tile find room, and one of the large tile does where a block may have 99 KB.
    pub const fn stages(self) -> u32 {
        if self.elem_bytes == 2 { 4 } else { 3 }
    }

    /// Bytes between rows that hold `elems` elements.
    const fn pitch(self, elems: u32) -> u32 {
        elems * self.elem_bytes + if self.elem_bytes == 2 { 16 } else { 0 }
    }

    /// Distance of rows in shared memory that hold [`CP_ASYNC_K`] elements of the sum.
    pub const fn row_bytes(self) -> u32 {
        self.pitch(CP_ASYNC_K)
    }

    /// Distance of rows of a tile whose contiguous dimension is not the one that is summed over.
    pub const fn wide_row_bytes(self) -> u32 {
        self.pitch(self.size)
    }

    /// Where an element lies in an operand whose rows hold [`CP_ASYNC_K`] elements of the sum.
    #[inline(always)]
    pub const fn along(self, row: u32, column: u32) -> u32 {
        if self.elem_bytes == 2 {
            return row * self.row_bytes() + 2 * column;
        }
        row * self.row_bytes() + ((column / 4) ^ (row % 8)) * 16 + column % 4 * 4
    }

    /// Where an element lies in an operand with a row for each element of the sum.
    #[inline(always)]
    pub const fn across(self, row: u32, column: u32) -> u32 {
        if self.elem_bytes == 2 {
            return row * self.wide_row_bytes() + 2 * column;
        }
        row * self.wide_row_bytes() + ((column / 4) ^ (2 * (row % 4))) * 16 + column % 4 * 4
    }

    /// Bytes of one operand in one stage.
    pub const fn operand_bytes(self, sums_contiguous: bool) -> u32 {
        if sums_contiguous { self.size * self.row_bytes() } else { CP_ASYNC_K * self.wide_row_bytes() }
    }

    /// Entries of the table of pixels: those of the tile, or in `wgrad` those of every stage.
    pub const fn pixel_entries(self, pass: ConvPass) -> u32 {
        match pass {
            ConvPass::Wgrad => self.stages() * CP_ASYNC_K,
            _ => self.size,
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
        self.stages_at(taps, pass) + self.stages() * self.stage_bytes(pass)
    }
}

impl CpAsyncMmaParams {
    /// T · R · S.
    #[inline(always)]
    pub const fn taps(&self) -> u32 {
        self.filter_extents[0] * self.filter_extents[1] * self.filter_extents[2]
    }

    /// Along an axis of a `dgrad` with a dilation of 1: the least distance, in positions of the source, of a tap from where
    /// its class stands, and how many distances there are.
    #[inline(always)]
    pub const fn spread(&self, axis: usize) -> (i32, u32) {
        let (stride, last) = (self.stride[axis] as i32, self.filter_extents[axis] as i32 - 1);
        // Divided by the stride and rounded down.
        let least = (self.padding[axis] - last + stride * last) / stride - last;
        let most = (self.padding[axis] + stride - 1) / stride;
        (least, (most - least + 1) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements do not share a place, and lie within their operand.
    #[test]
    fn places_are_distinct() {
        for tile in [CpAsyncTile::new(64, 2), CpAsyncTile::new(64, 4), CpAsyncTile::new(128, 4)] {
            let places = |rows: u32, columns: u32, place: &dyn Fn(u32, u32) -> u32, bytes: u32| {
                let all = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
                let mut all: Vec<u32> = all.map(|(row, column)| place(row, column)).collect();
                assert!(all.iter().all(|at| at % tile.elem_bytes == 0 && at + tile.elem_bytes <= bytes), "{tile:?}");
                all.sort_unstable();
                all.dedup();
                assert_eq!(all.len() as u32, rows * columns, "{tile:?}");
            };
            places(tile.size, CP_ASYNC_K, &|row, column| tile.along(row, column), tile.operand_bytes(true));
            places(CP_ASYNC_K, tile.size, &|row, column| tile.across(row, column), tile.operand_bytes(false));
        }
    }

    /// The eight lanes that read 16 bytes each at a time find them in different banks.
    #[test]
    fn fragments_of_f32_have_no_conflicts() {
        let tile = CpAsyncTile::new(64, 4);
        let distinct = |places: [u32; 8]| {
            let mut banks = places.map(|at| at / 16 % 8);
            banks.sort_unstable();
            assert_eq!(banks, [0, 1, 2, 3, 4, 5, 6, 7]);
        };
        for piece in 0..8 {
            distinct(std::array::from_fn(|row| tile.along(row as u32, 4 * piece)));
            distinct(std::array::from_fn(|i| tile.along(3, 4 * i as u32)));
            distinct(std::array::from_fn(|i| tile.across(piece, 4 * i as u32)));
        }
        for pair in 0..4 {
            distinct(std::array::from_fn(|lane| tile.across(lane as u32 % 4, 4 * (2 * pair + lane as u32 / 4))));
        }
    }
}
